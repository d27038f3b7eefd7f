"""Rows of equal length over a data set, by one of four strategies.

A row holds `row_length` inputs and one token more, the target of the last. Neighbouring rows of
a split document share that token, so that every token but the first of its document is scored
exactly once. A row is a list of spans (start, stop) of the token stream:

    concat      documents back to back, cut every row_length: no padding but in the last row
    best_fit    whole documents in the fullest row that still has room (best fit decreasing);
                longer ones are cut, their ends packed like documents (2404.10830)
    long_first  as concat, over documents sorted by length, longest first: rows hold as few
                documents as they can, and a document shares a row with others of its length;
                a run of less than an epoch reads, shuffled, the rows of documents of at least
                row_length alone, or more of the first rows if those are too few
    single      one document a row, the rest of it padding; longer ones are cut

Documents are masked from each other in all of them (a span that begins inside a document is given
the mark of a document's start), and no target crosses from one to the next. Where a row begins
inside a document, its positions `restart`, or they `continue`: the row then carries what the
tokens before left behind (bipe.positions.Carry). Ids are not computed here.

A row can be read in equal parts, which are rows of a shorter length with the same targets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from train.data.rows.spans import Bins, Stream
from train.data.store.shards import DataSet
from train.data.store.windows import window_marks
from train.errors import DataError

PACKINGS = ("concat", "best_fit", "long_first", "single")
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
    scored: bool [row_length + 1], where a token is a target; None: wherever the packing lets it be.
    """

    tokens: npt.NDArray[np.int64]
    marks: npt.NDArray[np.uint8]
    padding: int
    carry: npt.NDArray[np.int64]
    scored: npt.NDArray[np.bool_] | None = None


def blank_row(length: int) -> Row:
    """A row of padding, which has no target."""
    return Row(
        tokens=np.zeros(length + 1, np.int64),
        marks=np.zeros(length + 1, np.uint8),
        padding=length + 1,
        carry=np.zeros(3, np.int64),
    )


class Rows:
    """The rows of one split of one source.

    packing: "concat", "best_fit", "long_first" or "single".
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
        ends = data.document_ends
        self.packed: Stream | Bins
        if packing in ("best_fit", "single"):
            self.packed = Bins(
                ends, row_length, together=packing == "best_fit", tails_first=self.continues
            )
        else:
            self.packed = Stream(ends, row_length, longest_first=packing == "long_first")

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.packed)

    def spans(self, index: int) -> Spans:
        """Where the tokens of a row come from: int64 [spans, 2]."""
        if not 0 <= index < len(self):
            raise IndexError(f"row must be from 0 to {len(self) - 1}, was: {index}")
        return self.packed.spans(index)

    def targets(self, index: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """Number of scored targets of each row, without a look at the tokens."""
        return self.packed.targets(np.asarray(index, np.int64)).astype(np.int64)

    def all_targets(self) -> int:
        """Number of scored targets of all rows: every token but the first of its document."""
        return int(self.data.document_ends[-1]) - len(self.data)

    def long_share(self, count: int) -> float:
        """Of the inputs of the first rows: the share from documents of at least `row_length`."""
        found = self.packed.long_inputs(count, at_least=self.row_length)
        return found / self.packed.inputs(count)

    def long_rows(self) -> int:
        """How many of the first rows are whole from documents of at least `row_length`.

        Of packing long_first: there these documents come before all others.
        """
        return self.packed.long_inputs(len(self), at_least=self.row_length) // self.row_length

    def row(self, index: int, *, part: int = 0, parts: int = 1) -> Row:
        """Read a row, or one of its equal parts, each of `row_length` / parts inputs."""
        spans = self.spans(index)
        length = self.row_length // parts
        if parts > 1:
            spans = _cut(spans, part * length, (part + 1) * length + 1)
            if not len(spans):
                return blank_row(length)
        tokens = np.zeros(length + 1, np.int64)
        marks = np.zeros(length + 1, np.uint8)
        at = 0
        for start, stop in spans.tolist():
            tokens[at : at + stop - start] = self.data.tokens[start:stop]
            marks[at : at + stop - start] = self.data.marks(start, stop)
            if at or not self.continues:
                marks[at] |= _STARTS_DOCUMENT
            at += stop - start
        carry = self._carry(int(spans[0, 0])) if self.continues else np.zeros(3, np.int64)
        return Row(tokens=tokens, marks=marks, padding=length + 1 - at, carry=carry)

    def read(self, indices: Sequence[int]) -> list[Row]:
        """Read rows, each as `row` does; at once, where they lie in the file as they are."""
        starts = None
        if isinstance(self.packed, Stream):
            starts = self.packed.straight(np.asarray(indices, np.int64))
        if starts is None:
            return [self.row(index) for index in indices]
        length = self.row_length + 1
        tokens = np.empty((len(starts), length), np.int64)
        for row, start in zip(tokens, starts.tolist(), strict=True):
            row[:] = self.data.tokens[start : start + length]
        marks = window_marks(self.data, starts, length)
        carry = np.zeros((len(starts), 3), np.int64)
        if self.continues:
            for row, start in zip(carry, starts.tolist(), strict=True):
                row[:] = self._carry(start)
        else:
            marks[:, 0] |= _STARTS_DOCUMENT
        return [
            Row(tokens=tokens[at], marks=marks[at], padding=0, carry=carry[at])
            for at in range(len(starts))
        ]

    def _carry(self, at: int) -> npt.NDArray[np.int64]:
        """Token index, open segment and place in it, as the tokens before `at` leave them."""
        document = int(np.searchsorted(self.data.document_ends, at, side="right"))
        start, _ = self.data.span(document)
        if at == start:
            return np.zeros(3, np.int64)
        opened = np.flatnonzero(self.data.starts(start, at))
        # The first token of a document opens its first segment.
        return np.array([at - start, len(opened) - 1, at - start - opened[-1]], np.int64)


def _cut(spans: Spans, first: int, last: int) -> Spans:
    """The spans of a row from one of its tokens to another."""
    lengths = spans[:, 1] - spans[:, 0]
    stops = np.cumsum(lengths)
    begins = stops - lengths
    cut = np.stack(
        (
            spans[:, 0] + np.clip(first - begins, 0, lengths),
            spans[:, 1] - np.clip(stops - last, 0, lengths),
        ),
        axis=1,
    )
    return cut[cut[:, 0] < cut[:, 1]]
