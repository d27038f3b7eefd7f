"""Parquet: SPLIT-00000-of-00001.parquet, one file a shard, one row a document.

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
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from train.data.store.shards import DataSet, Shard
from train.disk.files import Output

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
