"""One process to a folder: held locks are named, those of the dead do not count; whole writes."""

import os
import socket
import subprocess
import sys

import pytest

from tests.train.data.preparing.disturbed import run, write_corpus
from train.disk import lock
from train.disk.lock import holder, locked
from train.errors import DataError

HERE = socket.gethostname()
HOLDS = (
    "import sys, time; from pathlib import Path; from train.disk.lock import locked\n"
    "with locked(Path(sys.argv[1]), what=''): print('held', flush=True); time.sleep(600)"
)


def marker(pid, host):
    lines = ("filelock/2", f"pid={pid}", f"host={host}", "mode=lease", "token=1", "duration=60.0")
    return "".join(f"{line}\n" for line in lines)


@pytest.fixture
def other(tmp_path):
    """A process that holds the lock."""
    command = [sys.executable, "-c", HOLDS, str(tmp_path / "lock")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_a_held_lock_names_its_holder(tmp_path):
    path = tmp_path / "lock"
    with locked(path, what="the data", command="bipe prepare"):
        told = rf"the data is in use by bipe prepare \(process {os.getpid()} on {HERE} since 2"
        with pytest.raises(DataError, match=told), locked(path, what="the data"):
            pass
        assert holder(path).alive
    assert not path.exists()
    assert holder(path) is None
    with locked(path, what="the data"):
        pass


def test_a_lock_of_another_process_counts_until_it_dies(tmp_path, other):
    path = tmp_path / "lock"
    with pytest.raises(DataError, match=f"process {other.pid} on"), locked(path, what="it"):
        pass
    other.kill()
    other.wait()
    assert not holder(path).alive
    with locked(path, what="it"):
        assert holder(path).pid == os.getpid()
    path.write_text(marker(os.getppid(), HERE) + "start=1\n")  # its number was used again
    assert not holder(path).alive
    with locked(path, what=""):
        assert holder(path).pid == os.getpid()


def test_a_holder_on_another_host_counts_while_it_renews_its_lock(tmp_path, monkeypatch, capsys):
    """The host of this process changes its name; the lock of the other keeps the old one."""
    path = tmp_path / "lock"
    monkeypatch.setattr(lock, "LEASE", 1.5)
    monkeypatch.setattr(lock, "_GRACE", 1.0)
    with locked(path, what="the run"):
        monkeypatch.setattr("socket.gethostname", lambda: "elsewhere")
        with pytest.raises(DataError, match="the run is in use by"), locked(path, what="the run"):
            pass
        monkeypatch.undo()
    assert f"on {HERE} since" in capsys.readouterr().err


def test_a_dead_holder_on_another_host_is_waited_for_and_replaced(tmp_path, monkeypatch, capsys):
    path = tmp_path / "lock"
    monkeypatch.setattr(lock, "LEASE", 1.0)
    path.write_text(marker(1, "elsewhere").replace("60.0", "1.0"))
    with locked(path, what="the run"):
        assert holder(path).host == HERE
    assert "on elsewhere): waiting up to 1 s to see if it is alive" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["\x00\xff", marker("x", HERE)])
def test_a_damaged_file_holds_nobody_up(tmp_path, text):
    (tmp_path / "lock").write_text(text)
    os.utime(tmp_path / "lock", (1, 1))
    assert holder(tmp_path / "lock") is None
    with locked(tmp_path / "lock", what=""):
        pass


def test_two_runs_into_one_folder(tmp_path):
    write_corpus(tmp_path / "in", seed=0, documents=10)
    (tmp_path / "out" / ".part").mkdir(parents=True)
    with (
        locked(tmp_path / "out" / ".part" / "lock", what="x"),
        pytest.raises(DataError, match="out is in use by bipe prepare"),
    ):
        run(tmp_path / "in", tmp_path / "out")
    run(tmp_path / "in", tmp_path / "out")
    assert not (tmp_path / "out" / ".part").exists()
