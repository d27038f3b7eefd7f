"""Local workers: the same bytes for any number of them, and clear ends."""

import os
import random
import signal
import sys
import time
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import Mock

import pytest

from segmenters import Newline
from segmenters.base import SegmenterError
from tests.processes import LIMIT_S, PIPE, Popen, wait_for
from tests.train.data import corpora
from tests.train.data.corpora import content, ids_of
from tests.train.data.preparing import disturbed
from train.data.preparing.engines import Local
from train.data.preparing.source import Source
from train.data.reading import documents as parts
from train.errors import DataError


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    monkeypatch.setattr(parts, "SMALLEST", disturbed.PART_BYTES)


@dataclass(frozen=True, kw_only=True)
class Breaks(Newline):
    """Cannot cut some documents, or kills its own process at them."""

    kills: bool = False

    def cut(self, text):
        if "def f():" in text and self.kills:
            os.kill(os.getpid(), signal.SIGKILL)
        if "def f():" in text:
            raise SegmenterError("cannot", offset=3)
        return super().cut(text)


def test_the_bytes_do_not_depend_on_the_number_of_workers_or_parts(tmp_path, monkeypatch):
    texts = disturbed.write_corpus(tmp_path / "in", seed=1, documents=60)
    disturbed.run(tmp_path / "in", tmp_path / "one")
    expected = content(tmp_path / "one")
    disturbed.run(tmp_path / "in", tmp_path / "three", workers=3)
    assert content(tmp_path / "three") == expected
    disturbed.run(tmp_path / "in", tmp_path / "apart", engine=Local(workers=1, isolate=True))
    assert content(tmp_path / "apart") == expected
    assert ids_of(tmp_path / "one", "rows", "text") == sorted(texts)
    monkeypatch.setattr(parts, "SMALLEST", 10**9)
    disturbed.run(tmp_path / "in", tmp_path / "undivided")
    assert content(tmp_path / "undivided") == expected


def prepared(folder, segmenter):
    source = Source(
        documents=disturbed.sources(folder / "in")["rows"].documents, segmenter=segmenter
    )
    made = corpora.prepared({"rows": source}, folder / "out", engine=Local(workers=2))
    assert not (folder / "out" / ".part").exists()
    return made


def test_where_no_worker_begins_a_script_may_be_why(tmp_path, monkeypatch):
    monkeypatch.setattr(Local, "_run_pool", Mock(side_effect=BrokenProcessPool))
    disturbed.write_corpus(tmp_path / "in", seed=4, documents=30)
    with pytest.raises(DataError, match=r"3 times .* outside of `if __name__"):
        prepared(tmp_path, Newline())


def test_a_fault_in_a_worker_is_the_same_fault_here_and_its_death_ends_the_run(tmp_path):
    disturbed.write_corpus(tmp_path / "in", seed=4, documents=30)
    for kills, told in (
        (True, r"workers were killed 3 times in a row while"),
        (False, r"document 'doc[0-9]+': character 3: cannot"),
    ):
        with pytest.raises(ValueError, match=told):
            prepared(tmp_path, Breaks(kills=kills))
        assert not (tmp_path / "out" / "manifest.json").exists()
    assert not prepared(tmp_path, Newline()).kept


needs_proc = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """A corpus, and what one worker makes of it."""
    folder = tmp_path_factory.mktemp("corpus")
    disturbed.write_corpus(folder / "in", seed=7)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parts, "SMALLEST", disturbed.PART_BYTES)
        disturbed.run(folder / "in", folder / "out", seconds=0.01)
    return folder / "in", content(folder / "out")


def started(folder, out):
    command = [sys.executable, "-m", "tests.train.data.preparing.disturbed", str(folder), str(out)]
    environ = {**os.environ, "PYTHONPATH": str(disturbed.ROOT)}
    return Popen(command, cwd=disturbed.ROOT, env=environ, stdout=PIPE, stderr=PIPE, text=True)


def done(out):
    return len(list(out.glob(".part/parts/*/[0-9]*/part.json")))


def finished(process):
    try:
        out, err = process.communicate(timeout=LIMIT_S)
    finally:
        process.kill()
    assert process.returncode == 0, err
    return out.split()[0]


@needs_proc
def test_killed_parents_are_taken_up_where_they_were(undisturbed, tmp_path):
    folder, expected = undisturbed
    process = started(folder, tmp_path)
    wait_for(lambda: done(tmp_path) >= 5)
    below = disturbed.descendants(process.pid)
    process.kill()
    process.communicate(timeout=LIMIT_S)
    assert not (tmp_path / "manifest.json").exists()
    wait_for(lambda: not any(Path(f"/proc/{pid}/fd/0").exists() for pid in below))
    kept = {path: path.stat().st_mtime_ns for path in tmp_path.glob(".part/parts/*/*/part.json")}
    assert len(kept) >= 5
    process = started(folder, tmp_path)
    while process.poll() is None:  # what was done is not done again
        for path, when in kept.items():
            if path.exists():
                assert path.stat().st_mtime_ns == when
        time.sleep(0.05)
    assert finished(process) == "made"
    assert content(tmp_path) == expected


@needs_proc
def test_killed_workers_are_replaced(undisturbed, tmp_path):
    folder, expected = undisturbed
    draw = random.Random(0)
    process = started(folder, tmp_path)
    for _ in range(2):
        goal = done(tmp_path) + draw.randint(1, 5)
        wait_for(lambda goal=goal: done(tmp_path) >= goal)
        victims = [pid for pid, depth in disturbed.descendants(process.pid).items() if depth == 2]
        os.kill(draw.choice(victims), signal.SIGKILL)
    assert finished(process) == "made"
    assert content(tmp_path) == expected


def test_an_installation_that_is_killed_is_finished(undisturbed, tmp_path, monkeypatch):
    """In its middle; tests/trust/test_kills.py kills it everywhere, into an empty folder."""
    folder, expected = undisturbed
    monkeypatch.setattr("tests.train.data.preparing.disturbed.time.sleep", lambda _: None)
    disturbed.run(folder, tmp_path, seconds=0.0)
    moves = 0

    class Killed(BaseException):
        pass

    def replace(self, target, *, whole=Path.replace):
        nonlocal moves
        inside = Path(target).parent in (tmp_path, tmp_path / ".part" / "old")
        moves += inside
        if inside and moves == 8:
            raise Killed
        return whole(self, target)

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(Path, "replace", replace)
        disturbed.run(folder, tmp_path, seconds=0.01, if_exists="overwrite")
    assert not disturbed.run(folder, tmp_path, seconds=0.01).kept
    assert content(tmp_path) == expected
    assert disturbed.run(folder, tmp_path, seconds=0.01).kept
