"""A disk that fails anywhere: a message that names the file, and nothing half written."""

import errno
import os
import shutil
from functools import partial

import numpy as np
import pytest

from tests.train.data.corpora import content, shard_writer, write_shards
from tests.train.data.faulty import OPERATIONS, FaultyDisk
from tests.train.data.store.test_export import make
from train.data.store.export import export
from train.data.store.shards import open_dataset
from train.disk.files import write_whole
from train.errors import DataError

ERRORS = [errno.ENOSPC, errno.EIO, errno.EACCES, errno.EDQUOT, errno.EROFS]


# Two shards of two levels: every operation that a writer does.
DOCUMENTS = [(np.arange(6) + number, np.array([7, 0, 2, 0, 6, 0], np.uint8)) for number in range(3)]


def write(folder):
    write_shards(folder, DOCUMENTS, shard_tokens=9)


def merged(folder):
    with shard_writer(folder, shard_tokens=9) as writer:
        writer.extend(open_dataset(folder.with_name("parts")))


def exported(folder, format):
    list(export(folder.with_name("data"), out=folder, format=format))


def single(folder):
    folder.mkdir(exist_ok=True)
    write_whole(folder / "a", "text")


RUNS = {"write": write, "merge": merged, "whole": single}
RUNS |= {name: partial(exported, format=name) for name in ("megatron", "parquet")}


@pytest.fixture
def place(tmp_path):
    write(tmp_path / "parts")
    make(tmp_path / "data", 300, 1, 10**6)
    return tmp_path / "out"


@pytest.mark.parametrize(
    ("run", "stays"),
    [("write", True), ("merge", False), ("whole", True), ("megatron", True), ("parquet", False)],
)
def test_a_fault_at_any_operation_is_named_and_leaves_nothing(place, run, stays):
    with pytest.MonkeyPatch.context() as patch:
        disk = FaultyDisk(patch)
        RUNS[run](place)
    assert set(disk.done) == set(OPERATIONS)
    whole = content(place)
    beside = content(place.parent)
    for number in range(disk.count):
        shutil.rmtree(place)
        error = ERRORS[number % len(ERRORS)]
        with pytest.MonkeyPatch.context() as patch:
            faulty = FaultyDisk(patch, fail_at=number, error=error, stays=stays)
            with pytest.raises(DataError) as told:
                RUNS[run](place)
            assert faulty.failed
        assert str(place) in str(told.value)
        assert os.strerror(error) in str(told.value)
        # What was renamed before only its folder's fsync failed is whole, not half.
        left = content(place) if place.exists() else {}
        assert left == {} or (run == "whole" and left == whole)
        RUNS[run](place)  # the same again, on a disk that works
        assert content(place.parent) == beside


def test_a_write_that_fails_leaves_what_was_there(tmp_path):
    write_whole(tmp_path / "a", "old")
    with pytest.MonkeyPatch.context() as patch:
        disk = FaultyDisk(patch)
        write_whole(tmp_path / "b", "new")
    for number in range(disk.done.index("rename") + 1):
        with pytest.MonkeyPatch.context() as patch:
            FaultyDisk(patch, fail_at=number)
            with pytest.raises(DataError, match="Input/output error"):
                write_whole(tmp_path / "a", "new")
        assert (tmp_path / "a").read_text() == "old"
        assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


def test_a_folder_that_may_not_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(DataError, match=r"file/out: cannot be written \(Not a directory\)"):
        write(tmp_path / "file" / "out")
