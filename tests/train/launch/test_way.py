"""The way from words to a training, counted; and the commands as functions."""

import logging
import os
import re
import signal
import subprocess
import sys
from dataclasses import dataclass
from enum import Enum
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

import train
from tests.train.studies import typed
from train import cli, config
from train.commands import pretrain as command
from train.errors import ConfigError, UserError
from train.fit.optim import adamw, constant
from train.fit.record import read_sessions
from train.fit.training import quiet
from train.launch import composition, reader, start
from train.stop import Stopped

ROOM = f"{Path(train.__file__).parent}{os.sep}"
MOST_CALLS, MOST_RETURNS = 25, 8


class Arrived(BaseException):
    """The command was called."""


def way(monkeypatch, *words):
    """The functions of train that are called from main to pretrain, with their files.

    Comprehensions, lambdas and the bodies of classes are parts of their functions; a generator that
    goes on is not called again.
    """
    calls, frames = [], set()

    def profile(frame, event, _):
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(ROOM) or frame in frames:
            return
        frames.add(frame)
        if code is command.pretrain.__code__:
            raise Arrived
        if not code.co_name.startswith("<") and "__module__" not in code.co_names:
            calls.append((code.co_filename.removeprefix(ROOM), code.co_name))

    sys.setprofile(profile)
    try:
        cli.main(["pretrain", *words])
    except Arrived:
        return calls
    finally:
        sys.setprofile(None)
    raise AssertionError("the command was not called")


def test_the_way_to_a_training_is_short(smoke, monkeypatch, tmp_path):
    calls = way(monkeypatch, "experiment=smoke", *smoke)
    back, last, files = 0, None, set()
    for file, _ in calls:
        back += file != last and file in files
        files.add(file)
        last = file
    assert len(calls) <= MOST_CALLS, "\n".join(map(str, calls))
    assert back <= MOST_RETURNS, calls


def test_the_page_of_the_way_names_its_calls_in_their_order(smoke, monkeypatch):
    page = (Path(train.__file__).parents[1] / "docs" / "way.md").read_text()
    rows = re.findall(r"^\| `([\w/]+(?:\.py)?)` \| (`.*?) \|", page, re.MULTILINE)
    named = [
        (file, name) for file, names in rows for name in re.findall(r"`(?:\w+\.)?(\w+)`", names)
    ]
    for file, name in named:
        path = Path(train.__file__).parents[1] / file
        texts = [path.read_text()] if path.is_file() else [p.read_text() for p in path.glob("*.py")]
        assert any(re.search(rf"^ *(def|class) {name}\b", text, re.MULTILINE) for text in texts), (
            name
        )
    calls = [(f"train/{file}", name) for file, name in way(monkeypatch, "experiment=smoke", *smoke)]
    listed = [each for each in named if each in calls]
    assert len(listed) >= 10 and listed == [each for each in calls if each in listed]


def test_a_configuration_is_made_once(smoke, monkeypatch, tmp_path):
    made = []
    create = config.Config.from_config
    monkeypatch.setattr(
        config.Config, "from_config", lambda *args, **more: made.append(1) or create(*args, **more)
    )
    words = ("experiment=smoke", *smoke, "steps=1")
    assert cli.main(["pretrain", *words, "name=a"]) == 0
    assert len(made) == 1
    assert cli.main(["pretrain", *words, "name=b", "trainer.precision=auto"]) == 0
    assert len(made) == 1 + 2


def test_what_is_stored_is_what_is_shown(smoke, capsys, tmp_path):
    words = ("experiment=smoke", *smoke, "steps=1", "name=a")
    assert cli.main(["pretrain", *words, "--cfg", "job"]) == 0
    shown = capsys.readouterr().out
    assert cli.main(["pretrain", *words]) == 0
    assert (tmp_path / "a" / "config.yaml").read_text() == shown


def test_importing_train_changes_nothing():
    program = (
        "import sys; before = [*sys.meta_path]; import train\n"
        "assert sys.meta_path == before\n"
        "assert not {'torch', 'hydra', 'lightning', 'omegaconf', 'yaml'} & {*sys.modules}\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_run_from_python_is_that_of_the_command(smoke, tmp_path):
    words = dict(word.split("=", 1) for word in smoke)
    run = train.pretrain(
        "experiment=smoke", **words, name="1_2", steps=2, validate_every=2,
        optimizer=Rate(0.01), **{"evaluate.lengths": [1, 2]},
    )  # fmt: skip
    assert run.folder == tmp_path / "1_2"
    assert run.config["optimizer"]["lr"] == 0.01 and run.config["evaluate"]["lengths"] == [1, 2]
    assert run.metrics[-1]["validation_loss"] > 0
    assert {"experiment=smoke", "optimizer.lr=0.01"} <= {*read_sessions(run.folder)[0]["words"]}
    again = ("experiment=smoke", *smoke, "name=1_2", "steps=2", "validate_every=2",
             "optimizer.lr=0.01")  # fmt: skip
    assert cli.main(["pretrain", *again]) == 0  # it is finished
    asked = {"runs": [run.folder], "lengths": [1], "probes": []}
    (file,) = train.evaluate(evaluate=asked, data=Path(words["data"]))
    assert file == run.folder / "evaluation.jsonl" and file.is_file()


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ({"encodng": "rope"}, "there is no key 'encodng'; did you mean 'encoding'"),
        ({"steps": "x"}, "steps must be"),
        ({"optimizer": {"lrr": 1}}, "optimizer.lrr"),
        ({"trainer.devices": 2}, "trains on one device"),
        ({"launch": "slurm"}, "launch=slurm is for the command line"),
        ({"rows": {"sources": {"web/text": 1}}}, "rows.sources.web/text: no such source"),
        ({"optimizer": object()}, "optimizer: must be text, .*, was: object; .*'_target_'"),
        ({"optimizer": partial(lambda p: p)}, "optimizer: .* cannot be imported by its name"),
        ({"optimizer": {"_target_": "torch.optim.SGD", "betas": 1}}, "betas"),
        ({"hydra": {"verbose": True}}, "hydra.verbose acts on the command line alone"),
        ({"steps": "3"}, "was: .*, a text: remove the quotes"),
        ({"optimizer": {"_target_": "torch.optim.SGD"}}, "also needs params, or _partial_: true"),
    ],
)
def test_what_is_wrong_in_python_is_refused_as_on_the_command_line(keys, told, smoke):
    words = dict(word.split("=", 1) for word in smoke)
    with pytest.raises(UserError, match=told):
        train.pretrain("experiment=smoke", **{**words, **keys})


def test_settings_of_torch_in_python_change_no_result(smoke, finished, monkeypatch):
    expected = finished("bipe_rope")
    torch.set_default_dtype(torch.float64)
    try:
        with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
            run = train.pretrain("experiment=smoke", *smoke)
            (file,) = train.evaluate("experiment=smoke", *smoke, evaluate={"probes": []})
        assert torch.get_default_dtype() == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)
    name = "model/model.safetensors"
    assert (run.folder / name).read_bytes() == (expected / name).read_bytes()
    measured = file.read_text()
    file.unlink()
    train.evaluate("experiment=smoke", *smoke, evaluate={"probes": []})
    assert file.read_text() == measured
    with torch.device("meta"), pytest.raises(ConfigError, match=r"default_device .*was: meta"):
        train.evaluate("experiment=smoke", *smoke)


@pytest.mark.parametrize("word", [Path("a"), {"steps": 1}, None, "--help"])
def test_a_word_in_python_is_a_text(word):
    with pytest.raises(ConfigError, match=r"takes texts such as .*, was: "):
        train.pretrain(word)


def test_an_interrupt_in_python_is_that_of_python(smoke, monkeypatch):
    def interrupted(*_):
        raise Stopped(signal.SIGINT, "kept")

    monkeypatch.setattr(start, "run_command", interrupted)
    with pytest.raises(KeyboardInterrupt, match="kept"):
        train.pretrain("experiment=smoke", *smoke)
    assert "pretrain" in dir(train)


def test_a_class_in_python_replaces_that_of_a_group(smoke):
    words = dict(word.split("=", 1) for word in smoke)
    optimizer = {"_target_": "torch.optim.SGD", "_partial_": True, "lr": np.float64(0.1)}
    encoding = {"_target_": "bipe.encodings.RoPE", "head_width": 8, "theta": 500.0}
    own = {"optimizer": optimizer, "encoding": encoding}
    run = train.pretrain("experiment=smoke", **{**words, **own}, steps=1)
    assert run.config["optimizer"] == optimizer and run.config["encoding"] == encoding


def test_interpolations_follow_what_is_decided():
    study = composition.composed(typed("pretrain", "encoding=rope", "steps=30"))
    assert study.on({"steps": 7}).schedule["steps"] == 7
    assert study.on({"steps": 30}) is study


class Kind(Enum):
    OURS = "alibi"
    alibi = 2


@dataclass
class Rate:
    lr: float = 0.5


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (Kind.OURS, "'alibi'"),
        (Kind.alibi, "'alibi'"),
        (Path("a"), "'a'"),
        ([Rate()], "[{lr: 0.5}]"),
        (partial(adamw, lr=0.5), "{_target_: 'train.fit.optim.adamw', _partial_: true, lr: 0.5}"),
        (constant(warmup=3), "{_target_: 'train.fit.optim.Curve', shape: 'constant', warmup: 3, "
         "begin: 3, steps: 0, floor: 0.0}"),
    ],
)  # fmt: skip
def test_objects_of_python_are_written_as_what_they_stand_for(value, written):
    assert reader.written(value) == written


def test_trainings_in_threads_are_quiet_until_the_last_one_ends():
    logger = logging.getLogger("lightning.pytorch")
    before, (one, two) = logger.level, (quiet(), quiet())
    one.__enter__()
    two.__enter__()
    one.__exit__(None, None, None)
    assert logger.level == logging.ERROR
    two.__exit__(None, None, None)
    assert logger.level == before
