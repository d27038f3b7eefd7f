"""Marks of many stretches of a data set at once, for batches whose rows lie in it as they are.

Bytes of the bitmaps are gathered for all windows together, shifted to begin with their windows,
and unpacked in one call: no Python per row. `DataSet.marks` of each window is the same, slower.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from train.data.store.shards import DataSet, Shard

Marks = npt.NDArray[np.uint8]
Integers = npt.NDArray[np.int64]


def window_marks(data: DataSet, starts: Integers, length: int) -> Marks:
    """Marks of the tokens from each start on: uint8 [windows, length]; none may pass the end."""
    if len(data.shards) == 1:
        marks = _segments(data.shards[0], starts, length)
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
        marks[here] = _segments(data.shards[number], starts[here] - before, length)
    for window in np.flatnonzero(crossing).tolist():
        marks[window] = data.marks(int(starts[window]), int(starts[window]) + length)
    return marks


def _segments(shard: Shard, starts: Integers, length: int) -> Marks:
    """Marks without those of documents, inside one shard."""
    gathered = (starts >> 3)[:, None] + np.arange(-(-length // 8) + 1)
    shift = (starts & 7).astype(np.uint8)[:, None]
    marks: Marks | None = None
    for level, bits in enumerate(shard.bits):
        packed = bits.take(gathered, mode="clip")  # the byte behind the last is not looked at
        # A shift by the width of a byte gives 0 in numpy, which is what it should be.
        begun = (packed[:, :-1] >> shift) | (packed[:, 1:] << (np.uint8(8) - shift))
        one = np.unpackbits(begun, axis=1, bitorder="little")[:, :length] << np.uint8(1 + level)
        marks = one if marks is None else marks | one
    assert marks is not None
    return marks


def _document_starts(ends: Integers, starts: Integers, length: int) -> tuple[Integers, Integers]:
    """Window and place in it of every document that starts inside a window."""
    first = np.searchsorted(ends, starts)
    counts = np.searchsorted(ends, starts + length) - first
    window = np.repeat(np.arange(len(starts)), counts)
    turn = np.arange(len(window)) - np.repeat(np.cumsum(counts) - counts, counts)
    place = ends[np.repeat(first, counts) + turn] - starts[window]
    begin = np.flatnonzero(starts == 0)  # the first document starts without an end before it
    return np.append(window, begin), np.append(place, np.zeros(len(begin), np.int64))
