"""The ids that position encodings count, derived from marks.

A data set stores one mark per token (bit 0: a document starts here; bit 1: a segment starts here;
bits 2 and up: coarser levels). Everything else is derived on the device by cumsum and cummax,
without a synchronisation with the host:

    text       The cat sat.  It slept.  <end> | Rain fell.
    mark       3   0   0     2  0       0     | 3    0
    document   0   0   0     0  0       0     | 1    1      nothing attends across documents
    token      0   1   2     3  4       5     | 0    1      what a flat encoding counts
    inter      0   0   0     1  1       1     | 0    0      BiPE's outer level (2401.16421)
    intra      0   1   2     0  1       2     | 0    1      BiPE's inner level

A document is never inferred from a position that is 0: under BiPE `intra` is 0 at every segment.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from jaxtyping import Bool, Int, UInt8
from torch import Tensor

DOCUMENT_BIT = 0
SEGMENT_BIT = 1
NO_DOCUMENT = -1

Level = Literal["token", "inter", "intra"]
IDS = ("document", "token", "inter", "intra")


@dataclass(frozen=True, slots=True, kw_only=True)
class Carry:
    """What the tokens before a row or chunk leave behind, in the document that continues.

    Each field is the id that the next token would have if it opened neither a document nor a
    segment, except `inter`, the segment that is still open. *Shape:* ``(batch)`` each.
    """

    document: Int[Tensor, " batch"]
    token: Int[Tensor, " batch"]
    inter: Int[Tensor, " batch"]
    intra: Int[Tensor, " batch"]

    @classmethod
    def from_columns(cls, columns: Int[Tensor, "batch 3"]) -> Carry:
        """Read (token, inter, intra) of the first token of each row, as packing stores them."""
        token, inter, intra = columns.unbind(-1)
        return cls(document=torch.zeros_like(token), token=token, inter=inter, intra=intra)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lengths:
    """How many ids of each kind the document of each row will have when it is complete.

    Fixes the length that dynamic stretches (bipe/extension) use for all calls of a request: keys
    in a cache were turned by the frequencies of their time. *Shape:* ``(batch)`` each.
    """

    token: Int[Tensor, " batch"]
    inter: Int[Tensor, " batch"]
    intra: Int[Tensor, " batch"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Positions:
    """The ids of a batch of packed rows. *Shape:* ``(batch, time)``, int64, each.

    document: index of the document in its row, -1 for padding.
    token: 0.. inside the document, in tokens.
    inter: index of the segment inside the document, in segments.
    intra: 0.. inside the segment, in tokens.
    packed: False promises that each row is one document without padding, so that plain causal
        attention is exact; a host value, because asking the device would wait for it.
    lengths: see `Lengths`; None: each document ends with its ids here.
    """

    document: Int[Tensor, "batch time"]
    token: Int[Tensor, "batch time"]
    inter: Int[Tensor, "batch time"]
    intra: Int[Tensor, "batch time"]
    packed: bool = True
    lengths: Lengths | None = None

    @classmethod
    def from_marks(
        cls,
        marks: UInt8[Tensor, "batch time"],
        *,
        carry: Carry | None = None,
        padding: Bool[Tensor, "batch time"] | None = None,
        packed: bool = True,
        level: int = 0,
    ) -> Positions:
        """Derive the ids of each row.

        Without a carry the first token of a row (the first one that is not padding) opens a
        document and a segment, whatever its mark. Padding may be on either side.
        `level` picks the segmentation: 0 is bit 1 of the marks, 1 is bit 2, and so on.
        """
        at = torch.arange(marks.shape[-1], device=marks.device)
        opens_document = (marks & (1 << DOCUMENT_BIT)).bool()
        opens_segment = (marks & (1 << (SEGMENT_BIT + level))).bool()
        if padding is not None:
            opens_document = opens_document & ~padding
            opens_segment = opens_segment & ~padding
        if carry is None:
            first = at == 0 if padding is None else (~padding).cumsum(-1) * ~padding == 1
            opens_document = opens_document | first
        opens_segment = opens_segment | opens_document

        document_start = _last_start(opens_document, at)
        segment_start = _last_start(opens_segment, at)
        documents, segments = opens_document.cumsum(-1), opens_segment.cumsum(-1)
        # Segments opened before this document, to be taken off; 0 while the carried one goes on.
        before = segments.gather(-1, document_start.clamp(min=0)) - 1
        before = torch.where(document_start < 0, -1, before)
        document, inter = documents - 1, segments - 1 - before
        token, intra = at - document_start, at - segment_start
        if carry is not None:
            going_on, same_segment = document_start < 0, segment_start < 0
            document = documents + carry.document[:, None]
            token = torch.where(going_on, at + carry.token[:, None], token)
            inter = torch.where(going_on, segments + carry.inter[:, None], inter)
            intra = torch.where(same_segment, at + carry.intra[:, None], intra)
        if padding is not None:
            document = torch.where(padding, NO_DOCUMENT, document)
            token, inter, intra = (x.masked_fill(padding, 0) for x in (token, inter, intra))
        return cls(document=document, token=token, inter=inter, intra=intra, packed=packed)

    def __getitem__(self, time: slice) -> Positions:
        """Return the same rows, a slice of their time."""
        return self.map(lambda ids: ids[:, time])

    def map(self, change: Callable[[Tensor], Tensor]) -> Positions:
        """Return positions with each tensor of ids changed."""
        changed: dict[str, Any] = {name: change(getattr(self, name)) for name in IDS}
        return replace(self, **changed)

    def length(self, level: Level) -> Int[Tensor, " batch #time"]:
        """Return the ids in use in each document: those of `lengths`, or the largest here + 1."""
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
        """Return what the next chunk needs to go on from here; O(1) in time."""
        return Carry(
            document=self.document[:, -1],
            token=self.token[:, -1] + 1,
            inter=self.inter[:, -1],
            intra=self.intra[:, -1] + 1,
        )


def document_runs(document: Int[Tensor, "batch time"]) -> Int[Tensor, "batch time"]:
    """Count the stretches of one document, from 0 in each row; padding as if it were one."""
    opens = torch.zeros_like(document)
    opens[:, 1:] = document[:, 1:] != document[:, :-1]
    return opens.cumsum(-1)


def _last_start(start: Bool[Tensor, "batch time"], at: Int[Tensor, " time"]) -> Tensor:
    """Return the index of the last True up to each place, -1 where there is none yet."""
    return torch.where(start, at, -1).cummax(-1).values
