"""Two processes stop after the same step and miss each other; nothing of their training is lost."""

import os
import signal
import time
from pathlib import Path

import pytest

from tests.processes import wait_for
from tests.train.data.preparing.disturbed import descendants
from tests.train.studies import curve, same_weights
from tests.train.test_distributed import LIMIT_S, TWO, finish, start
from train.disk.files import read_numbers
from train.fit.checkpoints import checkpoints
from train.fit.checkpoints.reading import latest_checkpoint
from train.fit.runs import CHECKPOINTS, METRICS, MODEL

pytestmark = pytest.mark.slow
SIZES = ("steps=40", "checkpoint_every=10", "validate_every=15", "rows.micro_batch=1")


def started(run, *words):
    """Start a run, and wait until it has done some steps."""
    before = len(read_numbers(run / METRICS))
    process = start(*words, cwd=run.parent)
    wait_for(lambda: len(read_numbers(run / METRICS)) >= before + 4)
    wait_for(lambda: len(descendants(process.pid)) == 2)
    return process, max(descendants(process.pid))  # rank 1, which was started last


def ended(process, child):
    """The status and the messages of a process, after the end of both."""
    _, err = process.communicate(timeout=LIMIT_S)
    state = Path(f"/proc/{child}/stat")
    assert not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z"
    return process.returncode, err


def test_stopped_and_killed_they_come_out_as_if_nobody_had(data, tmp_path):
    words = (f"data={data}", "encoding=bipe_rope", "trainer=fsdp2", *TWO, *SIZES)
    finish(start(*words, f"out={tmp_path}/whole", cwd=tmp_path))
    run = tmp_path / "broken" / "bipe_rope"
    run.parent.mkdir()
    words = (*words, f"out={run.parent}")

    process, child = started(run, *words)
    os.kill(child, signal.SIGUSR1)  # one rank alone is asked
    status, err = ended(process, child)
    assert status == 138
    assert err.count("bipe: stopped by SIGUSR1: step") == 1 and "Traceback" not in err
    step = checkpoints(run / CHECKPOINTS)[-1].name
    assert step == f"step={read_numbers(run / METRICS)[-1]['step']:08d}.ckpt"

    process, child = started(run, *words)
    begin = time.monotonic()
    os.kill(child, signal.SIGKILL)
    status, err = ended(process, child)
    assert time.monotonic() - begin < 60 and status == 75
    assert f"bipe: rank 1 (pid {child}) was killed by SIGKILL; the other ranks were ended." in err
    assert "Traceback" not in err
    assert not (run / MODEL).exists() and latest_checkpoint(run / CHECKPOINTS) is not None

    finish(start(*words, cwd=tmp_path))
    assert curve(run) == curve(tmp_path / "whole" / "bipe_rope")
    assert same_weights(run, tmp_path / "whole" / "bipe_rope")
    assert [path for path in run.rglob("*") if path.name.startswith(".")] == []
