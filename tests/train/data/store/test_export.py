"""Exports: what another reader gets is what was prepared, and nothing is left of a failure."""

import errno
import json
import os
import shutil
import struct
from functools import partial
from itertools import pairwise
from unittest.mock import MagicMock

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.train.data.corpora import content, random_documents, shard_writer, write_shards
from tests.train.data.faulty import OPERATIONS, FaultyDisk
from train.cli import main
from train.data.store.export import export, write_megatron
from train.data.store.folder import write_top
from train.data.store.shards import open_dataset
from train.disk.files import write_whole
from train.errors import DataError

LENGTHS = {"train": [30, 1, 17, 8, 200], "validation": [5, 9], "test": []}


@pytest.fixture(params=[(300, 1, 10**6), (300, 2, 40), (70_000, 3, 1)], ids=str)
def prepared(request, tmp_path):
    return make(tmp_path / "data", *request.param)


def make(root, vocab_size, levels, shard_tokens):
    """Write a data set of one source."""
    (root / "s").mkdir(parents=True)
    for split, lengths in LENGTHS.items():
        documents = random_documents(lengths, vocab_size=vocab_size, levels=levels)
        given = {"name": "s", "vocab_size": vocab_size, "levels": levels}
        names = ["sentence", "paragraph", "page"][:levels]
        given["description"] = {"tokenizer": {"sha256": "t"}, "level_names": names}
        write_shards(root / "s" / split, documents, shard_tokens=shard_tokens, **given)
    (root / "tokenizer.json").write_text("{}")
    entry = {"splits": {split: {} for split in LENGTHS}}
    write_top(root, {"format": "bipe-data", "version": 2, "sources": {"s": entry}})
    return root


def read_indexed(stem):
    """A reader of IndexedDataset by the description of the format alone: ids of each sequence."""
    index = stem.with_suffix(".idx").read_bytes()
    assert index[:9] == b"MMIDIDX\x00\x00"
    (version,) = struct.unpack_from("<Q", index, 9)
    (code,) = struct.unpack_from("<B", index, 17)
    sequences, documents = struct.unpack_from("<QQ", index, 18)
    assert version == 1
    dtype = {4: np.dtype(np.int32), 8: np.dtype(np.uint16)}[code]
    lengths = np.frombuffer(index, "<i4", sequences, 34)
    pointers = np.frombuffer(index, "<i8", sequences, 34 + 4 * sequences)
    bounds = np.frombuffer(index, "<i8", documents, 34 + 12 * sequences)
    assert len(index) == 34 + 12 * sequences + 8 * documents
    stored = stem.with_suffix(".bin").read_bytes()
    assert lengths.sum() * dtype.itemsize == len(stored)
    ids = [
        np.frombuffer(stored, dtype, length, pointer)
        for length, pointer in zip(lengths, pointers, strict=True)
    ]
    assert bounds[0] == 0
    assert bounds[-1] == sequences
    return [ids[a:b] for a, b in pairwise(bounds)]


@pytest.mark.parametrize("sequences", ["documents", "segments"])
def test_megatron_reads_what_was_prepared(prepared, tmp_path, monkeypatch, sequences):
    for place in ("export", "shards"):
        monkeypatch.setattr(f"train.data.store.{place}._BLOCK", 7)
    out = tmp_path / "out"
    words = ["format=megatron", f"out={out}", f"sequences={sequences}"]
    assert main(["export", str(prepared), *words]) == 0
    for split in ("train", "validation"):
        data = open_dataset(prepared / "s" / split)
        read = read_indexed(out / "s" / split)
        assert len(read) == len(data)
        for index, parts in enumerate(read):
            tokens, marks = data.document(index)
            starts = np.flatnonzero(marks & 2) if sequences == "segments" else [0]
            assert np.array_equal(np.concatenate(parts), tokens)
            assert np.array_equal(np.cumsum([0, *map(len, parts)]), [*starts, len(tokens)])
    names = ["train.bin", "train.idx", "validation.bin", "validation.idx"]
    assert sorted(path.name for path in (out / "s").iterdir()) == names
    assert (out / "tokenizer.json").read_text() == "{}"


@pytest.mark.parametrize("group", [1, 30])
def test_parquet_holds_ids_and_segments_of_every_level(prepared, tmp_path, monkeypatch, group):
    monkeypatch.setattr("train.data.store.export._GROUP_TOKENS", group)
    out = tmp_path / "out"
    assert main(["export", str(prepared), "format=parquet", f"out={out}"]) == 0
    for split in ("train", "validation"):
        data = open_dataset(prepared / "s" / split)
        files = sorted((out / "s").glob(f"{split}-*.parquet"))
        assert len(files) == len(data.shards)
        assert files[-1].name == f"{split}-{len(files) - 1:05d}-of-{len(files):05d}.parquet"
        rows = [row for file in files for row in pq.read_table(file).to_pylist()]
        assert [row["id"] for row in rows] == data.document_ids()
        assert [row["bytes"] for row in rows] == data.document_bytes.tolist()
        for index, row in enumerate(rows):
            tokens, marks = data.document(index)
            assert row["input_ids"] == tokens.tolist()
            for level in range(data.manifest["levels"]):
                lengths = row[f"segment_lengths_{level}" if level else "segment_lengths"]
                starts = np.flatnonzero(marks >> (1 + level) & 1)
                assert lengths == np.diff([*starts, len(tokens)]).tolist()
        schema = pq.read_schema(files[0])
        assert str(schema.field("input_ids").type.value_type) == data.tokens.dtype.name
        told = json.loads(schema.metadata[b"bipe"])
        assert told["tokenizer"] == {"sha256": "t"}
        assert told["level_names"] == data.manifest["level_names"]
        groups = pq.ParquetFile(files[0]).metadata
        sizes = [groups.row_group(number).num_rows for number in range(groups.num_row_groups)]
        assert group > 1 or set(sizes) == {1}


@pytest.mark.parametrize("format", ["megatron", "parquet"])
def test_nothing_is_left_of_damaged_data(tmp_path, capsys, format):
    prepared = make(tmp_path / "data", 300, 1, 50)
    path = prepared / "s" / "validation" / "s.00000.bin"
    path.write_bytes(path.read_bytes()[:-1] + b"\xff")
    before = sorted(tmp_path.rglob("*"))
    out = tmp_path / "new" / "out"
    assert main(["export", str(prepared), f"format={format}", f"out={out}"]) == 2
    assert "s.00000.bin: its sha256 is not the manifest's" in capsys.readouterr().err
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "one DIR must be given, was: none"),
        (["a", "b"], "one DIR must be given, was: a b"),
        (["DIR"], "format= must be set"),
        (["DIR", "format=parquet"], "out= must be set"),
        (["DIR", "format=parkett", "out=x"], "format: there is no 'parkett'; did you mean 'parq"),
        (["DIR", "formt=parquet", "out=x"], "there is no key 'formt'; did you mean 'format'"),
        (["DIR", "format=megatron", "out=x", "sequences=lines"], "sequences: there is no 'lines'"),
        (["DIR", "format=megatron", "out=DIR"], "must be a new or empty folder"),
        (["nowhere", "format=megatron", "out=x"], "contains no prepared data; bipe prepare first"),
    ],
)
def test_wrong_words_are_told(tmp_path, monkeypatch, capsys, words, told):
    make(tmp_path / "DIR", 300, 1, 50)
    monkeypatch.chdir(tmp_path)
    assert main(["export", *words]) == 2
    assert told in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["DIR"]


def test_ids_that_megatron_has_no_type_for_are_refused(tmp_path):
    data = open_dataset(make(tmp_path / "data", 70_000, 1, 50) / "s" / "train")
    data.manifest["vocab_size"] = 2**31 + 1
    with pytest.raises(ValueError, match=r"ids must be below 2 \*\* 31"):
        write_megatron(data, stem=tmp_path / "x", sequences="documents")


class Vast:
    """Tokens of which only the number is known."""

    dtype = np.dtype("<u4")

    def __len__(self):
        return 5 * 10**9

    def __getitem__(self, places):
        return np.empty(0, self.dtype)


def test_offsets_beyond_32_bits_are_written_whole(tmp_path, monkeypatch):
    monkeypatch.setattr("train.data.store.export._BLOCK", len(Vast()))
    ends = np.array([2, 4, 5]) * 10**9
    data = MagicMock(tokens=Vast(), document_ends=ends, manifest={"vocab_size": 70_000})
    data.__len__.return_value = 3
    _, index = write_megatron(data, stem=tmp_path / "x", sequences="documents")
    starts = np.frombuffer(index.read_bytes(), "<i8", 3, offset=34 + 3 * 4)
    assert starts.tolist() == [0, 8 * 10**9, 16 * 10**9]


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
