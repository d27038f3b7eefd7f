"""Which characters end segments, and how often a segment ends where they stand.

    share      of the segments, those whose last visible character it is
    hit rate   of its appearances, those at the end of a segment

A line end is counted like a character: a gap of white space that holds one.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from train.data.store.shards import DataSet
from train.evals.spelled import spelled

PIECE = 1 << 20  # tokens
_SHOWN = 12  # characters
_SPACES = np.array([code for code in range(0x3001) if chr(code).isspace()], dtype=np.uint32)


class Separators:
    """Counts ends of segments by their characters; pieces: the bytes of each id."""

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self._pieces = pieces
        self._sizes = np.array([len(piece) for piece in pieces], dtype=np.int64)
        self._ends: Counter[int] = Counter()
        self._all: Counter[int] = Counter()
        self.segments = self.tokens = self._blank = 0
        self._lines = self._line_ends = 0

    def add(self, data: DataSet, *, limit: int | None, piece: int = PIECE) -> None:
        """Count the first `limit` tokens of a split, to the end of a segment."""
        total = len(data.tokens) if limit is None else min(limit, len(data.tokens))
        begin = 0
        while begin < total:
            stop = min(begin + piece, total)
            starts = np.flatnonzero(data.marks(begin, stop) & 3)
            if stop < len(data.tokens):  # the last segment may go on: it waits, or is left out
                if len(starts) < 2:
                    if stop == total:
                        return
                    piece *= 2
                    continue
                stop = begin + int(starts[-1])
                starts = starts[:-1]
            self._count(np.asarray(data.tokens[begin:stop]).astype(np.int64), starts)
            begin = stop

    def _count(self, ids: np.ndarray, starts: np.ndarray) -> None:
        found = spelled(ids, self._pieces, self._sizes)
        visible = np.flatnonzero(~np.isin(found.characters, _SPACES))
        self.tokens += len(ids)
        self.segments += len(starts)
        stops = np.append(found.first[starts[1:]], len(found.characters))
        # The token that opens a segment may begin with the space before it: no visible character.
        last = np.searchsorted(visible, stops) - 1
        first = np.searchsorted(visible, found.first[starts])
        there = last >= first
        self._blank += int((~there).sum())
        last = last[there]
        self._tally(self._ends, found.characters[visible[last]])
        self._tally(self._all, found.characters[visible])
        lines = np.cumsum(found.characters == 0x0A)
        behind = np.append(visible[1:], len(found.characters) - 1)
        gaps = lines[behind] > lines[visible] if len(visible) else np.zeros(0, bool)
        self._lines += int(gaps.sum())
        self._line_ends += int(gaps[np.unique(last)].sum())

    @staticmethod
    def _tally(counter: Counter[int], characters: np.ndarray) -> None:
        codes, times = np.unique(characters, return_counts=True)
        counter.update(dict(zip(codes.tolist(), times.tolist(), strict=True)))

    def summary(self) -> dict[str, Any]:
        """The characters that end most segments, and line ends."""
        segments = max(1, self.segments)
        return {
            "segments": self.segments,
            "tokens": self.tokens,
            "blank_share": self._blank / segments,
            "line_end": _row(self._line_ends, self._lines, segments),
            "characters": [
                {
                    "character": chr(code),
                    "name": unicodedata.name(chr(code), f"U+{code:04X}"),
                    **_row(ends, self._all[code], segments),
                }
                for code, ends in sorted(self._ends.items(), key=lambda c: (-c[1], c[0]))[:_SHOWN]
            ],
        }


def _row(ends: int, appearances: int, segments: int) -> dict[str, Any]:
    return {
        "ends": ends,
        "share": ends / segments,
        "appearances": appearances,
        "hit_rate": ends / appearances if appearances else None,
    }
