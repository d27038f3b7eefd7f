"""The same command again does the right thing in every state that a folder can be in."""

import json
import os
import shutil
from pathlib import Path

import pytest
import torch

from bipe.sealing import sealed
from tests.train.studies import Crash, crashing, curve, flip, pretrain, same_weights
from train.data.store.folder import MANIFEST
from train.errors import DataError, RunError
from train.fit import runs
from train.fit.checkpoints import checkpoints
from train.fit.machine import precision_of, product_rates
from train.fit.record import read_sessions


@pytest.fixture
def run(finished, tmp_path):
    """A copy of a finished run."""
    return Path(shutil.copytree(finished("bipe_rope"), tmp_path / "bipe_rope"))


def content(folder):
    """Every byte of a folder, and when it was written."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


def damage_checkpoints(run, count):
    for path in checkpoints(run / runs.CHECKPOINTS)[-count:]:
        flip(path)


def interrupted(run):
    shutil.rmtree(run / runs.MODEL)


def claimed_only(run):
    for name in (runs.MODEL, runs.CHECKPOINTS):
        shutil.rmtree(run / name)
    (run / runs.METRICS).unlink()


STATES = {
    "nothing": shutil.rmtree,
    "empty": lambda run: (shutil.rmtree(run), run.mkdir()),
    "claimed only": claimed_only,
    "interrupted": interrupted,
    "newest checkpoint damaged": lambda run: (interrupted(run), damage_checkpoints(run, 1)),
    "all checkpoints damaged": lambda run: (interrupted(run), damage_checkpoints(run, 9)),
    "model half there": lambda run: (run / runs.MODEL / "model.safetensors").unlink(),
    "model damaged": lambda run: flip(run / runs.MODEL / "config.json"),
    "metrics cut": lambda run: (
        interrupted(run), damage_checkpoints(run, 1),
        (run / runs.METRICS).write_text((run / runs.METRICS).read_text()[:-9]),
    ),
    "sessions damaged": lambda run: (
        interrupted(run), (run / runs.SESSIONS).write_bytes(b"{\xff\n[]\n\n"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("state", STATES)
def test_what_is_the_same_run_is_made_whole(state, run, smoke, finished):
    STATES[state](run)
    assert pretrain(*smoke) == run
    assert same_weights(run, finished("bipe_rope"))
    assert len(curve(run)) == len(curve(finished("bipe_rope")))
    assert [path for path in run.rglob("*") if path.name.startswith(".")] == []


def test_a_finished_run_is_left_alone_to_the_byte(run, smoke, capsys):
    before = content(run)
    for words in ((), ("log_every=2", "keep_checkpoints=1"), ("if_exists=resume",)):
        assert pretrain(*smoke, *words) == run
        assert content(run) == before
        assert f"{run} is finished: step 6 of 6" in capsys.readouterr().err


def weights_lost(run):
    shutil.rmtree(run / runs.CHECKPOINTS)
    (run / runs.MODEL / "model.safetensors").unlink()


def other_data(run):
    path = run / runs.MODEL / "config.json"
    described = json.loads(path.read_text())
    described["notes"]["data"] = "other"
    path.write_text(sealed(described))


@pytest.mark.parametrize(
    ("words", "change", "told"),
    [
        (("steps=9",), None, "bipe extend checkpoint=.*row_length=64 steps="),
        ((), lambda run: (run / runs.CONFIG).unlink(), "contains model but no config.yaml"),
        ((), lambda run: (run / MANIFEST).write_text("{}"), "contains prepared data: set name= to"),
        ((), lambda run: (run / runs.CONFIG).write_text("a: ["), "config.yaml.* line 1: not YAML"),
        ((), lambda run: (run / runs.CONFIG).write_text("- 1"), "contains no configuration"),
        ((), other_data, "was trained on other data"),
        ((), weights_lost, "model is damaged, and there is no complete checkpoint"),
    ],
)
def test_what_is_another_run_or_lost_is_refused_to_the_byte(words, change, told, run, smoke):
    if change is not None:
        change(run)
    before = content(run)
    with pytest.raises(RunError, match=told):
        pretrain(*smoke, *words)
    assert content(run) == before


@pytest.mark.parametrize("at", range(0, 22, 7))
def test_a_failure_of_any_write_leaves_what_the_same_command_goes_on_with(
    at, smoke, tmp_path, finished, monkeypatch
):
    calls, replace = iter(range(1000)), Path.replace

    def failing(path, target):
        if next(calls) >= at:
            raise Crash
        return replace(path, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", failing)
        try:
            pretrain(*smoke)
        except Crash:
            pass
        else:
            assert next(calls) <= at  # all writes were done
    run = pretrain(*smoke)
    assert same_weights(run, finished("bipe_rope"))
    assert len(curve(run)) == len(curve(finished("bipe_rope")))


def test_a_run_in_use_is_refused(smoke, tmp_path):
    run = tmp_path / "bipe_rope"
    with runs.in_use(run, command="extend"):
        before = content(run)
        with pytest.raises(
            DataError, match=rf"bipe_rope is in use by bipe extend \(process {os.getpid()} on"
        ):
            pretrain(*smoke)
        assert content(run) == before
    assert not run.exists()


def test_the_sessions_of_a_run_are_on_record(smoke, tmp_path, monkeypatch):
    monkeypatch.setattr("sys.argv", ["bipe", "++logger.api_key=s3cret", "seed=0"])
    with crashing(at=4, error=Crash("at the\nfifth step")):
        pretrain(*smoke)
    run = tmp_path / "bipe_rope"
    first = (run / runs.CONFIG).read_bytes()
    pretrain(*smoke, "log_every=2")
    one, two = read_sessions(run)
    assert one["words"] == ["bipe", "pretrain", "logger.api_key=(redacted)", "seed=0"]
    assert (one["how"], one["start_step"], one["end_step"]) == ("Crash: at the fifth step", 0, 4)
    assert (two["how"], two["start_step"], two["end_step"]) == ("finished", 4, 6)
    assert two["changed"] == ["log_every was 1, is 2"]
    assert (two["world_size"], two["precision"]) == (1, "32-true")
    assert (run / runs.CONFIG).read_bytes() == first


def test_the_session_of_a_killed_process_is_completed_by_the_next(run, smoke):
    interrupted(run)
    (line,) = read_sessions(run)
    (run / runs.SESSIONS).write_text(json.dumps({**line, "how": None, "end_step": None}) + "\n")
    pretrain(*smoke)
    killed, after = read_sessions(run)
    assert (killed["how"], killed["end_step"], after["how"]) == ("killed", 6, "finished")


def test_a_resumed_run_keeps_its_precision_and_another_is_told(
    run, smoke, monkeypatch, capsys, caplog
):
    monkeypatch.setattr("train.fit.machine.fast_precision", lambda width, alone: "bf16-mixed")
    monkeypatch.setattr("train.fit.training.native_bfloat16", lambda: False)
    interrupted(run)
    pretrain(*smoke, "trainer=auto", "trainer.accelerator=cpu")
    assert read_sessions(run)[-1]["precision"] == "32-true"
    assert "emulates" not in caplog.text
    interrupted(run)
    damage_checkpoints(run, 1)
    pretrain(*smoke, "trainer.precision=bf16-mixed")
    assert read_sessions(run)[-1]["precision"] == "bf16-mixed"
    told = 'trainer.precision was "32-true", is "bf16-mixed" from step 4 on'
    told += "; trainer.precision=32-true keeps it\n"
    assert told in capsys.readouterr().err
    assert "this machine emulates bfloat16" in caplog.text


@pytest.mark.parametrize(
    ("half", "alone", "chosen"),
    [(0.5, True, "32-true"), (1.05, True, "32-true"), (2, True, "bf16-mixed"),
     (0.5, False, "bf16-mixed")],
)  # fmt: skip
def test_a_cpu_trains_in_the_faster_precision(monkeypatch, tmp_path, half, alone, chosen):
    """Processes that train together cannot measure: they could choose differently."""
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr("torch.cpu._is_avx512_bf16_supported", lambda: True)
    rates = {torch.float32: 1e9, torch.bfloat16: half * 1e9}
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr("train.fit.machine.product_rate", lambda dtype, width, device: rates[dtype])
    assert precision_of("auto", resumed=None, alone=alone) == chosen
    rates[torch.bfloat16] = 1e9 / half  # another moment: what was measured stands
    assert precision_of("auto", resumed=None, alone=alone) == chosen
    assert product_rates(anew=True) == product_rates() == (1e9, 1e9 / half)
    assert precision_of("bf16", resumed=None) == "bf16-mixed"
