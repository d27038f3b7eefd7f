"""Rows of equal length over a data set, by one of three strategies.

A row holds `row_length` inputs and one token more, the target of the last. Neighbouring rows of
a split document share that token, so that every token but the first of its document is scored
exactly once. A row is a list of spans (start, stop) of the token stream:

    concat      documents back to back, cut every row_length: no padding but in the last row
    best_fit    whole documents in the fullest row that still has room (best fit decreasing);
                longer ones are cut, their ends packed like documents
    long_first  as concat, over documents sorted by length, longest first: rows hold as few
                documents as they can, and a document shares a row with others of its length

Documents are masked from each other in all of them (a span that begins inside a document is given
the mark of a document's start), and no target crosses from one to the next. Where a row begins
inside a document, its positions `restart`, or they `continue`: the row then carries what the
tokens before left behind (bipe.positions.Carry). Ids are not computed here.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from train.data.documents import DataError
from train.data.shards import DataSet

PACKINGS = ("concat", "best_fit", "long_first")
SPLIT_DOCUMENTS = ("restart", "continue")
_STARTS_DOCUMENT = np.uint8(0b11)

Spans = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row: inputs are ``tokens[:-1]``, targets ``tokens[1:]``.

    tokens: int64 [row_length + 1]. marks: uint8 [row_length + 1].
    padding: how many of the tokens, at the end, are padding.
    carry: int64 [3]: token index, open segment and place in it, as the tokens before left them;
    zeros where the row begins a document or positions restart.
    """

    tokens: npt.NDArray[np.int64]
    marks: npt.NDArray[np.uint8]
    padding: int
    carry: npt.NDArray[np.int64]


class Rows:
    """The rows of one split of one source.

    packing: "concat", "best_fit" or "long_first".
    split_documents: whether positions "restart" or "continue" where a document is cut.
    """

    def __init__(
        self,
        *,
        data: DataSet,
        row_length: int,
        packing: str = "concat",
        split_documents: str = "restart",
    ) -> None:
        if row_length < 1:
            raise DataError(f"row_length must be at least 1, was: {row_length}")
        if packing not in PACKINGS:
            raise DataError(f"packing must be one of {', '.join(PACKINGS)}, was: {packing}")
        if split_documents not in SPLIT_DOCUMENTS:
            raise DataError(f"split_documents must be restart or continue, was: {split_documents}")
        if not len(data):
            raise DataError(
                f"source {data.name}, split {data.manifest.get('split')}: there are no documents. "
                "Give the split a larger share, or name documents for it in split.ids"
            )
        self.data, self.row_length = data, row_length
        self.continues = split_documents == "continue"
        self._starts = np.concatenate(([0], data.document_ends[:-1]))
        lengths = data.document_ends - self._starts
        if packing == "best_fit":
            self._packed: _Stream | _Bins = _Bins(
                self._starts, lengths, row_length, tails_first=self.continues
            )
        else:
            longest = np.argsort(-lengths, kind="stable") if packing == "long_first" else None
            self._packed = _Stream(self._starts, data.document_ends, row_length, order=longest)

    def __len__(self) -> int:
        """Number of rows."""
        return len(self._packed)

    def spans(self, index: int) -> Spans:
        """Where the tokens of a row come from: int64 [spans, 2]."""
        if not 0 <= index < len(self):
            raise IndexError(f"row must be from 0 to {len(self) - 1}, was: {index}")
        return self._packed.spans(index)

    def targets(self, index: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """Number of scored targets of each row, without a look at the tokens."""
        flat = [self._targets(int(row)) for row in np.atleast_1d(index)]
        return np.array(flat, dtype=np.int64).reshape(np.shape(index))

    def row(self, index: int) -> Row:
        """Read a row."""
        spans = self.spans(index)
        tokens = np.zeros(self.row_length + 1, np.int64)
        marks = np.zeros(self.row_length + 1, np.uint8)
        at = 0
        for start, stop in spans.tolist():
            tokens[at : at + stop - start] = self.data.tokens[start:stop]
            marks[at : at + stop - start] = self.data.marks(start, stop)
            if at or not self.continues:
                marks[at] |= _STARTS_DOCUMENT
            at += stop - start
        carry = self._carry(int(spans[0, 0])) if self.continues else np.zeros(3, np.int64)
        return Row(tokens=tokens, marks=marks, padding=self.row_length + 1 - at, carry=carry)

    def _targets(self, index: int) -> int:
        total = 0
        for start, stop in self.spans(index).tolist():
            inside = np.searchsorted(self.data.document_ends, [start, stop - 1], side="right")
            total += stop - start - 1 - int(inside[1] - inside[0])
        return total

    def _carry(self, at: int) -> npt.NDArray[np.int64]:
        """Token index, open segment and place in it, as the tokens before `at` leave them."""
        document = int(np.searchsorted(self.data.document_ends, at, side="right"))
        start = int(self._starts[document])
        if at == start:
            return np.zeros(3, np.int64)
        opened = np.flatnonzero(self.data.starts(start, at))
        # The first token of a document opens its first segment.
        return np.array([at - start, len(opened) - 1, at - start - opened[-1]], np.int64)


class _Stream:
    """Documents back to back in some order, cut every `row_length` tokens."""

    def __init__(self, starts: Spans, ends: Spans, row_length: int, *, order: Spans | None) -> None:
        self._row_length = row_length
        if order is None:  # the order of the file: one span covers all of it
            self._starts, self._ends = np.zeros(1, np.int64), ends[-1:]
        else:
            self._starts, self._ends = starts[order], ends[order]
        self._stops = np.cumsum(self._ends - self._starts)

    def __len__(self) -> int:
        # The last token is a target only.
        return max(1, -(-(int(self._stops[-1]) - 1) // self._row_length))

    def spans(self, index: int) -> Spans:
        first = index * self._row_length
        last = min(first + self._row_length + 1, int(self._stops[-1]))
        left = int(np.searchsorted(self._stops, first, side="right"))
        right = int(np.searchsorted(self._stops, last, side="left")) + 1
        stops, ends = self._stops[left:right], self._ends[left:right]
        spans = np.stack((self._starts[left:right], ends), axis=1)
        spans[0, 0] = ends[0] - (stops[0] - first)
        spans[-1, 1] = ends[-1] - (stops[-1] - last)
        return spans


class _Bins:
    """Best fit decreasing; the pieces of documents longer than a row fill rows of their own.

    tails_first: an end that is left of a cut document opens a row, because only the first token
    of a row can carry positions on.
    """

    def __init__(
        self, starts: Spans, lengths: Spans, row_length: int, *, tails_first: bool
    ) -> None:
        room = row_length + 1
        rows: list[list[tuple[int, int]]] = []
        items: list[tuple[int, int]] = []
        tails: list[tuple[int, int]] = []
        for start, length in zip(starts.tolist(), lengths.tolist(), strict=True):
            stop, cut = start + length, length > room
            while stop - start > room:
                rows.append([(start, start + room)])
                start += row_length
            (tails if cut and tails_first else items).append((start, stop))
        open_rows = _OpenRows(rows, room)
        for tail in tails:
            open_rows.begin(tail)
        for item in sorted(items, key=lambda span: span[0] - span[1]):
            open_rows.place(item)
        self._spans = np.array([span for row in rows for span in row], np.int64)
        self._first = np.cumsum([0, *map(len, rows)])

    def __len__(self) -> int:
        return len(self._first) - 1

    def spans(self, index: int) -> Spans:
        return self._spans[self._first[index] : self._first[index + 1]]


class _OpenRows:
    """Rows by the room that is left in them."""

    def __init__(self, rows: list[list[tuple[int, int]]], room: int) -> None:
        self._rows, self._room = rows, room
        self._by_room: defaultdict[int, list[int]] = defaultdict(list)
        self._rooms: list[int] = []

    def begin(self, span: tuple[int, int]) -> None:
        """Put a span into a new row."""
        self._rows.append([span])
        self._keep(len(self._rows) - 1, self._room - (span[1] - span[0]))

    def place(self, span: tuple[int, int]) -> None:
        """Put a span into the row that it leaves fullest."""
        length = span[1] - span[0]
        at = bisect_left(self._rooms, length)
        if at == len(self._rooms):
            self.begin(span)
            return
        room = self._rooms[at]
        row = self._by_room[room].pop()
        if not self._by_room[room]:
            self._rooms.pop(at)
        self._rows[row].append(span)
        self._keep(row, room - length)

    def _keep(self, row: int, room: int) -> None:
        if not room:
            return
        if not self._by_room[room]:
            insort(self._rooms, room)
        self._by_room[room].append(row)
