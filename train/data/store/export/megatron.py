"""Megatron-LM's IndexedDataset: SPLIT.bin, the ids back to back, and SPLIT.idx over it.

The index, little-endian and without gaps: the magic word, version (uint64), a code for the type of
the ids (uint8), the number of sequences and of document indices (uint64 both), then the length of
each sequence in ids (int32), where it starts in SPLIT.bin in bytes (int64), and the document
indices (int64): the sequence with which each document starts, and at last the number of sequences.

A sequence is a document, as GPT wants it, or a segment: so Megatron splits sentences for BERT, and
the segments of the first level are kept. A document ends with its end-of-document id either way.
There is no type for uint32; ids below 2 ** 31 are the same bytes as int32.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from train.data.store.shards import DataSet
from train.disk.files import Output
from train.errors import DataError

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
