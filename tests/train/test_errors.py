"""What a user can mend is one line; any other error keeps its traceback."""

import ast
import re
import sys
import tomllib
from pathlib import Path

import pytest

from tests.processes import run
from train import errors
from train.errors import MissingPackage, UserError, install_command, is_mendable, require_package
from train.launch.commands import COMMANDS
from train.launch.help_pages import keys

ROOT = Path(__file__).parents[2]
ROOMS = ("bipe", "segmenters", "train")
SHARED = "trainer=ddp trainer.accelerator=cpu trainer.devices=2 context_parallel=2"


TOLD = [
    # Unknown keys, of the top, of a section and of what is called.
    ("stepz=3", "there is no key 'stepz'; did you mean 'steps'?"),
    ("+foo=1", "foo: the configuration has no such key; there are: allowed_targets, "),
    ("encoding.inter.thetta=1", "RoPE has no such key; did you mean 'theta'?"),
    # Wrong types and choices.
    ("optimizer.betas=[0.9]", "optimizer.betas must be tuple[float, float], was: [0.9]"),
    ("~model", "the configuration also needs model: remove ~model"),
    ("~steps", "the configuration also needs steps: remove ~steps"),
    ("~clip", "the configuration also needs clip; for none, set clip=null"),
    ("~optimizer.weight_decay=7", "The value of 'optimizer.weight_decay' is 0.1 and not 7"),
    ("hydra.foo=1", "there is no hydra.foo; bipe pretrain --cfg hydra shows the keys of Hydra"),
    ("clip=interval(1,2)", "an interval, which is searched by bipe COMMAND -m hydra/sweeper=opt"),
    ("encoding=null", "the configuration also needs encoding"),
    # What other keys decide.
    ("model.encoding={}", "model.encoding cannot be set; set encoding instead"),
    ("trainer.max_steps=3", "trainer.max_steps cannot be set; set steps instead"),
    ("rows.seed=3", "rows.seed cannot be set; set seed instead"),
    # Values out of bounds.
    ("steps=0", "steps must be at least 1, was: 0"),
    ("model.n_head=3", "width must be a multiple of n_head (3), was: 32"),
    ("model.vocab_size=10", "model.vocab_size must be at least that of the data ("),
    ("rows.micro_batch=3", "rows.micro_batch x devices (3), was: 4; set rows.micro_batch=2"),
    ("rows.micro_batch=0", "rows.micro_batch must be at least 1 or one of auto, was: 0"),
    ("trainer=ddp trainer.accelerator=cpu trainer.devices=3 rows.micro_batch=auto",
     "rows.global_batch must be a multiple of devices (3), was: 4; set rows.global_batch=3"),
    ("rows.packing=tight", "must be one of concat, best_fit, long_first, single, was: 'tight'"),
    ("rows.sources={prose: 1.0}", "prose"),
    ("encoding.intra.length=0", "encoding.intra: length must be at least 1, was: 0"),
    ("encoding=bilevel encoding@encoding.intra=rope encoding@encoding.inter=pope",
     "encoding: PoPE (PolarRotation) cannot be combined with another rotation"),
    ("attention=bias_row", "attention: attention path 'bias_row' needs a linear bias"),
    ("positions=pose positions.chunks=1", "positions: chunks must be at least 2"),
    # What Lightning and the machine do not have.
    ("trainer.accelerator=gpu", "trainer: No supported gpu backend found!"),
    ("trainer.precision=16-mixed", "trainer.precision must be auto, 32-true or bf16-mixed"),
    ("trainer=fsdp2 trainer.accelerator=cpu", "must be a number of processes on a CPU, was: -1"),
    ("checkpoints=sharded", "checkpoints=sharded needs a sharded model"),
    ("data=/nowhere", "/nowhere/manifest.json is missing"),
    ("data=[]", "data must name at least one folder"),
    # The loss, the rows and the loggers.
    ("z_loss=inf", "z_loss must be 0 or more, was: inf"),
    ("rows.epochs=2", "rows.epochs cannot be set; set epochs instead"),
    ("rows.curriculum=[{length: 7, steps: 1}]", "must divide row_length (64) and be below it"),
    ("rows.curriculum=[{length: 8, steps: 6}]", "takes 6 steps before rows have row_length"),
    ("rows.temperature=0", "rows.sources must be a list or null"),
    ("+logger.own.offline=true", "logger.own must name a class"),
    ("+logger.own._target_=train.fit.module.LMModule", "must name a subclass of"),
    ("+callbacks.mine._target_=train.fit.module.LMModule", "must name a subclass of Callb"),
    ("+callbacks.mine.every=3", "callbacks.mine must name a class with _target_"),
    ("logger=csv +logger.csv.x=1", "CSVLogger has no such key"),
    # Two devices that share each row.
    (f"{SHARED} trainer.devices=1", "context_parallel must divide the number of devices (1)"),
    (f"{SHARED} rows.global_batch=6", "micro_batch x devices / context_parallel (4), was: 6"),
]  # fmt: skip


@pytest.mark.parametrize(("words", "told"), TOLD)
def test_a_mistake_is_told_in_one_line(refused, words, told):
    found = refused("pretrain", *words.split()) if "{" not in words else refused("pretrain", words)
    assert told in found and len(found.splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("row_length=62", "multiples of 2 x context_parallel (4), was: 62"),
        ("attention=causal", "context_parallel: attention must be one of"),
    ],
)
def test_a_mistake_that_the_ranks_find_is_told_in_one_line(smoke, tmp_path, words, told):
    start = [sys.executable, "-m", "train.cli", "pretrain", "experiment=smoke", *smoke]
    found = run([*start, *SHARED.split(), words], cwd=tmp_path, capture_output=True, text=True)
    assert (found.returncode, found.stdout) == (2, "")
    assert told in found.stderr.splitlines()[-1] and "Traceback" not in found.stderr
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize(
    "words", [("seed=x", "clip=0", "rows.verify=3"), ("model.n_layer=abc", "optimizer.lrr=1")]
)
def test_all_faults_are_told_at_once(refused, words):
    """Those of plain keys, without torch; if there are none, those of what they call."""
    told = refused("pretrain", *words)
    assert told.splitlines()[0] == f"{len(words)} errors:"
    assert len(told.splitlines()) == 1 + len(words)


@pytest.mark.parametrize(
    ("command", "place", "kind"),
    [
        ("pretrain", "bipe.Decoder.forward", OSError),
        ("evaluate", "train.fit.checkpoints.find_places", ValueError),
    ],
)
def test_a_fault_of_ours_keeps_its_traceback(bipe, monkeypatch, command, place, kind):
    def broken(*_, **__):
        raise kind("planted")

    monkeypatch.setattr(place, broken)
    with pytest.raises(kind, match="planted"):
        bipe(command, "steps=1")


def test_what_a_user_can_mend_is_known_by_its_kind():
    from bipe.checkpoint import CheckpointError
    from segmenters import SegmenterError

    mendable = (UserError("x"), MissingPackage("x"), SegmenterError("x"), CheckpointError("x"))
    assert all(map(is_mendable, (*mendable, FileNotFoundError(2, "no such file", "x.txt"))))
    ours = (ValueError("x"), OSError("x"), ImportError("x"), RuntimeError("x"), TypeError("x"))
    assert not any(map(is_mendable, ours))


def test_a_missing_package_comes_with_the_command_that_installs_it():
    with pytest.raises(MissingPackage) as fault:
        require_package("no_such_module", extra="scrolls", needed_by="ROUGE")
    assert str(fault.value).startswith("ROUGE needs no_such_module: pip install -c ")
    require_package("json", extra="scrolls", needed_by="nothing")


def test_the_command_is_the_checkout_or_the_packages_themselves(monkeypatch, tmp_path):
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert install_command("scrolls").endswith(f"-e '{ROOT}[scrolls]'")
    assert str(ROOT / "constraints.txt") in install_command("scrolls")
    monkeypatch.setattr(errors, "_CHECKOUT", tmp_path)  # an installed wheel
    for extra in ("scrolls", "ray", "code"):
        command = install_command(extra)
        assert "bipe" not in command
        for wanted in extras["optional-dependencies"][extra]:
            assert re.match(r"[\w-]+", wanted)[0].replace("_", "-") in command.replace("_", "-")


def test_no_hint_names_a_package_that_is_on_no_index():
    for path in (path for room in ROOMS for path in (ROOT / room).rglob("*.py")):
        assert not re.search(r"install '?bipe\[", path.read_text()), path


def test_a_key_that_a_message_names_can_be_typed():
    """The end of a key that is no key itself is refused: split.within for corpus.split.within."""
    known = {key for command in ("", *COMMANDS) for key in keys(command)}
    parts = {".".join(key.split(".")[:count]) for key in known for count in range(1, 9)}
    ends = {key.split(".", first)[-1] for key in parts for first in range(1, key.count("."))}
    named = [
        (path.name, name)
        for path in sorted((ROOT / "train").rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value
        for name in re.findall(r"(?<![\w.{@/])[a-z_]+(?:\.[a-z_]+)+", node.value)
    ]
    assert len(named) > 100
    assert [(file, name) for file, name in named if name in ends - parts] == []
