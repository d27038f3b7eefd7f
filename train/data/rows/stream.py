"""Rows cut from documents that stand back to back, in the order of the file or another."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]


class Stream:
    """Rows of `row_length` tokens and one more, the target of the last, which the next row repeats.

    ends: where each document ends, in tokens. longest_first: documents sorted by length.
    """

    def __init__(self, ends: Integers, row_length: int, *, longest_first: bool) -> None:
        self._row_length = row_length
        # Bounds of documents in the stream, and the spans of the file that it is made of.
        self._bounds = ends
        self._stops, self._ends = ends[-1:], ends[-1:]  # the file itself: one span
        self._starts = np.zeros(1, np.int64)
        if longest_first:
            lengths = np.diff(ends, prepend=0)
            order = np.argsort(-lengths, kind="stable")
            self._ends = ends[order]
            self._starts = self._ends - lengths[order]
            self._bounds = self._stops = np.cumsum(lengths[order])
        self._total = int(self._stops[-1])

    def __len__(self) -> int:
        # The last token is a target only.
        return max(1, -(-(self._total - 1) // self._row_length))

    def spans(self, index: int) -> Integers:
        """Where the tokens of a row come from: int64 [spans, 2]."""
        first = index * self._row_length
        last = min(first + self._row_length + 1, self._total)
        left = int(np.searchsorted(self._stops, first, side="right"))
        right = int(np.searchsorted(self._stops, last, side="left")) + 1
        stops, ends = self._stops[left:right], self._ends[left:right]
        spans = np.stack((self._starts[left:right], ends), axis=1)
        spans[0, 0] = ends[0] - (stops[0] - first)
        spans[-1, 1] = ends[-1] - (stops[-1] - last)
        return spans

    def straight(self, rows: Integers) -> Integers | None:
        """Where rows start in the file, if each is one whole stretch of it; else None."""
        starts = rows * self._row_length
        whole = (starts >= 0) & (starts + self._row_length < self._total)
        return starts if len(self._stops) == 1 and whole.all() else None

    def targets(self, rows: Integers) -> Integers:
        """Scored targets of rows: all tokens but the first, and the first of each document."""
        first = rows * self._row_length
        last = np.minimum(first + self._row_length, self._total - 1)
        opened = np.searchsorted(self._bounds, last, side="right")
        return last - first - (opened - np.searchsorted(self._bounds, first, side="right"))

    def pieces(self) -> int:
        """Documents, or parts of them, over the inputs of all rows."""
        last_row = len(self) - 1
        begins = np.concatenate(([0], self._bounds[:-1])) // self._row_length
        finishes = (self._bounds - 1) // self._row_length
        inside = begins <= last_row  # not the last token, where it is a target only
        return int((np.minimum(finishes, last_row) - begins + 1)[inside].sum())

    def inputs(self, rows: int | None = None) -> int:
        """Tokens that are an input, over the first rows, or all."""
        return min(self._total, (len(self) if rows is None else rows) * self._row_length)

    def long_inputs(self, rows: int, *, at_least: int) -> int:
        """Inputs of the first rows that come from documents of at least so many tokens."""
        lengths = np.diff(self._bounds, prepend=0)
        inside = np.clip(self.inputs(rows) - (self._bounds - lengths), 0, lengths)
        return int(inside[lengths >= at_least].sum())
