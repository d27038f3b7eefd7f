"""Marks of many windows of a data set at once, for batches of rows contiguous in the file.

The bytes of the bitmaps are gathered for all windows, shifted to the start of each, and unpacked in
one call; calling `DataSet.marks` for each window gives the same, slower.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from train.data.store.shards import DataSet, Shard

Marks = npt.NDArray[np.uint8]
Integers = npt.NDArray[np.int64]
# Each byte of a bitmap as eight marks of the finest level, the first bit first.
_SPREAD = (
    np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little") << 1
).view(np.uint64)[:, 0]


def window_marks(data: DataSet, starts: Integers, length: int) -> Marks:
    """Return marks from each start, uint8 [windows, length]; no window may pass the end."""
    if len(data.shards) == 1:
        marks = _segments(data.shards[0], data.marked, starts, length)
    else:
        marks = _segments_over_shards(data, starts, length)
    rows, places = _document_starts(data.document_ends, starts, length)
    marks[rows, places] |= np.uint8(1)
    return marks


def _segments_over_shards(data: DataSet, starts: Integers, length: int) -> Marks:
    marks = np.empty((len(starts), length), np.uint8)
    stops = np.cumsum([len(shard.tokens) for shard in data.shards])
    of = np.searchsorted(stops, starts, side="right")
    crossing = starts + length > stops[of]
    for number in np.unique(of[~crossing]).tolist():
        here = (of == number) & ~crossing
        before = stops[number] - len(data.shards[number].tokens)
        marks[here] = _segments(data.shards[number], data.marked, starts[here] - before, length)
    for window in np.flatnonzero(crossing).tolist():
        marks[window] = data.marks(int(starts[window]), int(starts[window]) + length)
    return marks


def _segments(shard: Shard, levels: Sequence[int], starts: Integers, length: int) -> Marks:
    """Return the marks of segments, without those of documents, inside one shard."""
    gathered = (starts >> 3)[:, None] + np.arange(-(-length // 8) + 1)
    shift = (starts & 7).astype(np.uint8)[:, None]
    marks = []
    for level in levels:
        packed = shard.bits[level].take(gathered, mode="clip")  # a byte beyond the last is not used
        # numpy gives 0 for a shift by 8, as is needed here.
        begun = (packed[:, :-1] >> shift) | (packed[:, 1:] << (np.uint8(8) - shift))
        marks.append(_SPREAD.take(begun).view(np.uint8))
    for bit, coarser in enumerate(marks[1:], start=1):
        marks[0] |= coarser << np.uint8(bit)
    return marks[0][:, :length]


def _document_starts(ends: Integers, starts: Integers, length: int) -> tuple[Integers, Integers]:
    """Return the window and the place in it of each document start inside a window."""
    first = np.searchsorted(ends, starts)
    counts = np.searchsorted(ends, starts + length) - first
    window = np.repeat(np.arange(len(starts)), counts)
    turn = np.arange(len(window)) - np.repeat(np.cumsum(counts) - counts, counts)
    place = ends[np.repeat(first, counts) + turn] - starts[window]
    begin = np.flatnonzero(starts == 0)  # the first document has no end before its start
    return np.append(window, begin), np.append(place, np.zeros(len(begin), np.int64))
