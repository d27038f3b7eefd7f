"""What a user can mend is one line; any other error keeps its traceback."""

import re
import tomllib
from pathlib import Path

import pytest

from train import errors
from train.errors import (
    MissingPackage,
    UserError,
    install_command,
    is_mendable,
    require_package,
)

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("model.n_layr=3", "model.n_layr: DecoderConfig has no such key; did you mean 'n_layer'?"),
        ("stepz=3", "there is no key 'stepz'; did you mean 'steps'?"),
        ("+foo=1", "foo: the configuration has no such key; there are: allowed_targets, "),
        ("rows.foo=1", "rows.foo: Rows has no such key; there are: "),
        (
            "evaluate.length=[1]",
            "evaluate.length: Evaluate has no such key; did you mean 'lengths'?",
        ),
        (
            "trainer.max_step=1",
            "trainer.max_step: Trainer has no such key; did you mean 'max_steps'?",
        ),
        ("optimizer.weight_decy=0", "adamw has no such key; did you mean 'weight_decay'?"),
        ("schedule.worm=1", "schedule.worm: cosine has no such key; "),
        ("encoding.inter.thetta=1", "RoPE has no such key; did you mean 'theta'?"),
        ("corpus.sources.proofs.documents.chain=1", "no such key; did you mean 'chains'?"),
    ],
)
def test_an_unknown_key(refused, word, told):
    assert told in refused("pretrain", word)


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("model.n_layer=abc", "model.n_layer must be int, was: 'abc'"),
        ("steps=1.5", "steps must be int, was: 1.5"),
        ("optimizer.lr=fast", "optimizer.lr must be float, was: 'fast'"),
        ("optimizer.betas=[0.9]", "optimizer.betas must be tuple[float, float], was: [0.9]"),
        ("compile=3", "compile must be bool, was: 3"),
        ("if_exists=ask", "if_exists must be one of auto, refuse, resume, overwrite, was: 'ask'"),
        ("attention=flash", "attention must be one of "),
        ("evaluate.runs=3", "evaluate.runs must be str or list[str], was: 3"),
        ("encoding=null", "Config group override must be a string"),
        ("model.encoding={}", "model.encoding cannot be set; set encoding instead"),
    ],
)
def test_a_wrong_type_or_choice(refused, word, told):
    assert told in refused("pretrain", word)


@pytest.mark.parametrize(
    "words", [("seed=x", "clip=0", "rows.verify=3"), ("model.n_layer=abc", "optimizer.lrr=1")]
)
def test_all_faults_are_told_at_once(refused, words):
    """Those of plain keys, without torch; if there are none, those of what they call."""
    told = refused("pretrain", *words)
    assert told.splitlines()[0] == f"{len(words)} errors:"
    assert len(told.splitlines()) == 1 + len(words)


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("steps=0", "steps must be at least 1, was: 0"),
        ("keep_checkpoints=0", "keep_checkpoints must be at least 1, was: 0"),
        ("validate_every=0", "validate_every must be at least 1 or null, was: 0"),
        ("clip=0", "clip must be above 0 or null, was: 0"),
        ("optimizer.lr=-1", "optimizer.lr must be above 0, was: -1"),
        ("schedule.warmup=-1", "schedule.warmup must be at least 0, was: -1"),
        ("model.n_head=3", "width must be a multiple of n_head (3), was: 32"),
        ("model.vocab_size=10", "model.vocab_size must be at least that of the data ("),
        (
            "rows.micro_batch=3",
            "rows.global_batch must be a multiple of rows.micro_batch x devices (3), was: 4; "
            "set rows.micro_batch=2",
        ),
        (
            "trainer.devices=2",
            "rows.micro_batch x devices (8), was: 4; set rows.micro_batch=2",
        ),
        (
            "trainer.devices=3",
            "rows.micro_batch x devices (12), was: 4; set rows.global_batch=12",
        ),
        ("rows.packing=tight", "must be one of concat, best_fit, long_first, single, was: tight"),
        ("rows.sources={prose: 1.0}", "prose"),
        ("trainer.max_steps=3", "trainer.max_steps cannot be set; set steps instead"),
        ("trainer.gradient_clip_val=3", "cannot be set; set clip instead"),
        ("trainer.accumulate_grad_batches=2", "set rows.global_batch and rows.micro_batch instead"),
        ("rows.seed=3", "rows.seed cannot be set; set seed instead"),
        ("rows.row_length=3", "rows.row_length cannot be set; set row_length instead"),
        ("trainer.accelerator=gpu", "trainer: No supported gpu backend found!"),
        ("trainer.devices=0", "trainer: "),
        ("trainer.precision=bf16-true", "trainer.precision must be auto, 32-true or bf16-mixed"),
        ("trainer.precision=16-mixed", "trainer.precision must be auto, 32-true or bf16-mixed"),
        ("encoding._target_=os.system", "encoding._target_: _target_ must start with one of "),
        ("trainer._target_=pathlib.Path.unlink", "was: 'pathlib.Path.unlink'"),
        ("data=/nowhere", "/nowhere/manifest.json is missing"),
    ],
)
def test_a_value_that_makes_no_sense(refused, word, told):
    assert told in refused("pretrain", word)


@pytest.mark.parametrize("kind", [ZeroDivisionError, ValueError, KeyError, OSError, ImportError])
@pytest.mark.parametrize(
    "place", ["train.fit.module.LMModule.training_step", "bipe.Decoder.forward"]
)
def test_a_fault_of_ours_keeps_its_traceback(bipe, monkeypatch, kind, place):
    def broken(*_, **__):
        raise kind("planted")

    monkeypatch.setattr(place, broken)
    with pytest.raises(kind, match="planted"):
        bipe("pretrain", "steps=1")


def test_a_fault_of_ours_in_a_command_keeps_its_traceback(bipe, monkeypatch):
    def broken(*_, **__):
        raise ValueError("planted")

    monkeypatch.setattr("train.fit.runs.find_runs", broken)
    with pytest.raises(ValueError, match="planted"):
        bipe("evaluate")


BAD = {
    "rows": ["rows.temperature=-1", "rows.temperature"],
    "model": ["model.n_layer=0", "model.n_layer must be at least 1, was: 0"],
    "encoding": ["encoding.intra.length=0", "encoding.intra: length must be at least 1, was: 0"],
    "inner": ["encoding.inter.head_width=7", "encoding.inter: head_width must be even, was: 7"],
    "levels": [
        "encoding=bilevel encoding@encoding.intra=rope encoding@encoding.inter=pope",
        "encoding: PoPE (PolarRotation) cannot be combined with another rotation",
    ],
    "attention": ["attention=bias_row", "attention: attention path 'bias_row' needs a linear bias"],
    "positions": ["positions=pose positions.chunks=1", "positions: chunks must be at least 2"],
    "optimizer": ["optimizer.betas=[2,2]", "optimizer.betas must be two numbers from 0"],
    "schedule": ["schedule.floor=2", "schedule.floor must be from 0 to 1, was: 2"],
    "trainer": ["trainer.accelerator=abacus", "trainer: "],
}


@pytest.mark.parametrize("section", BAD)
def test_a_bad_value_in_any_section_is_one_line(refused, section):
    words, told = BAD[section]
    found = refused("pretrain", *words.split())
    assert told in found and len(found.splitlines()) == 1


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("engine.workers=0", "engine.workers must be"),
        ("corpus.sources.proofs.segmenter={_target_: segmenters.Stride, length: 0}", "segmenter: "),
        ("corpus.tokenizer.vocab_size=3", "vocab_size"),
    ],
)
def test_a_bad_value_of_a_preparation_is_one_line(refused, tmp_path, word, told):
    found = refused("prepare", f"data={tmp_path}/new", word)
    assert told in found and len(found.splitlines()) == 1


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
    rooms = [
        path for room in ("bipe", "segmenters", "train") for path in (ROOT / room).rglob("*.py")
    ]
    assert [str(path) for path in rooms if "install 'bipe[" in path.read_text()] == []
    assert [str(path) for path in rooms if "install bipe[" in path.read_text()] == []
