"""Two processes on one global batch train the model that one process trains; kills spoil nothing.

All on the CPU, with gloo between them; one pair and one process are started as a user does it.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.processes import PIPE, Popen, wait_for
from tests.train.evals.test_loop import EVERY_2
from tests.train.evals.test_loop import live as measured_live
from tests.train.studies import curve, indices_seen, losses, pretrain, same_weights, weights
from train.disk.files import read_numbers
from train.fit.checkpoints import checkpoints
from train.fit.checkpoints.writing import AtomicCheckpointIO
from train.fit.record import read_sessions
from train.fit.runs import CHECKPOINTS, METRICS, MODEL, SESSIONS

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
TWO = ("trainer.accelerator=cpu", "trainer.devices=2", "trainer.precision=32-true")
LIMIT_S = 400
# Validates on 189 tokens, which two processes cannot share evenly.
ODD = ("row_length=63", "rows.validation_rows=3")


def start(*words, cwd, real=False):
    """Start `bipe pretrain` in a process group of its own."""
    words = [sys.executable, "-m", "train.cli", "pretrain", "experiment=smoke", *words]
    pipes = {"stdout": PIPE, "stderr": PIPE, "text": True, "start_new_session": True, "cwd": cwd}
    if not real:
        return Popen(words, **pipes)
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.Popen(words, env=environment, **pipes)


def finish(process):
    """Wait for a run; one that hangs is killed with its children and fails the test."""
    try:
        out, err = process.communicate(timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        pytest.fail(f"the run hangs: {process.communicate()}")
    assert process.returncode == 0, err
    return out, err


@pytest.fixture(scope="module")
def alone(trained):
    """What one process trains."""
    return trained("encoding=bipe_rope", *ODD)


@pytest.fixture(scope="module")
def pair(data, tmp_path_factory):
    """A run of two processes, the folder in which it was started, and what it said."""
    out, here = tmp_path_factory.mktemp("pair"), tmp_path_factory.mktemp("here")
    words = (f"data={data}", f"out={out}", "encoding=bipe_rope", *ODD, "keep_checkpoints=9")
    told = finish(start(*words, "rows.micro_batch=auto", "trainer=ddp", *TWO, cwd=here))
    return out / "bipe_rope", here, told


def test_two_processes_have_the_losses_of_one_and_one_of_them_speaks(pair, alone):
    run, here, (out, err) = pair
    assert [row["step"] for row in curve(run)] == [1, 2, 3, 4, 5, 6]
    assert_same(run, alone)
    for both in zip(curve(run), curve(alone), strict=True):
        validations = [row["validation_loss"] for row in both]
        assert validations[0] == pytest.approx(validations[1], abs=1e-6)
    inside = {path.name for path in run.iterdir()}
    assert inside == {"config.yaml", METRICS, SESSIONS, CHECKPOINTS, MODEL}
    assert (list(here.iterdir()), out) == ([], "")
    assert err.count("bipe_rope  step 6/6  loss") == err.count("documents/row") == 1
    assert "GLOBAL_RANK" not in err and "Warning" not in err


ENDER = """
import lightning
class Ender(lightning.Callback):
    def __init__(self, stops): self.stops = stops
    def on_train_batch_end(self, trainer, *_):
        if trainer.global_rank == 1 and trainer.global_step == 3:
            if not self.stops: raise SystemExit(0)
            trainer.should_stop = True
"""


@pytest.mark.parametrize(("stops", "status", "told"), [
    (True, 0, "was stopped by a callback of another rank at step 3 of 6"),
    (False, 2, "rank 1 (pid N): SystemExit(0) in Ender ended the run"),
])  # fmt: skip
def test_what_a_callback_of_one_rank_does_ends_all(stops, status, told, data, tmp_path):
    (tmp_path / "ender.py").write_text(ENDER)
    words = (f"data={data}", f"out={tmp_path}", "encoding=bipe_rope", *ODD, "trainer=ddp", *TWO)
    own = ("+callbacks.x._target_=ender.Ender", f"+callbacks.x.stops={stops}", "rows.micro_batch=1")
    process = start(*words, *own, "allowed_targets=[ender]", cwd=tmp_path)
    err = process.communicate(timeout=LIMIT_S)[1]
    assert process.returncode == status, err
    assert told in re.sub(r"pid \d+", "pid N", err) and "Traceback" not in err
    how = read_sessions(tmp_path / "bipe_rope")[-1]["how"]
    assert how == ("stopped by a callback of another rank" if stops else "another rank ended")


def test_two_processes_share_a_curriculum_and_a_padded_last_batch(data, tmp_path):
    """Stopped in the short rows, two processes go on alone into the long ones."""
    stages = "rows.curriculum=[{length: 16, steps: 2}, {length: 32, steps: 1}]"
    words = (f"data={data}", "encoding=bipe_rope", "epochs=0.11", "rows.global_batch=8", stages)
    words = (*words, "rows.budget=rows", "keep_checkpoints=9", "checkpoint_every=1")
    one = pretrain(*words, f"out={tmp_path}/one")
    pair = (*words, f"out={tmp_path}/two", "rows.micro_batch=2", "trainer=ddp", *TWO)
    finish(start(*pair, cwd=tmp_path))
    run = tmp_path / "two" / "bipe_rope"
    assert [row["tokens"] for row in curve(run)] == [row["tokens"] for row in curve(one)]
    assert curve(run)[-1]["tokens"] % (8 * 64)  # the last batch is short
    assert_same(run, one)
    go_back(run, step=2)
    pretrain(*words, f"out={tmp_path}/two")
    assert_same(run, one)


def test_from_two_copies_to_two_shards_to_one_process_it_is_one_run(pair, data, tmp_path, alone):
    """DDP, FSDP2 with two micro-batches a step, then one process."""
    words = (f"data={data}", f"out={tmp_path}", "encoding=bipe_rope", *ODD, "keep_checkpoints=9")
    run = shutil.copytree(pair[0], tmp_path / "bipe_rope")
    go_back(run, step=2)
    sharded = ("rows.micro_batch=1", "trainer=fsdp2", *TWO, "checkpoint_async=true")
    finish(start(*words, *sharded, "if_exists=resume", cwd=tmp_path))
    assert_same(run, alone)
    assert [path.is_dir() for path in checkpoints(run / CHECKPOINTS)] == [False, True, True]
    go_back(run, step=4)
    pretrain(*words, "if_exists=resume")
    assert_same(run, alone)


def test_two_processes_that_share_each_row_have_the_losses_of_one(data, tmp_path, finished):
    words = (f"data={data}", f"out={tmp_path}", "encoding=bipe_rope", "trainer=fsdp2", *TWO)
    finish(start(*words, "context_parallel=2", cwd=tmp_path, real=True))
    run = tmp_path / "bipe_rope"
    one = finished("bipe_rope")  # 64 tokens a row
    assert_same(run, one)
    validations = [[row["validation_loss"] for row in curve(each)] for each in (run, one)]
    assert validations[0] == pytest.approx(validations[1], abs=1e-5)


def test_what_two_processes_measure_while_they_train_is_what_one_does(data, tmp_path):
    words = (f"data={data}", "encoding=bipe_rope", *EVERY_2)
    one = pretrain(*words, f"out={tmp_path}/one")
    pair = (*words, f"out={tmp_path}/two", "rows.micro_batch=2", "trainer=fsdp2", *TWO)
    finish(start(*pair, cwd=tmp_path))
    run = tmp_path / "two" / "bipe_rope"
    assert_same(run, one)
    measured, expected = measured_live(run), measured_live(one)
    assert measured == pytest.approx(expected, rel=1e-4)
    assert {step for step, _ in measured} == {2, 4, 6}


def go_back(run, *, step):
    """Leave a run as if it had been stopped after a step."""
    for path in checkpoints(run / CHECKPOINTS):
        if path.name > f"step={step:08d}.ckpt":
            AtomicCheckpointIO().remove_checkpoint(path)
    shutil.rmtree(run / MODEL)


def assert_same(run, other):
    assert np.allclose(losses(run), losses(other), atol=1e-5)
    assert indices_seen(run) == indices_seen(other)
    for name, value in weights(other).items():
        assert np.allclose(value, weights(run)[name], atol=1e-5), name


def test_a_killed_run_goes_on_as_if_nothing_had_happened(data, tmp_path):
    words = (f"data={data}", "steps=60", "checkpoint_every=10", "validate_every=15")
    whole = pretrain(*words, f"out={tmp_path / 'whole'}")
    killed = tmp_path / "killed" / "bipe_rope"
    process = start(*words, f"out={killed.parent}", cwd=tmp_path, real=True)
    wait_for(lambda: len(read_numbers(killed / METRICS)) >= 15)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    assert len(read_numbers(killed / METRICS)) < 60
    assert not (killed / MODEL).exists()
    pretrain(*words, f"out={killed.parent}")
    assert curve(killed) == curve(whole)
    assert same_weights(killed, whole)
    assert [path for path in killed.rglob("*") if path.name.startswith(".")] == []
