"""A signal stops the work where it may stop, and a second one at once."""

import os
import signal
import sys
import threading
import time
from contextlib import nullcontext

import pytest

from tests.processes import PIPE, Popen, wait_for
from train import stop
from train.disk.files import read_numbers
from train.fit.runs import METRICS

STATUS = {"SIGTERM": 143, "SIGUSR1": 138, "SIGINT": 130, "SIGHUP": 129, "SIGUSR2": 140}
ENDS = "import os; from train import stop; stop.tell('lost'); os._exit(75)"


def send(name="SIGTERM"):
    os.kill(os.getpid(), signal.Signals[name])


@pytest.mark.parametrize("name", STATUS)
def test_a_signal_ends_the_work_with_its_status(name):
    with pytest.raises(stop.Stopped) as stopped, stop.stopping():
        send(name)
    assert stopped.value.status == STATUS[name]
    assert str(stopped.value) == f"stopped by {name}"


def test_an_interrupt_of_a_script_says_what_is_kept():
    with pytest.raises(KeyboardInterrupt, match="3 parts"), stop.kept(lambda: "3 parts"):
        raise KeyboardInterrupt


def test_an_import_that_fails_of_a_signal_is_its_end():
    with pytest.raises(stop.Stopped), stop.stopping():
        try:
            send("SIGINT")
        except stop.Stopped:  # as C code does
            raise ImportError("half of a module") from None
    with pytest.raises(ImportError), stop.stopping():
        raise ImportError("no module")


def test_handlers_are_as_before_afterwards():
    before = [signal.getsignal(each) for each in stop.SIGNALS]
    with stop.stopping():
        assert signal.getsignal(signal.SIGTERM) not in before
        with stop.stopping():
            pass
        assert signal.getsignal(signal.SIGTERM) not in before
    assert [signal.getsignal(each) for each in stop.SIGNALS] == before
    assert "stop" not in [thread.name for thread in threading.enumerate()]


@pytest.mark.parametrize(("name", "heard"), [("SIGHUP", False), ("SIGINT", True)])
def test_what_nohup_ignores_stays_ignored_and_what_shells_ignore_is_heard(name, heard):
    before = signal.signal(signal.Signals[name], signal.SIG_IGN)
    try:
        with stop.stopping(), pytest.raises(stop.Stopped) if heard else nullcontext():
            send(name)
        assert signal.getsignal(signal.Signals[name]) == signal.SIG_IGN
    finally:
        signal.signal(signal.Signals[name], before)


def test_one_of_several_ranks_waits_for_the_others_and_two_deliveries_are_one(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with stop.stopping():
        send()  # raises nothing here
        send()  # a second request would have ended the process
        wait_for(stop.requested)
        assert stop.requested() == signal.SIGTERM
        with pytest.raises(stop.Stopped):
            stop.check()


def test_the_end_of_a_slurm_job_is_a_signal(monkeypatch):
    monkeypatch.setenv("SLURM_JOB_START_TIME", str(time.time() - 10))
    monkeypatch.setenv("SLURM_JOB_END_TIME", str(time.time() + 2))
    with pytest.raises(stop.Stopped) as stopped, stop.stopping():
        wait_for(lambda: False)
    assert stopped.value.status == STATUS["SIGUSR1"]


@pytest.mark.filterwarnings("ignore:.*multi-threaded")
def test_a_forked_process_has_the_system_s_handlers():
    with stop.stopping():
        child = os.fork()
        if not child:
            send()
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGTERM
        assert stop.requested() is None


def test_a_signal_before_the_command_has_begun_ends_python_and_leaves_nothing(tmp_path):
    words = ["pretrain", "experiment=smoke", f"out={tmp_path / 'out'}"]
    process = Popen([sys.executable, "-m", "train.cli", *words], stderr=PIPE)
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=60)[1] == b""
    assert process.returncode == -signal.SIGTERM and not any(tmp_path.iterdir())


def test_a_second_signal_ends_at_once_whatever_the_main_thread_does():
    program = """if True:
        import hashlib
        from train import stop
        with stop.stopping(), stop.deferred():
            print("ready", flush=True)
            hashlib.pbkdf2_hmac("sha256", b"", b"", 10**9)  # minutes in C
    """
    process = Popen([sys.executable, "-c", program], stdout=PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    time.sleep(1)  # what follows at once is the same signal
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == STATUS["SIGINT"]
    process.stdout.close()


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
    process = Popen([sys.executable, "-c", ENDS], stderr=into)
    assert process.wait(timeout=300) == 75


@pytest.mark.slow
def test_a_training_outlives_the_reader_of_its_progress(data, tmp_path):
    words = ["pretrain", "experiment=smoke", f"data={data}", f"out={tmp_path}", "steps=60"]
    run, (out, into) = tmp_path / "bipe_rope", os.pipe()
    process = Popen([sys.executable, "-m", "train.cli", *words, "validate_every=20"], stderr=into)
    os.close(into)
    wait_for(lambda: len(read_numbers(run / METRICS)) > 5)
    os.close(out)
    assert process.wait(timeout=300) == 0
    assert len(read_numbers(run / METRICS)) == 60
