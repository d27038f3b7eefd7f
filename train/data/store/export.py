"""Prepared data in the formats of other programs.

Megatron-LM's IndexedDataset: SPLIT.bin holds the ids back to back, SPLIT.idx the index,
little-endian and without gaps: the magic word, version (uint64), code of the type of the ids
(uint8), the numbers of sequences and of document indices (uint64 each), then the length of each
sequence in ids (int32), its start in SPLIT.bin in bytes (int64), and the document indices (int64):
the first sequence of each document, and last the number of sequences.

A sequence is a document, as for GPT, or a segment of the first level, as Megatron splits sentences
for BERT. Each document ends with its end-of-document id. There is no code for uint32, but ids below
2 ** 31 have the same bytes as int32.

Parquet: SPLIT-00000-of-00001.parquet, one file per shard, one row per document.

    id                  string
    bytes               int64: its size in UTF-8
    input_ids           list<uint16 or uint32>, with the end-of-document id
    segment_lengths     list<int32>: tokens of each segment of the first level, adding up to the
                        ids; segment_lengths_1 and so on: of further levels

The metadata of the schema hold the fingerprints of the tokenizer and the segmenter, and the names
of the levels if there are several, as JSON under "bipe". `datasets` reads the folder of a source as
it is, with splits named by the files.
"""

import json
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from bipe.sealing import whole_folder
from train.data.store.folder import TOKENIZER, read_top
from train.data.store.shards import DataSet, LevelWish, Shard, open_dataset
from train.disk.files import whole, write_whole, writing
from train.errors import DataError, nearest

FORMATS = ("megatron", "parquet")
SEQUENCES = ("documents", "segments")
_MAGIC = b"MMIDIDX\x00\x00"
_VERSION = 1
_TYPES = {2: 8, 4: 4}  # bytes of an id -> code of uint16, of int32
_LARGEST = 2**31 - 1
_BLOCK = 1 << 20
_GROUP_TOKENS = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """One exported split; it has no files if it has no documents."""

    source: str
    split: str
    documents: int
    files: list[Path]


def export(
    folder: Path,
    *,
    out: str | Path,
    format: str,
    sequences: str = "documents",
    level: LevelWish | None = None,
) -> Iterator[Exported]:
    """Write each split of a prepared data set to OUT/SOURCE, and tokenizer.json to OUT.

    sequences: those of Megatron, "documents" or "segments". level: the finest to write, by number
    or name (`shards.level_of`); its segments are the first. Raises DataError for an unknown format,
    an `out` that is not new or empty, or damaged data. `out` is whole, after the last split, or as
    it was; what a killed export left beside it, the next one removes.
    """
    out = Path(out)
    for key, value, choices in (("format", format, FORMATS), ("sequences", sequences, SEQUENCES)):
        if value not in choices:
            raise DataError(f"{key}: there is no {value!r}; {nearest(value, choices)}")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise DataError(f"out={out} must be a new or empty folder")
    sources = read_top(folder)["sources"]
    out = out.resolve()  # the rename at the end would replace a link
    with writing(out), whole_folder(out) as fresh, _named(fresh, out):
        write_whole(fresh / TOKENIZER, (folder / TOKENIZER).read_text(encoding="utf-8"))
        for source, entry in sources.items():
            (fresh / source).mkdir()
            for split in entry["splits"]:
                data = open_dataset(folder / source / split, level=level)
                stem, files = fresh / source / split, list[Path]()
                if len(data) and format == "megatron":
                    files = write_megatron(data, stem=stem, sequences=sequences)
                elif len(data):
                    files = write_parquet(data, stem=stem)
                files = [out / path.relative_to(fresh) for path in files]
                yield Exported(source=source, split=split, documents=len(data), files=files)


@contextmanager
def _named(fresh: Path, out: Path) -> Iterator[None]:
    """Name files by the place that they will have, in errors of the block."""
    try:
        yield
    except DataError as fault:
        raise DataError(str(fault).replace(str(fresh), str(out))) from fault.__cause__


def write_megatron(data: DataSet, *, stem: Path, sequences: str) -> list[Path]:
    """Write STEM.bin and STEM.idx; DataError for data that the format cannot hold."""
    width = data.tokens.dtype.itemsize
    if width > 2 and data.manifest["vocab_size"] - 1 > _LARGEST:
        raise DataError(f"{data.folder}: ids must be below 2 ** 31 for Megatron")
    begins = np.append(0, data.document_ends[:-1])
    starts = data.segments() if sequences == "segments" else begins
    lengths = np.diff(np.append(starts, len(data.tokens)))
    if lengths.max(initial=0) > _LARGEST:
        raise DataError(f"{data.folder}: a sequence of Megatron has at most {_LARGEST} ids")
    head = struct.pack("<9sQBQQ", _MAGIC, _VERSION, _TYPES[width], len(starts), len(data) + 1)
    documents = np.append(np.searchsorted(starts, begins), len(starts))
    files = [stem.with_name(f"{stem.name}.{kind}") for kind in ("bin", "idx")]
    with whole(files[0]) as tokens:
        for at in range(0, len(data.tokens), _BLOCK):
            tokens.write(data.tokens[at : at + _BLOCK].tobytes())
    with whole(files[1]) as index:
        index.write(head)
        for values, dtype in (lengths, "<i4"), (starts * width, "<i8"), (documents, "<i8"):
            index.write(values.astype(dtype).tobytes())
    return files


def write_parquet(data: DataSet, *, stem: Path) -> list[Path]:
    schema, count = _schema(data), len(data.shards)
    names = [f"{stem.name}-{n:05d}-of-{count:05d}.parquet" for n in range(count)]
    files = [stem.with_name(name) for name in names]
    for path, shard in zip(files, data.shards, strict=True):
        with (
            shard.paths["ids"].open("rb") as lines,
            whole(path) as output,
            pq.ParquetWriter(output, schema) as writer,
        ):
            for first, last in _groups(shard.ends):
                ids = [json.loads(line) for line in islice(lines, last - first)]
                columns = _columns(shard, data.level, first, last, ids)
                writer.write_table(pa.table(columns, schema=schema))
    return files


def _schema(data: DataSet) -> pa.Schema:
    kept = ("name", "split", "tokenizer", "segmenter", "vocab_size", "levels", "level_names")
    described = {key: data.manifest[key] for key in kept if key in data.manifest}
    if data.level:
        described["levels"] -= data.level
        described["level_names"] = described.get("level_names", [])[data.level :]
    fields = [("id", pa.string()), ("bytes", pa.int64())]
    fields += [("input_ids", pa.list_(pa.from_numpy_dtype(data.tokens.dtype)))]
    levels = range(data.level, data.manifest["levels"])
    fields += [(_column(level - data.level), pa.list_(pa.int32())) for level in levels]
    return pa.schema(fields, metadata={"bipe": json.dumps(described)})


def _column(level: int) -> str:
    return f"segment_lengths_{level}" if level else "segment_lengths"


def _groups(ends: npt.NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    first = begin = 0
    while first < len(ends):
        fitting = int(np.searchsorted(ends, begin + _GROUP_TOKENS, side="right"))
        last = max(fitting, first + 1)
        yield first, last
        first, begin = last, int(ends[last - 1])


def _columns(shard: Shard, finest: int, first: int, last: int, ids: list[str]) -> dict[str, Any]:
    begin, end = int(shard.ends[first - 1]) if first else 0, int(shard.ends[last - 1])
    bounds = np.append(begin, shard.ends[first:last])  # of the documents, in tokens
    columns = {
        "id": pa.array(ids, pa.string()),
        "bytes": pa.array(shard.sizes[first:last]),
        "input_ids": _lists(shard.tokens[begin:end], bounds - begin),
    }
    for level in range(finest, len(shard.bits)):
        starts = begin + np.flatnonzero(shard.starts(begin, end, level=level))
        lengths = np.diff(np.append(starts, end)).astype(np.int32)
        columns[_column(level - finest)] = _lists(lengths, np.searchsorted(starts, bounds))
    return columns


def _lists(values: npt.NDArray[Any], offsets: npt.NDArray[np.int64]) -> pa.ListArray:
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(values))
