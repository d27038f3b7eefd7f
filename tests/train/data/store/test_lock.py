"""One run to a folder: held locks are named, those of the dead do not count."""

import json
import os
import socket
import subprocess
import sys

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
        assert json.loads(path.read_text())["pid"] == os.getpid()


@pytest.mark.parametrize(
    ("holder", "holds"),
    [
        ({"host": "elsewhere", "pid": 1, "started": None}, True),
        ({"host": socket.gethostname(), "pid": 2**22 + 1, "started": None}, False),
        ({"host": socket.gethostname(), "pid": os.getppid(), "started": "1"}, False),
        ({"half": "written"}, False),
        (None, False),
    ],
)
def test_what_a_file_says_counts_where_that_process_may_live(tmp_path, holder, holds):
    path = tmp_path / "lock"
    path.write_text(json.dumps(holder) if holder else "{")
    if holds:
        with pytest.raises(DataError, match="if that run is dead, remove"), locked(path, what=""):
            pass
        assert json.loads(path.read_text()) == holder
        return
    with locked(path, what=""):
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
