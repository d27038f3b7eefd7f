"""Prepared data in the formats of other programs, one file a format.

Megatron-LM's IndexedDataset: SPLIT.bin, the ids back to back, and SPLIT.idx over it.

The index, little-endian and without gaps: the magic word, version (uint64), a code for the type of
the ids (uint8), the number of sequences and of document indices (uint64 both), then the length of
each sequence in ids (int32), where it starts in SPLIT.bin in bytes (int64), and the document
indices (int64): the sequence with which each document starts, and at last the number of sequences.

A sequence is a document, as GPT wants it, or a segment: so Megatron splits sentences for BERT, and
the segments of the first level are kept. A document ends with its end-of-document id either way.
There is no type for uint32; ids below 2 ** 31 are the same bytes as int32.


Parquet: SPLIT-00000-of-00001.parquet, one file a shard, one row a document.

    id                  string
    bytes               int64: its size in UTF-8
    input_ids           list<uint16 or uint32>, with the end-of-document id
    segment_lengths     list<int32>: tokens of each segment of the first level; they add up to
                        the ids. segment_lengths_1 and so on: of further levels

The metadata of the schema hold the fingerprints of the tokenizer and the segmenter as JSON under
"bipe". `datasets` reads the folder of a source as it lies, the splits by the names of the files.
"""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from train.data.store.folder import TOKENIZER, read_top
from train.data.store.shards import DataSet, Shard, open_dataset
from train.disk.files import Output, sync_folder, writing
from train.errors import DataError, nearest

__all__ = ["FORMATS", "SEQUENCES", "Exported", "export"]

FORMATS = ("megatron", "parquet")


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """One split as it was written; no file where it has no document."""

    source: str
    split: str
    documents: int
    files: list[Path]


def export(
    folder: Path, *, out: str | Path, format: str, sequences: str = "documents"
) -> Iterator[Exported]:
    """Write every split of a prepared data set to OUT/SOURCE, and tokenizer.json to OUT.

    format: "megatron" or "parquet". sequences: what a sequence of Megatron's is, "documents" or
    "segments". Raises DataError for a format that there is not, an `out` that is not new or empty,
    or data that is damaged; nothing is left of the attempt.
    """
    out = Path(out)
    if format not in FORMATS:
        raise DataError(f"format: there is no {format!r}; {nearest(format, FORMATS)}")
    if sequences not in SEQUENCES:
        raise DataError(f"sequences: there is no {sequences!r}; {nearest(sequences, SEQUENCES)}")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise DataError(f"out={out} must be a new or empty folder")
    sources = read_top(folder)["sources"]
    with _Outputs.of(out) as outputs:
        tokenizer = outputs.create(out / TOKENIZER)
        tokenizer.write((folder / TOKENIZER).read_bytes())
        outputs.commit()
        for source, entry in sources.items():
            for split in entry["splits"]:
                data = open_dataset(folder / source / split)
                if len(data) and format == "megatron":
                    write_megatron(
                        data, stem=out / source / split, create=outputs.create, sequences=sequences
                    )
                elif len(data):
                    write_parquet(data, stem=out / source / split, create=outputs.create)
                yield Exported(
                    source=source, split=split, documents=len(data), files=outputs.commit()
                )


class _Outputs:
    """Files of an export: each whole before the next split, and none after a fault."""

    def __init__(self) -> None:
        self._open: list[Output] = []
        self._done: list[Output] = []
        self._folders: list[Path] = []

    @classmethod
    @contextmanager
    def of(cls, out: Path) -> Iterator[_Outputs]:
        """Remove everything again if the export fails."""
        outputs = cls()
        try:
            outputs._make(out)
            yield outputs
        except BaseException:
            outputs._discard()
            raise

    def create(self, path: Path) -> Output:
        """A new file, in a folder that is made where it is missing."""
        self._make(path.parent)
        output = Output(path)
        self._open.append(output)
        return output

    def commit(self) -> list[Path]:
        """Put what was created in its place."""
        committed = self._open
        for output in committed:
            output.commit()
        for folder in {output.path.parent for output in committed}:
            with writing(folder):
                sync_folder(folder)
        self._done += committed
        self._open = []
        return [output.path for output in committed]

    def _make(self, folder: Path) -> None:
        missing = [path for path in (folder, *folder.parents) if not path.exists()]
        for path in reversed(missing):
            with writing(path):
                path.mkdir()
            self._folders.append(path)

    def _discard(self) -> None:
        for output in (*self._open, *self._done):
            output.discard()
        for folder in reversed(self._folders):
            with suppress(OSError):
                folder.rmdir()


SEQUENCES = ("documents", "segments")
_MAGIC = b"MMIDIDX\x00\x00"
_VERSION = 1
_TYPES = {2: 8, 4: 4}  # bytes of an id -> code of uint16, of int32
_LARGEST = 2**31 - 1
_BLOCK = 1 << 20

Places = npt.NDArray[np.int64]


def write_megatron(
    data: DataSet, *, stem: Path, create: Callable[[Path], Output], sequences: str = "documents"
) -> None:
    """Write STEM.bin and STEM.idx; DataError for what the format cannot hold."""
    width = data.tokens.dtype.itemsize
    by_segment = sequences == "segments"
    if width > 2 and data.manifest["vocab_size"] - 1 > _LARGEST:
        raise DataError(f"{data.folder}: ids must be below 2 ** 31 for Megatron")
    tokens = create(stem.with_name(f"{stem.name}.bin"))
    for start in range(0, len(data.tokens), _BLOCK):
        tokens.write(data.tokens[start : start + _BLOCK].tobytes())
    index = create(stem.with_name(f"{stem.name}.idx"))
    number = data.manifest["counts"]["segments"] if by_segment else len(data)
    index.write(struct.pack("<9sQBQQ", _MAGIC, _VERSION, _TYPES[width], number, len(data) + 1))
    for lengths in _lengths(_starts(data, by_segment), len(data.tokens)):
        if lengths.max(initial=0) > _LARGEST:
            raise DataError(f"{data.folder}: a sequence of Megatron's has at most {_LARGEST} ids")
        index.write(lengths.astype("<i4").tobytes())
    for starts in _starts(data, by_segment):
        index.write((starts * width).astype("<i8").tobytes())
    for indices in _document_indices(data, by_segment):
        index.write(indices.astype("<i8").tobytes())


def _starts(data: DataSet, by_segment: bool) -> Iterator[Places]:
    """Where sequences start, in tokens, in blocks."""
    if by_segment:
        for start in range(0, len(data.tokens), _BLOCK):
            stop = min(start + _BLOCK, len(data.tokens))
            yield start + np.flatnonzero(data.starts(start, stop))
    else:
        yield np.zeros(1, np.int64)
        for start in range(0, len(data) - 1, _BLOCK):
            yield data.document_ends[: len(data) - 1][start : start + _BLOCK]


def _lengths(blocks: Iterator[Places], tokens: int) -> Iterator[Places]:
    last = np.empty(0, np.int64)
    for starts in blocks:
        joined = np.concatenate((last, starts))
        yield np.diff(joined)
        last = joined[-1:]
    yield np.diff(np.append(last, tokens))


def _document_indices(data: DataSet, by_segment: bool) -> Iterator[Places]:
    """The first sequence of each document, and behind them the number of sequences."""
    yield np.zeros(1, np.int64)
    if not by_segment:
        for start in range(0, len(data), _BLOCK):
            yield np.arange(start, min(start + _BLOCK, len(data))) + 1
        return
    before = 0
    for block, starts in enumerate(_starts(data, by_segment)):
        begin, end = block * _BLOCK, min((block + 1) * _BLOCK, len(data.tokens))
        first, last = np.searchsorted(data.document_ends, [begin, end], side="right")
        yield before + np.searchsorted(starts, data.document_ends[first:last])
        before += len(starts)


_GROUP_TOKENS = 1 << 20


def write_parquet(data: DataSet, *, stem: Path, create: Callable[[Path], Output]) -> None:
    """Write one file a shard, in row groups of a bounded number of tokens."""
    schema = _schema(data)
    for number, shard in enumerate(data.shards):
        name = f"{stem.name}-{number:05d}-of-{len(data.shards):05d}.parquet"
        output = create(stem.with_name(name))
        with (
            shard.paths["ids"].open("rb") as lines,
            pq.ParquetWriter(_Sink(output), schema) as writer,
        ):
            for first, last in _groups(shard.ends):
                ids = [json.loads(line) for line in islice(lines, last - first)]
                columns = _columns(shard, first, last, ids)
                writer.write_table(pa.table(columns, schema=schema))


class _Sink(io.RawIOBase):
    """An output as pyarrow wants it."""

    def __init__(self, output: Output) -> None:
        self._output = output

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._output.write(data)
        return len(data)


def _schema(data: DataSet) -> pa.Schema:
    kept = ("name", "split", "tokenizer", "segmenter", "vocab_size", "levels")
    told = {key: data.manifest[key] for key in kept if key in data.manifest}
    fields = [("id", pa.string()), ("bytes", pa.int64())]
    fields += [("input_ids", pa.list_(pa.from_numpy_dtype(data.tokens.dtype)))]
    levels = range(data.manifest["levels"])
    fields += [(_column(level), pa.list_(pa.int32())) for level in levels]
    return pa.schema(fields, metadata={"bipe": json.dumps(told)})


def _column(level: int) -> str:
    return f"segment_lengths_{level}" if level else "segment_lengths"


def _groups(ends: npt.NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Documents first to last of each row group: as many as fit, and one at least."""
    first = begin = 0
    while first < len(ends):
        last = int(np.searchsorted(ends, begin + _GROUP_TOKENS, side="right"))
        last = max(last, first + 1)
        yield first, last
        first, begin = last, int(ends[last - 1])


def _columns(shard: Shard, first: int, last: int, ids: list[str]) -> dict[str, Any]:
    begin = int(shard.ends[first - 1]) if first else 0
    bounds = np.append(begin, shard.ends[first:last])  # of the documents, in tokens
    end = int(bounds[-1])
    columns = {
        "id": pa.array(ids, pa.string()),
        "bytes": pa.array(shard.sizes[first:last]),
        "input_ids": _lists(shard.tokens[begin:end], bounds - begin),
    }
    for level in range(len(shard.bits)):
        starts = begin + np.flatnonzero(shard.starts(begin, end, level=level))
        lengths = np.diff(np.append(starts, end)).astype(np.int32)
        columns[_column(level)] = _lists(lengths, np.searchsorted(starts, bounds))
    return columns


def _lists(values: npt.NDArray[Any], offsets: npt.NDArray[np.int64]) -> pa.ListArray:
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(values))
