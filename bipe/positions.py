"""The ids that position encodings count, derived from marks.

A data set stores one mark per token (bit 0: a document starts here; bit 1: a segment starts here;
bits 2 and up: coarser levels). Everything else is derived on the device without a synchronisation:

    text       The cat sat.  It slept.  <end> | Rain fell.
    mark       3   0   0     2  0       0     | 3    0
    document   0   0   0     0  0       0     | 1    1      nothing attends across documents
    token      0   1   2     3  4       5     | 0    1      what a flat encoding counts
    inter      0   0   0     1  1       1     | 0    0      BiPE's outer level (2401.16421)
    intra      0   1   2     0  1       2     | 0    1      BiPE's inner level

A position of 0 does not imply a new document: `intra` is 0 at the start of each segment.

With `levels` of 2 or more, coarser units are counted too, each inside the next coarser one (mark
bits 1 and 2: sentences and paragraphs; `|` is the end of a paragraph):

    text       One. Two. | Three. Four. Five. |
    inter      0    1      2      3     4           sentence of the document
    level0     0    1      0      1     2           sentence of the paragraph
    level1     0    0      1      1     1           paragraph of the document
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Bool, Int, UInt8
from torch import Tensor

from bipe.arguments import explained

DOCUMENT_BIT = 0
SEGMENT_BIT = 1
NO_DOCUMENT = -1

# "token", "inter", "intra", or "level0", "level1" ..., which only several levels have.
Level = str
IDS = ("document", "token", "inter", "intra")


@dataclass(frozen=True, slots=True, kw_only=True)
class Carry:
    """The ids of the next token of each row if it continues document and segment: ``(batch)``.

    levels: those of `Positions.levels`.
    """

    document: Int[Tensor, " batch"]
    token: Int[Tensor, " batch"]
    inter: Int[Tensor, " batch"]
    intra: Int[Tensor, " batch"]
    levels: tuple[Int[Tensor, " batch"], ...] = ()

    @classmethod
    def from_columns(cls, columns: Int[Tensor, "batch column"]) -> Carry:
        """Read (token, inter, intra, levels ...) of the first token of each row, as packed."""
        token, inter, intra, *levels = columns.unbind(-1)
        document = torch.zeros_like(token)
        return cls(document=document, token=token, inter=inter, intra=intra, levels=tuple(levels))


@dataclass(frozen=True, slots=True, kw_only=True)
class Lengths:
    """The final number of ids of each kind in the document of each row: ``(batch)`` each.

    Dynamic stretches use them in all calls of a request: cached keys keep their frequencies.
    """

    token: Int[Tensor, " batch"]
    inter: Int[Tensor, " batch"]
    intra: Int[Tensor, " batch"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Positions:
    """The ids of a batch of packed rows: ``(batch, time)``, int64, each.

    document: index in the row, -1 for padding. token, inter: index in the document. intra: index in
    the segment. levels: with several, the index of each unit in the next coarser one, finest first;
        the last one in the document.
    lengths: see `Lengths`; None: each document ends with its ids here.
    packed: False guarantees that each row is one document without padding, so that plain causal
        attention is exact; a host value, to avoid a synchronisation.
    """

    document: Int[Tensor, "batch time"]
    token: Int[Tensor, "batch time"]
    inter: Int[Tensor, "batch time"]
    intra: Int[Tensor, "batch time"]
    levels: tuple[Int[Tensor, "batch time"], ...] = ()
    packed: bool = True
    lengths: Lengths | None = None

    @classmethod
    @explained
    def from_marks(
        cls,
        marks: UInt8[Tensor, "batch time"],
        *,
        carry: Carry | None = None,
        padding: Bool[Tensor, "batch time"] | None = None,
        packed: bool = True,
        level: int = 0,
        levels: int = 1,
    ) -> Positions:
        """Derive the ids of each row; `level` 0 reads segments from bit 1 of marks, 1 from bit 2.

        Without a carry, or with one of padding, the first token that is not padding starts a
        document and a segment, whatever its mark. Padding may be on either side. levels: how many
        are read, starting at `level`; with several, a unit of a level also starts where one of a
        coarser level does.
        """
        if not isinstance(marks, Tensor) or marks.ndim != 2 or marks.dtype != torch.uint8:
            said = f"{type(marks).__name__} {marks.dtype} {[*marks.shape]}"
            raise ValueError(f"marks must be a tensor uint8 [batch, time], were: {said}")
        if level < 0 or levels < 1 or level + levels > 8 - SEGMENT_BIT:
            raise ValueError(
                f"level and levels must be within the {8 - SEGMENT_BIT} levels of marks, were: "
                f"{level}, {levels}"
            )
        if carry is not None and not isinstance(carry, Carry):
            raise ValueError("carry must be Positions.carry() of the row before, or None")
        if carry is not None and len(carry.token) != len(marks):
            raise ValueError(f"carry must be of {len(marks)} rows, was of {len(carry.token)}")
        at = torch.arange(marks.shape[-1], device=marks.device)
        # In all lists below: the document first, then the levels from the coarsest to the finest.
        bits = range(SEGMENT_BIT + level + levels - 1, SEGMENT_BIT + level - 1, -1)
        opens = _openings(marks, at, padding=padding, carry=carry, bits=bits)
        if carry is not None and levels > 1 and len(carry.levels) != levels:
            raise ValueError(too_few_levels(len(carry.levels) or 1, levels))
        counts = [opened.cumsum(-1) for opened in opens]
        starts = [_last_start(opened, at) for opened in opens]

        def within(count: Tensor, start: Tensor, before: Tensor | None) -> Tensor:
            """Count from the last start on, or go on from what was before the row."""
            index = count - count.gather(-1, start.clamp(min=0))
            if before is None:
                return index
            return torch.where(start < 0, count + before[:, None], index)

        before: tuple[Tensor | None, ...] = (None,) * (3 + levels)
        document, place = counts[0] - 1, at.expand_as(marks)
        if carry is not None:
            # No token of this row opens the document that is carried on.
            document = counts[0] + carry.document[:, None]
            before = (carry.token, carry.inter, carry.intra, *carry.levels)
        token_before, inter_before, intra_before, *units_before = before
        token = within(place, starts[0], token_before)
        inter = within(counts[-1], starts[0], inter_before)
        intra = within(place, starts[-1], intra_before)
        nested = []
        if levels > 1:  # each unit in the next coarser one, finest first
            units = zip(counts[:0:-1], starts[-2::-1], units_before, strict=True)
            nested = list(itertools.starmap(within, units))
        if padding is not None:
            document = torch.where(padding, NO_DOCUMENT, document)
            kept = (x.masked_fill(padding, 0) for x in (token, inter, intra, *nested))
            token, inter, intra, *nested = kept
        ids: dict[str, Any] = {"document": document, "token": token, "inter": inter}
        return cls(**ids, intra=intra, levels=tuple(nested), packed=packed)

    def __getitem__(self, time: slice) -> Positions:
        return self.map(lambda ids: ids[:, time])

    def map(self, change: Callable[[Tensor], Tensor]) -> Positions:
        changed: dict[str, Any] = {name: change(getattr(self, name)) for name in IDS}
        return replace(self, **changed, levels=tuple(map(change, self.levels)))

    def tensors(self) -> tuple[Int[Tensor, "batch time"], ...]:
        return (*(getattr(self, name) for name in IDS), *self.levels)

    def ids(self, level: Level) -> Int[Tensor, "batch time"]:
        """Return the ids that a level counts; ValueError if they were not derived."""
        if level in IDS:
            ids: Tensor = getattr(self, level)
            return ids
        if not (level.startswith("level") and level[5:].isdecimal()):
            raise ValueError(f"level must be one of {', '.join(IDS)}, level0 ..., was: {level!r}")
        number = int(level.removeprefix("level"))
        if number >= len(self.levels):
            raise ValueError(too_few_levels(len(self.levels) or 1, number + 1))
        return self.levels[number]

    def length(self, level: Level) -> Int[Tensor, " batch #time"]:
        """Return the number of ids per document: from `lengths`, or else the largest here + 1."""
        if self.lengths is not None:
            lengths: Tensor = getattr(self.lengths, level)
            return lengths[:, None]
        ids: Tensor = getattr(self, level)
        if not self.packed:
            return ids.amax(-1, keepdim=True) + 1
        document = document_runs(self.document)
        largest = torch.zeros_like(ids).scatter_reduce(-1, document, ids, "amax")
        return largest.gather(-1, document) + 1

    def carry(self) -> Carry:
        """Return what the next chunk continues from."""
        return Carry(
            document=self.document[:, -1],
            token=self.token[:, -1] + 1,
            inter=self.inter[:, -1],
            intra=self.intra[:, -1] + 1,
            levels=tuple(ids[:, -1] for ids in self.levels),
        )


def too_few_levels(held: int, wanted: int) -> str:
    """Return the message for positions of other levels than an encoding reads."""
    return (
        f"levels must be {wanted}, as many as the encoding reads, was: {held} "
        f"(Positions.from_marks(marks, levels={wanted}), and the same where a cache makes them)"
    )


def document_runs(document: Int[Tensor, "batch time"]) -> Int[Tensor, "batch time"]:
    """Return the run of each token, from 0 per row: a stretch of one document or of padding."""
    opens = torch.zeros_like(document)
    opens[:, 1:] = document[:, 1:] != document[:, :-1]
    return opens.cumsum(-1)


def require_at_most(
    most: int, ids: Tensor, rule: str, *, cure: str, error: type[ValueError] = ValueError
) -> None:
    """Raise an error with the rule, the largest id and the cure if one is above `most`.

    On a device and in a graph it is an assertion of the device, with the rule and the cure.
    """
    if ids.device.type != "cpu" or torch.compiler.is_compiling():
        # The public assertions of torch read the ids on the host.
        torch._assert_async((ids <= most).all(), f"{rule}; {cure}")
    elif ids.numel() and (largest := int(ids.max())) > most:
        raise error(f"{rule}, was: {largest}; {cure}")


def _last_start(start: Bool[Tensor, "batch time"], at: Int[Tensor, " time"]) -> Tensor:
    """Return the index of the last True up to each place, -1 before the first."""
    return torch.where(start, at, -1).cummax(-1).values


def _openings(
    marks: UInt8[Tensor, "batch time"],
    at: Int[Tensor, " time"],
    *,
    padding: Bool[Tensor, "batch time"] | None,
    carry: Carry | None,
    bits: Iterable[int],
) -> list[Bool[Tensor, "batch time"]]:
    """Return where documents open, then units of the level of each bit, coarsest first."""
    starts = [(marks & (1 << bit)).bool() for bit in (DOCUMENT_BIT, *bits)]
    if padding is not None:
        starts = [start & ~padding for start in starts]
    # The first token of each row that is not padding, unless a document is carried on.
    first = at == 0 if padding is None else (~padding).cumsum(-1) * ~padding == 1
    if carry is not None:
        first = first & (carry.document == NO_DOCUMENT)[:, None]
    starts[0] = starts[0] | first
    return list(itertools.accumulate(starts, operator.or_))
