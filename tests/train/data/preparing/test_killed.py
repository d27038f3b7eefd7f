"""Preparation under SIGKILL: the bytes are those of a run that nobody disturbed."""

import os
import random
import signal
import sys
import time
from pathlib import Path

import pytest

from tests.processes import PIPE, Popen
from tests.train.data.corpora import content
from tests.train.data.preparing.disturbed import (
    PART_BYTES,
    ROOT,
    descendants,
    run,
    write_corpus,
)
from train.data.reading import SPLITS
from train.data.reading import documents as parts
from train.data.store.shards import open_dataset

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
PATIENCE = 200  # seconds


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """A corpus, its texts, and what one worker makes of it."""
    folder = tmp_path_factory.mktemp("corpus")
    texts = write_corpus(folder / "in", seed=7)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parts, "SMALLEST", PART_BYTES)
        run(folder / "in", folder / "out", seconds=0.01)
    return folder / "in", texts, content(folder / "out")


def started(folder, out, *, workers):
    command = [sys.executable, "-m", "tests.train.data.preparing.disturbed", str(folder), str(out)]
    return Popen(
        [*command, "--workers", str(workers)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=PIPE,
        stderr=PIPE,
        text=True,
    )


def done(out):
    return len(list(out.glob(".part/parts/*/[0-9]*/part.json")))


def waited(condition):
    until = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


def finished(process):
    try:
        out, err = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
    assert process.returncode == 0, err
    return out.split()[0]


@pytest.mark.parametrize(("workers", "kills"), [(1, 1), (2, 1)])
def test_killed_parents_are_taken_up_where_they_were(undisturbed, tmp_path, workers, kills):
    folder, _, expected = undisturbed
    draw = random.Random(workers)
    before = 0
    for _ in range(kills):
        process = started(folder, tmp_path, workers=workers)
        goal = before + draw.randint(1, 8)
        waited(lambda goal=goal: done(tmp_path) >= goal)
        time.sleep(draw.random() / 20)
        workers_of = descendants(process.pid)
        process.kill()
        process.communicate(timeout=PATIENCE)
        assert not (tmp_path / "manifest.json").exists()
        waited(lambda gone=workers_of: not any(Path(f"/proc/{pid}/fd/0").exists() for pid in gone))
        before = done(tmp_path)
        assert before >= goal
    kept = {path: path.stat().st_mtime_ns for path in tmp_path.glob(".part/parts/*/*/part.json")}
    process = started(folder, tmp_path, workers=workers)
    while kept and process.poll() is None:  # what was done is not done again
        for path, when in kept.items():
            if path.exists():
                assert path.stat().st_mtime_ns == when
        time.sleep(0.05)
    assert finished(process) == "made"
    assert content(tmp_path) == expected


def test_killed_workers_are_replaced(undisturbed, tmp_path):
    folder, texts, expected = undisturbed
    draw = random.Random(0)
    process = started(folder, tmp_path, workers=2)
    for _ in range(2):
        goal = done(tmp_path) + draw.randint(1, 5)
        waited(lambda goal=goal: done(tmp_path) >= goal)
        below = descendants(process.pid)
        victims = [pid for pid, depth in below.items() if depth == 2]
        os.kill(draw.choice(victims), signal.SIGKILL)
    assert finished(process) == "made"
    assert content(tmp_path) == expected
    found = []
    for source in ("rows", "text"):
        for split in SPLITS:
            found += open_dataset(tmp_path / source / split).document_ids()
    assert sorted(found) == sorted(texts)


@pytest.mark.parametrize("moment", [1, 8, 14])
def test_an_installation_that_is_killed_is_finished(undisturbed, tmp_path, monkeypatch, moment):
    folder, _, expected = undisturbed
    monkeypatch.setattr("tests.train.data.preparing.disturbed.time.sleep", lambda _: None)
    run(folder, tmp_path, seconds=0.0)
    moves = 0

    class Killed(BaseException):
        pass

    def replace(self, target, *, whole=Path.replace):
        nonlocal moves
        inside = Path(target).parent in (tmp_path, tmp_path / ".part" / "old")
        moves += inside
        if inside and moves == moment:
            raise Killed
        return whole(self, target)

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(Path, "replace", replace)
        run(folder, tmp_path, seconds=0.01, if_exists="overwrite")
    assert not run(folder, tmp_path, seconds=0.01).kept
    assert content(tmp_path) == expected
    assert run(folder, tmp_path, seconds=0.01).kept
