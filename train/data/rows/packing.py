"""Rows of equal length over a data set, by one of four strategies.

A row holds `row_length` inputs and one more token, the target of the last. Neighbouring rows of a
split document share that token, so that each token but the first of its document is scored exactly
once. A row is a list of spans (start, stop) of the token stream:

    concat      documents back to back, cut every row_length: no padding but in the last row
    best_fit    whole documents in the fullest row that still has room (best fit decreasing);
                longer ones are cut, their tails packed like documents (2404.10830)
    long_first  as concat, over documents sorted by length, longest first: rows hold as few
                documents as possible, of similar lengths; a run of less than an epoch reads,
                shuffled, only the rows of documents of at least row_length, or more of the
                first rows if those are too few
    single      one document per row, the rest of it padding; longer ones are cut

Documents never see each other (a span that begins inside a document is marked as the start of one),
and no target crosses documents. Where a row begins inside a document, positions `restart` or
`continue`: the row then carries the state after the tokens before it (bipe.positions.Carry).

A document may begin with a prompt, which is read but not scored: its first segment of one level.

    prompt_level 0    (7+5)*3 | =1*3 | =3 <end>          a chain: what follows the first '='
    marks             3         2      2                 scored:  0 0 0 0 0 0 0 1 1 1 1 1 1 1
    prompt_level 1    Who won? He ran. She won. | She did. <end>      an example: its output
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from train.data.rows.choices import WHOLE, Packing
from train.data.rows.spans import Bins, Integers, Stream
from train.data.store.shards import DataSet, level_of
from train.errors import DataError

_STARTS_DOCUMENT = np.uint8(0b11)  # and a segment; of coarser levels Positions adds it


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row: inputs are ``tokens[:-1]``, targets ``tokens[1:]``.

    tokens: int64 [row_length + 1]. marks: uint8 [row_length + 1]. padding: number of padding tokens
    at the end. carry: int64 [3]: token index, open segment and place in it before the row, and with
    several levels the open unit of each in the next coarser one; zeros where the row begins a
    document or positions restart. scored: bool [row_length + 1], where a token is a target; None:
    wherever the packing allows it.
    """

    tokens: npt.NDArray[np.int64]
    marks: npt.NDArray[np.uint8]
    padding: int
    carry: npt.NDArray[np.int64]
    scored: npt.NDArray[np.bool_] | None = None


class Rows:
    """The rows of one split of one source."""

    def __init__(self, *, data: DataSet, row_length: int, packing: Packing | None = None) -> None:
        packing = packing or Packing()
        if not len(data):
            split = data.manifest.get("split")
            cure = "set rows.validation_rows=0 to train without validation, or p"
            raise DataError(
                f"source {data.name}, split {split}: has no documents: "
                f"{cure if split == 'validation' else 'p'}repare the data with a larger share for "
                "this split, with corpus.split.within=true (which splits each document, if it is "
                "long enough), or name its documents in corpus.split.ids"
            )
        self.data, self.row_length, self.continues = data, row_length, packing.continues
        self.columns = 3 + len(data.levels) * (len(data.levels) > 1)  # of a carry: see Row
        self._answers: Integers | None = None  # where the scored part of each document begins
        if packing.prompt_level is not None:
            self._answers = _answers(data, row_length, level=packing.prompt_level)
        ends, how = data.document_ends, packing.strategy
        self.packed: Stream | Bins
        if how in WHOLE:
            together = how == "best_fit"
            self.packed = Bins(ends, row_length, together=together, tails_first=self.continues)
        else:
            self.packed = Stream(ends, row_length, longest_first=how == "long_first")

    def __len__(self) -> int:
        return len(self.packed)

    def targets(self, index: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """Count the scored targets of each row."""
        rows = np.asarray(index, np.int64)
        if self._answers is None:
            return self.packed.targets(rows).astype(np.int64)
        spans = map(self.packed.spans, rows.reshape(-1).tolist())
        counts = [int((each[:, 1] - self._answers_of(each)).sum()) for each in spans]
        return np.array(counts, np.int64).reshape(rows.shape)

    def all_targets(self) -> int:
        """Count the scored targets of all rows."""
        ends = self.data.document_ends
        if self._answers is None:  # every token but the first of its document
            return int(ends[-1]) - len(self.data)
        return int((ends - self._answers).sum())

    def long_rows(self) -> int:
        """Return how many first rows hold only documents of `row_length` or more (long_first)."""
        return self.packed.long_inputs(len(self)) // self.row_length

    def read(
        self, indices: Sequence[int], part: Sequence[int] | None = None, *, parts: int = 1
    ) -> list[Row]:
        """Read rows, or of each one of its equal parts, which together have the row's targets.

        A part beyond the end of its row is blank.
        """
        length = self.row_length // parts
        spans = [
            _cut(self.packed.spans(index), at * length, (at + 1) * length + 1)
            for index, at in zip(indices, part or [0] * len(indices), strict=True)
        ]
        starts, stops = np.concatenate(spans).T
        sizes = stops - starts
        begins = np.cumsum(sizes) - sizes  # of the spans, among all that is read
        places = np.repeat(starts - begins, sizes) + np.arange(sizes.sum())
        tokens, marks = self.data.read(places)
        of = np.repeat(np.arange(len(spans)), [len(each) for each in spans])
        # Each span is a document of its own, unless it continues the row before.
        opened = begins[np.diff(of, prepend=-1) == 0] if self.continues else begins
        marks[opened] |= _STARTS_DOCUMENT
        filled = np.bincount(of, sizes, len(spans)).astype(np.int64)
        inside = np.arange(length + 1) < filled[:, None]
        scored = None
        if self._answers is not None:
            answers = self._answers_of(np.stack((starts, stops), axis=1))
            scored = _spread(places >= np.repeat(answers, sizes), inside)
        tokens, marks = _spread(tokens, inside), _spread(marks, inside)
        return [
            Row(
                tokens=tokens[at],
                marks=marks[at],
                padding=length + 1 - int(filled[at]),
                carry=self._carry(each),
                scored=None if scored is None else scored[at],
            )
            for at, each in enumerate(spans)
        ]

    def _answers_of(self, spans: Integers) -> Integers:
        assert self._answers is not None
        return self._answers[self.data.document_ends.searchsorted(spans[:, 0], side="right")]

    def _carry(self, spans: Integers) -> Integers:
        """Return the state before a row that begins inside of a document: see Row."""
        at = int(spans[0, 0]) if self.continues and len(spans) else 0
        start, _ = self.data.span(int(np.searchsorted(self.data.document_ends, at, side="right")))
        if at == start:
            return np.zeros(self.columns, np.int64)
        opened = np.flatnonzero(self.data.starts(start, at))
        # The first token of a document opens its first segment.
        carry = [at - start, len(opened) - 1, at - start - opened[-1]]
        for level in self.data.levels[1:]:
            outer = np.flatnonzero(self.data.starts(start, at, level=level))
            # The index of the open unit in the open one of the next coarser level.
            carry.append(len(opened) - 1 - np.searchsorted(opened, outer[-1]))
            opened = outer
        if self.columns > len(carry):
            carry.append(len(opened) - 1)  # of the coarsest in the document
        return np.array(carry, np.int64)


def _answers(data: DataSet, row_length: int, *, level: int | str) -> Integers:
    """Return where the second segment of each document begins, or its end if it has none."""
    if isinstance(level, int) and level >= data.manifest["levels"]:
        raise DataError(
            f"{data.folder}: has no examples of a prompt and an output (rows.prompt_level="
            f"{level}); use bipe scrolls for examples, bipe pretrain for documents"
        )
    level = level_of(data.manifest, level, what=f"{data.folder}: rows.prompt_level")
    longest = int(np.diff(data.document_ends, prepend=0).max())
    if longest > row_length + 1:
        raise DataError(
            f"{data.folder}: row_length must be at least the longest document, {longest} tokens, "
            f"since rows.prompt_level={level} does not split documents, was: {row_length}"
        )
    ends = np.asarray(data.document_ends, np.int64)
    segments = np.append(data.segments(level=level), len(data.tokens))
    begins = np.concatenate(([0], ends[:-1]))
    return np.minimum(segments[np.searchsorted(segments, begins, side="right")], ends)


def _spread(values: npt.NDArray[Any], inside: npt.NDArray[np.bool_]) -> npt.NDArray[Any]:
    """Return an array of the shape of `inside`, with these values where that is True, else 0."""
    spread = np.zeros(inside.shape, values.dtype)
    spread[inside] = values
    return spread


def _cut(spans: Integers, first: int, last: int) -> Integers:
    """Return the spans of the tokens first to last of a row."""
    lengths = spans[:, 1] - spans[:, 0]
    stops = np.cumsum(lengths)
    if first == 0 and stops[-1] <= last:
        return spans
    starts = spans[:, 0] + np.clip(first - (stops - lengths), 0, lengths)
    cut = np.stack((starts, spans[:, 1] - np.clip(stops - last, 0, lengths)), axis=1)
    return cut[cut[:, 0] < cut[:, 1]]
