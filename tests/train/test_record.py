"""`bipe status`: what a folder holds, whoever writes or damages it, and never a traceback."""

import json
import os
import random
import re

import pytest
import yaml

from bipe.checkpoint import write_config
from train.cli import main
from train.commands.during.states import find_states, state_of
from train.disk.lock import locked
from train.fit import runs
from train.fit.record import command_line

CONFIG = {"steps": 10, "seed": 0}
WORDS = ["bipe", "pretrain", "out=a b"]
METRICS = (
    "step,loss,tokens_per_second,validation_loss\n1,3.5,10.0,\n2,3.25,20.0,3.75\n3,3.0,30.5,\n"
)


@pytest.fixture
def run(tmp_path):
    """A run that was stopped after its third step."""
    folder = tmp_path / "study" / "run"
    (folder / runs.CHECKPOINTS).mkdir(parents=True)
    (folder / runs.CONFIG).write_text(yaml.safe_dump(CONFIG))
    (folder / runs.METRICS).write_text(METRICS)
    for step in (2, 3):
        (folder / runs.CHECKPOINTS / f"step={step:08d}.ckpt").write_text("")
    (folder / runs.CHECKPOINTS / "step=00000002.json").write_text("{}")
    record(folder, how="SIGTERM", end_step=3)
    return folder


def test_a_checkpoint_may_be_newer_than_the_last_line_of_metrics(run):
    (run / runs.METRICS).write_text("step,loss\n1,3.5\n")
    assert (state_of(run).step, state_of(run).checkpoint) == (2, 2)


def record(folder, **line):
    (folder / runs.SESSIONS).write_text(json.dumps({"words": WORDS, **line}) + "\n")


def finish(folder):
    (folder / runs.MODEL).mkdir()
    (folder / runs.MODEL / "model.safetensors").write_text("weights")
    write_config(folder / runs.MODEL, {"decoder": {}, "notes": {}})


def test_a_stopped_run_is_described_in_numbers(run):
    found = state_of(run)
    assert (found.state, found.step, found.steps) == ("stopped by SIGTERM at step 3", 3, 10)
    assert (found.loss, found.validation_loss, found.tokens_per_second) == (3.0, 3.75, 30.5)
    assert found.checkpoint == 2  # the other has no manifest
    assert 0 <= found.checkpoint_age < 3600
    assert found.next == "bipe pretrain 'out=a b' resumes from step 2"


@pytest.mark.parametrize(
    ("line", "state"),
    [
        ({"how": None}, "killed"),
        ({"how": "DataError: no room", "end_step": 2}, "failed: DataError: no room at step 2"),
        ({"how": "SIGUSR1", "end_step": 0}, "stopped by SIGUSR1 at step 0"),
    ],
)
def test_how_the_last_session_ended_is_the_state(run, line, state):
    record(run, **line)
    assert state_of(run).state == state


def test_a_run_that_is_finished_or_held_by_a_process(run):
    finish(run)
    assert (state_of(run).state, state_of(run).next) == ("finished", "finished")
    with runs.in_use(run, command="extend"):
        found = state_of(run)
    assert found.state.startswith(f"running (bipe extend (process {os.getpid()} on ")
    assert found.next == "wait"


def test_a_loss_that_is_not_a_number_is_null_in_json(run, capsys):
    (run / runs.METRICS).write_text("step,loss\n1,nan\n")
    assert main(["status", "--json", str(run)]) == 0
    (state,) = json.loads(capsys.readouterr().out)
    assert (state["loss"], state["checkpoint"]) == (None, 2)


def test_a_model_that_was_changed_is_damaged(run, capsys):
    finish(run)
    model = run / runs.MODEL
    (model / "model.safetensors").write_text("Weights")
    assert state_of(run).state == "finished"
    assert main(["status", "--verify", "--json", str(run)]) == 0
    state = json.loads(capsys.readouterr().out)[0]["state"]
    assert "model.safetensors: has changed since it was written: its sha256 differs" in state
    (model / "model.safetensors").write_text("weight")
    told = "damaged: model/model.safetensors: must have 7 bytes, was: 6; copy the folder again"
    assert state_of(run).state == told
    (model / "model.safetensors").unlink()
    assert state_of(run).state.startswith("damaged: model/model.safetensors is missing; ")
    config = model / "config.json"
    config.write_text(config.read_text().replace("7", "6"))
    assert "its seal does not match" in state_of(run).state


def test_what_comes_next_after_a_claim_and_where_scores_are_missing(run, tmp_path):
    runs.claim(tmp_path / "run", if_exists="auto", config=CONFIG)
    found = state_of(tmp_path / "run")
    assert found.state == "claimed, not begun"
    assert found.next == "the same command resumes from step 0"
    finish(run)
    more = {"task": {"name": "qmsum"}, "scrolls": {"split": "test"}}
    (run / runs.CONFIG).write_text(yaml.safe_dump(CONFIG | more))
    assert state_of(run).next.endswith("decodes the rest of test")


def test_prepared_data_tells_its_parts(data, tmp_path):
    (ready,) = find_states(data)
    assert (ready.kind, ready.state, ready.next) == ("data", "ready", "finished")
    part = tmp_path / "data" / ".part"
    (part / "parts" / "web" / "00000").mkdir(parents=True)
    (part / "plan.json").write_text(json.dumps({"parts": {"web": [1, 2], "books": [3]}}))
    (part / "parts" / "web" / "00000" / "part.json").write_text("{}")
    (stopped,) = find_states(tmp_path)
    assert (stopped.state, stopped.step, stopped.steps) == ("stopped", 1, 3)
    assert stopped.next == "bipe prepare continues with 1 of 3 parts done"
    (part / "parts" / "web" / "00001.fault").write_text("DataError: row 3")
    assert state_of(tmp_path / "data").state == "failed: DataError: row 3"
    with locked(part / "lock", what="data"):
        assert state_of(tmp_path / "data").state.startswith("preparing (bipe prepare (process")


@pytest.mark.parametrize("seed", range(4))
def test_no_damage_is_too_much(run, seed, capsys):
    """Files are cut, flipped, removed, replaced by folders and by garbage."""
    finish(run)
    draw = random.Random(seed)
    for path in sorted(run.rglob("*")):
        what = draw.randrange(6)
        if not path.is_file() or what == 5:
            continue
        data = path.read_bytes()
        path.unlink()
        if what == 1:
            path.mkdir()
        elif what:
            cut = data[: draw.randrange(len(data) + 1)]
            path.write_bytes((b"", b"", cut, draw.randbytes(50), b"[" * 5000)[what])
    assert main(["status", str(run.parent), "--json"]) == 0
    assert main(["status", str(run)]) == 0
    told = json.loads(capsys.readouterr().out.partition("\n]")[0] + "\n]")
    assert len(told) <= 1


def test_the_table_and_its_limits(run, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = {path: path.stat().st_mtime_ns for path in run.rglob("*")}
    assert main(["status", f"out={run.parent}"]) == 0
    assert {path: path.stat().st_mtime_ns for path in run.rglob("*")} == before
    out = capsys.readouterr().out
    for told in ("study/run", "stopped by SIGTERM", "3/10", "3.000", "3.750", "step 2,"):
        assert told in out
    (tmp_path / "empty").mkdir()
    assert main(["status", "empty"]) == 0
    assert capsys.readouterr().out == "no runs or prepared data in empty\n"
    assert main(["status"]) == 2
    assert "runs: there is no such folder" in capsys.readouterr().err


@pytest.mark.parametrize("typed", [["-m", "seed=0,1"], ["pretrain", "-m", "seed=0,1"]])
def test_the_command_stands_once_before_its_words(monkeypatch, typed):
    monkeypatch.setattr("sys.argv", ["bipe", *typed])  # a sweep leaves them as they were typed
    assert command_line("pretrain") == ["bipe", "pretrain", "-m", "seed=0,1"]


@pytest.mark.parametrize("width", [20, 40, 80, 109, 110, 160])
def test_a_status_fits_its_terminal_and_shows_control_characters(width, monkeypatch, capsys, run):
    place = run.rename(run.parent / "a [red]run\x1b[31m with a name that is longer than that")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", str(width))
    assert main(["status", str(place.parent)]) == 0
    out = re.sub(r"\x1b\[[\d;]*m", "", capsys.readouterr().out)
    assert max(map(len, out.splitlines())) <= width
    letters = "".join(out.split())
    if width < 110:
        assert "[red]run" + r"\x1b[31m" in letters and "step:3/10" in letters
