"""What a process does when nobody reads what it says."""

import os
import sys
import time
from pathlib import Path

import pytest

from tests.processes import PIPE, Popen
from train.disk.files import read_numbers
from train.fit.runs import METRICS

LIMIT_S = 300
ENDS = "from train.stop import end_process; end_process(75, 'lost', before=lambda: {})"
TWO = ("trainer.accelerator=cpu", "trainer.devices=2", "trainer.precision=32-true")


def start(*words, stderr, ranks=()):
    return Popen([sys.executable, *words], stderr=stderr, ranks=ranks)


def steps(run):
    return len(read_numbers(run / METRICS))


def wait_for(condition):
    limit = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < limit
        time.sleep(0.01)


@pytest.mark.parametrize("before", ["0", "1 / 0"])
def test_a_process_ends_with_its_last_words(before):
    process = start("-c", ENDS.format(before), stderr=PIPE)
    assert process.communicate(timeout=LIMIT_S)[1].startswith(b"lost\n")
    assert process.returncode == 75


@pytest.mark.parametrize("reader", ["gone", "asleep"])
def test_a_process_ends_though_nobody_hears_why(reader):
    out, into = os.pipe()
    if reader == "gone":
        os.close(out)
    else:
        os.set_blocking(into, False)
        with pytest.raises(BlockingIOError):
            while True:
                os.write(into, b"x" * 4096)
        os.set_blocking(into, True)
    process = start("-c", ENDS.format("0"), stderr=into)
    assert process.wait(timeout=LIMIT_S) == 75


@pytest.mark.slow
def test_a_training_outlives_the_reader_of_its_progress(data, tmp_path):
    words = ("-m", "train.cli", "pretrain", "experiment=smoke", f"data={data}", f"out={tmp_path}")
    out, into = os.pipe()
    process = start(*words, "steps=120", "validate_every=20", stderr=into)
    os.close(into)
    wait_for(lambda: steps(tmp_path / "bipe_rope") > 5)
    os.close(out)
    assert process.wait(timeout=LIMIT_S) == 0
    assert steps(tmp_path / "bipe_rope") == 120


@pytest.mark.slow
def test_the_loss_of_a_rank_ends_a_training_that_nobody_hears(data, tmp_path):
    words = ("-m", "train.cli", "pretrain", "experiment=smoke", f"data={data}", f"out={tmp_path}")
    out, into = os.pipe()
    ranks = ("trainer=ddp", *TWO, "rows.micro_batch=2", "steps=100000")
    process = start(*words, *ranks, stderr=into, ranks=[1])
    os.close(into)
    wait_for(lambda: steps(tmp_path / "bipe_rope") > 5)
    os.close(out)
    tasks = Path(f"/proc/{process.pid}/task")
    (child,) = " ".join(path.read_text() for path in tasks.glob("*/children")).split()
    os.kill(int(child), 9)
    try:
        assert process.wait(timeout=60) == 75
    finally:
        process.kill()
        process.wait()
