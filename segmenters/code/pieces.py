"""Where a text that is parsed in pieces may be cut: at the lines that are indented least.

Such a line most likely begins a definition or at least a statement, above all behind a blank line;
a line that starts with a closing bracket does not.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from segmenters.base import Cuts

_CLOSING = np.frombuffer(b")]}", dtype=np.uint8)
_SPACE = np.zeros(256, dtype=np.bool_)
_SPACE[list(b" \t\n\r\f\v")] = True
_LAST_CHOICE = np.iinfo(np.int64).max


class Seams:
    """The starts of the lines of a text, ranked as places for a cut; all in bytes.

    `data`: uint8 [bytes]; `ends`: where lines end, int64 [lines], increasing.
    """

    __slots__ = ("_rank", "bounds")

    def __init__(self, data: npt.NDArray[np.uint8], ends: Cuts) -> None:
        own = ends[:-1] if len(ends) and ends[-1] == len(data) else ends
        self.bounds = np.concatenate(([0], own, [len(data)] if len(data) else [])).astype(np.int64)
        starts, stops = self.bounds[:-1], self.bounds[1:]
        visible = np.flatnonzero(~_SPACE[data])
        first = np.append(visible, len(data))[np.searchsorted(visible, starts)]
        blank = first >= stops
        rank = 2 * (first - starts) + 1
        rank[1:] -= blank[:-1]
        rank[blank | np.isin(data.take(first, mode="clip"), _CLOSING)] = _LAST_CHOICE
        self._rank = rank

    def last(self, low: int, high: int) -> int:
        """The best line start in (low, high], the last of equals; `low` if there is none."""
        start, stop = np.searchsorted(self.bounds[:-1], [low, high], side="right")
        if start == stop:
            return low
        ranks = self._rank[start:stop]
        return int(self.bounds[stop - 1 - np.argmin(ranks[::-1])])

    def within(self, low: int, high: int) -> int:
        """The best line start in (low, high], the last of equals; else where a line ends next."""
        best = self.last(low, high)
        return best if best > low else self.first(low + 1, low + 1)

    def first(self, low: int, high: int) -> int:
        """The best line start in [low, high], the first of equals; else where a line ends next."""
        start, stop = np.searchsorted(self.bounds, [low, high + 1])
        ranks = self._rank[start:stop]
        return int(self.bounds[start + np.argmin(ranks) if len(ranks) else start])
