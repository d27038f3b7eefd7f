"""Forked processes are processes: pipes, statuses, signals, sessions, ranks that start others."""

import os
import signal
import sys
import time

import pytest
import torch

from tests.processes import PIPE, Popen, run, together


def python(program, **options):
    return run([sys.executable, "-c", program], capture_output=True, text=True, **options)


def test_they_read_write_and_end_as_they_like(tmp_path):
    program = "import os, sys; print(sys.stdin.read(), os.getcwd(), os.environ['X']); sys.exit(3)"
    done = python(program, input="words", cwd=tmp_path, env=os.environ | {"X": "own"})
    assert (done.returncode, done.stdout) == (3, f"words {tmp_path} own\n")
    done = python("import torch, atexit; atexit.register(print, 'last'); 1 / 0")
    assert (done.returncode, done.stdout) == (1, "last\n")
    assert done.stderr.endswith("ZeroDivisionError: division by zero\n")
    done = run([sys.executable, "-m", "train.cli", "--version"], capture_output=True, text=True)
    assert done.stdout.startswith("bipe ")


@pytest.mark.parametrize("name", ["SIGKILL", "SIGTERM", "SIGINT"])
def test_any_signal_ends_them(name):
    with Popen([sys.executable, "-c", "import time; time.sleep(60)"], stderr=PIPE) as process:
        process.send_signal(signal.Signals[name])
        assert process.wait(30) == -signal.Signals[name]


def test_a_session_of_their_own_is_killed_alone():
    program = "import os, time; print(os.getsid(0) == os.getpid(), flush=True); time.sleep(60)"
    words = [sys.executable, "-c", program]
    with Popen(words, stdout=PIPE, start_new_session=True, text=True) as process:
        assert process.stdout.readline() == "True\n"
        assert process.poll() is None
        os.killpg(process.pid, signal.SIGKILL)
        assert process.wait(30) == -signal.SIGKILL


def summed(number):
    value = torch.tensor([number + torch.distributed.get_rank()])
    torch.distributed.all_reduce(value)
    return value.item(), os.getpid()


def failing():
    if torch.distributed.get_rank() == 1:
        raise ValueError("of one rank")
    torch.distributed.barrier()


def test_ranks_stay_and_a_failure_is_told():
    (first, pid), (second, same) = together(summed, 3), together(summed, 5)
    assert (first, second, pid) == (7, 11, same)
    begin = time.monotonic()
    with pytest.raises(AssertionError, match="ValueError: of one rank"):
        together(failing)
    assert time.monotonic() - begin < 60
    assert together(summed, 1)[0] == 3
