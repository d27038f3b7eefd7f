"""Where the tokens of each row come from: documents back to back, or bins of whole documents.

Bins cut a document longer than a row into full rows, which share a token with the next, and a tail
that is packed like a document. Best fit decreasing puts each document, longest first, into the
fullest row that still has room. All documents of equal length and all rows of equal room are
handled at once, as ranges: the time grows with the number of different lengths.
"""

from bisect import bisect_left, insort

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]


class Stream:
    """Rows of `row_length` tokens and one more, the target of the last, which the next row repeats.

    ends: where each document ends, in tokens. longest_first: sort documents by length.
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
        # The last token is only a target.
        return max(1, -(-(self._total - 1) // self._row_length))

    def spans(self, index: int) -> Integers:
        """Return the spans of the file that make up a row: int64 [spans, 2]."""
        first = index * self._row_length
        last = min(first + self._row_length + 1, self._total)
        left = int(np.searchsorted(self._stops, first, side="right"))
        right = int(np.searchsorted(self._stops, last, side="left")) + 1
        stops, ends = self._stops[left:right], self._ends[left:right]
        spans = np.stack((self._starts[left:right], ends), axis=1)
        # The documents at both ends of the row are cut; in one span both may be the same.
        spans[0, 0] = ends[0] - (stops[0] - first)
        spans[-1, 1] = ends[-1] - (stops[-1] - last)
        return spans

    def targets(self, rows: Integers) -> Integers:
        """Count the scored targets of rows: all but the first token of rows and documents."""
        first = rows * self._row_length
        last = np.minimum(first + self._row_length, self._total - 1)
        opened = np.searchsorted(self._bounds, last, side="right")
        return last - first - (opened - np.searchsorted(self._bounds, first, side="right"))

    def pieces(self) -> int:
        """Count the pieces of documents in all rows."""
        last_row = len(self) - 1
        begins = np.concatenate(([0], self._bounds[:-1])) // self._row_length
        finishes = (self._bounds - 1) // self._row_length
        inside = begins <= last_row  # excludes a last token that is only a target
        return int((np.minimum(finishes, last_row) - begins + 1)[inside].sum())

    def inputs(self, rows: int | None = None) -> int:
        return min(self._total, (len(self) if rows is None else rows) * self._row_length)

    def squares(self) -> int:
        """Return the sum of the squared lengths of the pieces of documents in rows."""
        begins, row = np.concatenate(([0], self._bounds[:-1])), self._row_length
        first = np.minimum(self._bounds, (begins // row + 1) * row) - begins
        full, last = np.divmod(self._bounds - begins - first, row)
        return int((first**2 + full * row**2 + last**2).sum())

    def long_inputs(self, rows: int) -> int:
        """Count the inputs of the first rows that are of documents of at least a row."""
        lengths = np.diff(self._bounds, prepend=0)
        inside = np.clip(self.inputs(rows) - (self._bounds - lengths), 0, lengths)
        return int(inside[lengths >= self._row_length].sum())


# Documents that are packed together: so many that the rows left open in a window hardly count.
_WINDOW = 1 << 20


class Bins:
    """Rows of spans that never cross from one document into the next.

    ends: where each document ends, in tokens. together: let documents share rows (best fit).
    tails_first: the tail of a cut document opens a row, because only the first token of a row can
    carry a position on. window: documents that are packed together, which bounds the memory.
    """

    def __init__(
        self,
        ends: npt.NDArray[np.int64],
        row_length: int,
        *,
        together: bool,
        tails_first: bool,
        window: int = _WINDOW,
    ) -> None:
        self._row_length, self._ends = row_length, ends
        starts, lengths, counts = [], [], []
        for first in range(0, len(ends), window):
            begin = ends[first - 1] if first else 0
            stops = np.asarray(ends[first : first + window])
            begins = np.concatenate(([begin], stops[:-1]))
            *pieces, rows = _pack(begins, stops - begins, row_length, together, tails_first)
            order = np.argsort(rows, kind="stable")
            starts.append(pieces[0][order])
            lengths.append(pieces[1][order].astype(np.int32))  # at most a row's
            counts.append(np.bincount(rows).astype(np.int32))
        self._starts, self._lengths = np.concatenate(starts), np.concatenate(lengths)
        # The first piece of each row, and the tokens in it.
        self._first = np.concatenate(([0], np.cumsum(np.concatenate(counts))))
        self._filled = np.add.reduceat(self._lengths, self._first[:-1], dtype=np.int32)

    def __len__(self) -> int:
        return len(self._filled)

    def spans(self, index: int) -> Integers:
        inside = slice(self._first[index], self._first[index + 1])
        starts = self._starts[inside]
        return np.stack((starts, starts + self._lengths[inside]), axis=1)

    def targets(self, rows: Integers) -> Integers:
        """Count the scored targets of rows: all tokens but the first of each span."""
        return self._filled[rows] - (self._first[rows + 1] - self._first[rows])

    def pieces(self) -> int:
        return len(self._starts)

    def inputs(self, rows: int | None = None) -> int:
        """Count the tokens that are inputs; the last token of a full row is only a target."""
        return int(np.minimum(self._filled[:rows], self._row_length).sum(dtype=np.int64))

    def squares(self) -> int:
        lengths = np.minimum(self._lengths, self._row_length).astype(np.int64)
        return int((lengths**2).sum())

    def long_inputs(self, rows: int) -> int:
        last = self._first[rows]
        of = np.searchsorted(self._ends, self._starts[:last], side="right")
        inside = self._lengths[:last].astype(np.int64)
        full = np.flatnonzero(self._filled[:rows] > self._row_length)
        inside[self._first[full + 1] - 1] -= 1  # the last token of a full row is only a target
        return int(inside[np.diff(self._ends, prepend=0)[of] >= self._row_length].sum())


def _pack(
    starts: Integers, lengths: Integers, row_length: int, together: bool, tails_first: bool
) -> tuple[Integers, Integers, Integers]:
    """Return the pieces that documents are cut into, their lengths, and the row of each."""
    room = row_length + 1
    # Full rows overlap by one token, so each takes `row_length`; a rest of up to `room` is a tail.
    full = np.maximum(0, -((room - lengths) // row_length))  # rows that a cut document fills
    inner = np.arange(full.sum()) - np.repeat(np.cumsum(full) - full, full)
    bodies = np.repeat(starts, full) + inner * row_length
    starts, lengths = starts + full * row_length, lengths - full * row_length
    whole = len(bodies)
    rows = np.arange(whole + len(starts))
    if together:
        # Longest first, after those that open rows of their own.
        opening = (full > 0) & tails_first
        order = np.lexsort((-lengths, ~opening))
        starts, lengths, alone = starts[order], lengths[order], int(opening.sum())
        packer = _Packer(room, first_row=whole)
        packer.begin(lengths[:alone])
        packer.place(lengths[alone:])
        rows[whole:] = packer.rows()
    return np.concatenate((bodies, starts)), np.concatenate((np.full(whole, room), lengths)), rows


class _Packer:
    """Best fit decreasing over ranges of rows with equal room."""

    def __init__(self, room: int, *, first_row: int) -> None:
        self._room, self._next = room, first_row
        self._ranges: dict[int, list[tuple[int, int]]] = {}  # room left -> (first row, rows)
        self._rooms: list[int] = []  # keys of _ranges, ascending, for the least that is enough
        self._runs: list[tuple[int, int, int]] = []  # first row, rows, documents per row

    def rows(self) -> Integers:
        """Return the row of each document, in the order in which they came."""
        if not self._runs:
            return np.empty(0, np.int64)
        first, rows, each = np.array(self._runs, np.int64).T
        row = np.repeat(first - (np.cumsum(rows) - rows), rows) + np.arange(rows.sum())
        return np.repeat(row, np.repeat(each, rows))

    def begin(self, lengths: Integers) -> None:
        """Open a row for each document, which later documents may share."""
        for length, count in zip(*_runs_of(lengths), strict=True):
            self._fill(self._next, count, length, each=1, room=self._room)
            self._next += count

    def place(self, lengths: Integers) -> None:
        """Put documents, longest first, each into the row that it leaves fullest."""
        for length, count in zip(*_runs_of(lengths), strict=True):
            while count and (at := bisect_left(self._rooms, length)) < len(self._rooms):
                room = self._rooms[at]
                row, rows = self._take(room)
                count -= self._spread(row, rows, length, count, room)
            new = -(-count // (self._room // length))
            if count:
                self._spread(self._next, new, length, count, self._room)
                self._next += new

    def _spread(self, row: int, rows: int, length: int, count: int, room: int) -> int:
        """Fill equal rows one after the other, as best fit does; return how many documents went in.

        A row that got one is then the fullest with room for the next document of this length.
        """
        each = room // length
        whole = min(rows, count // each)
        if whole:
            self._fill(row, whole, length, each=each, room=room)
        placed = whole * each
        rest = count - placed
        if whole < rows and rest:
            self._fill(row + whole, 1, length, each=rest, room=room)
            placed, whole = count, whole + 1
        self._keep(room, row + whole, rows - whole)
        return placed

    def _fill(self, row: int, rows: int, length: int, *, each: int, room: int) -> None:
        self._runs.append((row, rows, each))
        self._keep(room - each * length, row, rows)

    def _keep(self, room: int, row: int, rows: int) -> None:
        if not room or not rows:
            return
        if room not in self._ranges:
            self._ranges[room] = []
            insort(self._rooms, room)
        self._ranges[room].append((row, rows))

    def _take(self, room: int) -> tuple[int, int]:
        rows = self._ranges[room].pop()
        if not self._ranges[room]:
            del self._ranges[room]
            self._rooms.remove(room)
        return rows


def _runs_of(lengths: Integers) -> tuple[list[int], list[int]]:
    """Return the different lengths in a sorted list, and how often each is there."""
    if not len(lengths):
        return [], []
    at = np.flatnonzero(np.diff(lengths, prepend=lengths[0] - 1))
    return lengths[at].tolist(), np.diff(at, append=len(lengths)).tolist()
