"""One run to a folder: held locks are named, those of the dead do not count."""

import errno
import os
import socket
import subprocess
import sys
from unittest.mock import Mock

import pytest

from tests.train.data.preparing.disturbed import run, write_corpus
from train.disk.lock import locked
from train.errors import DataError


def test_a_held_lock_names_its_holder(tmp_path):
    path = tmp_path / "lock"
    with locked(path, what="the data"):
        with (
            pytest.raises(DataError, match=rf"the data is being prepared by process {os.getpid()}"),
            locked(path, what="the data"),
        ):
            pass
        assert path.exists()
    assert not path.exists()
    with locked(path, what="the data"):
        pass


def test_a_lock_of_another_process_counts_until_it_dies(tmp_path):
    program = (
        "import sys, time; from pathlib import Path; from train.disk.lock import locked\n"
        "with locked(Path(sys.argv[1]), what=''): print('held', flush=True); time.sleep(60)"
    )
    path = tmp_path / "lock"
    command = [sys.executable, "-c", program, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        with (
            pytest.raises(DataError, match=f"by process {process.pid} on"),
            locked(path, what="it"),
        ):
            pass
        process.kill()
    assert path.exists()
    with locked(path, what="it"):
        assert path.read_text().splitlines()[0] == str(os.getpid())


HERE = socket.gethostname()


@pytest.fixture(params=["locks", "none"])
def file_system(request, monkeypatch):
    """File systems with locks of their own, and without."""
    if request.param == "none":
        missing = OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))
        monkeypatch.setattr("fcntl.flock", Mock(side_effect=missing))


@pytest.mark.parametrize(
    ("holder", "holds"),
    [
        ("1\nelsewhere\n", True),
        (f"{2**22 + 1}\n{HERE}\n", False),
        (f"{os.getppid()}\n{HERE}\n1\n", False),  # its number was used again
    ],
)
def test_a_file_counts_where_its_process_may_live(tmp_path, holder, holds, file_system):
    path = tmp_path / "lock"
    path.write_text(holder)
    if holds:
        with pytest.raises(DataError, match="if that run is dead, remove"), locked(path, what=""):
            pass
        assert path.read_text() == holder
        return
    with locked(path, what=""):
        with pytest.raises(DataError, match=f"by process {os.getpid()} on {HERE} since 2"):
            locked(path, what="").__enter__()
        assert path.exists()
    assert not path.exists()


def test_a_half_written_file_holds_nobody_up(tmp_path):
    (tmp_path / "lock").write_text("12")
    with locked(tmp_path / "lock", what=""):
        pass


def test_two_runs_into_one_folder(tmp_path):
    write_corpus(tmp_path / "in", seed=0, documents=10)
    (tmp_path / "out" / ".part").mkdir(parents=True)
    with (
        locked(tmp_path / "out" / ".part" / "lock", what="x"),
        pytest.raises(DataError, match="out is being prepared by process"),
    ):
        run(tmp_path / "in", tmp_path / "out")
    run(tmp_path / "in", tmp_path / "out")
    assert not (tmp_path / "out" / ".part").exists()
