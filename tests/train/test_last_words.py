"""What a process does when nobody reads what it says."""

import os
import sys
import time

import pytest

from tests.processes import PIPE, Popen
from train.disk.files import read_numbers
from train.fit.runs import METRICS

LIMIT_S = 300
ENDS = "from train.stop import end_process; end_process(75, 'lost', before=lambda: {})"


def start(*words, stderr):
    return Popen([sys.executable, *words], stderr=stderr)


def test_a_process_ends_with_its_last_words_whatever_fails():
    process = start("-c", ENDS.format("1 / 0"), stderr=PIPE)
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
    run, (out, into) = tmp_path / "bipe_rope", os.pipe()
    process = start(*words, "steps=60", "validate_every=20", stderr=into)
    os.close(into)
    limit = time.monotonic() + LIMIT_S
    while len(read_numbers(run / METRICS)) <= 5:
        assert time.monotonic() < limit
        time.sleep(0.01)
    os.close(out)
    assert process.wait(timeout=LIMIT_S) == 0
    assert len(read_numbers(run / METRICS)) == 60
