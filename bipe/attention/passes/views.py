"""A pass as attention sees it: rotated queries and keys, their bias, and which of them meet.

Ids never decrease in a document, so the keys of a pass are neighbours. Nor do the ends of their
ranges along a row: a block of queries meets one block of keys, of which only edges need a mask.
Where a method leaves keys out of a pass (`Far.beyond`), those that are in it are gathered first:

    key          0 1 2 3 4 5 6 7 8        a query at 8 with a window of 3; keys 0, 2, 4, 8 beyond it
    index        0 2 4 8                  ranges count places in it: from 0 to below 3
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from bipe.attention.heads import padded, repeat_heads
from bipe.bias import Bias
from bipe.encodings.far import Pass
from bipe.positions import Positions, document_runs
from bipe.rotation import Rotation

ALL = slice(None)


class Range(NamedTuple):
    """The keys of each query in a pass: `start` to below `stop`; none if the two are equal."""

    start: Int[Tensor, "batch query"]
    stop: Int[Tensor, "batch query"]

    def holds(self, *, rows: slice = ALL, queries: slice, keys: slice) -> Bool[Tensor, "_ _ _"]:
        """Return which of some keys some queries meet: ``[batch, query, key]``."""
        place = torch.arange(keys.start, keys.stop, device=self.start.device)
        start, stop = (x[rows, queries, None] for x in self)
        return (place >= start) & (place < stop)


@dataclass(slots=True, kw_only=True)
class View:
    """One pass over `keys` of a row, for a scheme; `met`: those that each query meets.

    index: the tokens of the row that are keys here, whose places `keys`, `met` and `k_at` count.
    scale: a factor on the scores of each query (`Far.scale`). dtype: of rotations and the scale.
    """

    scheme: Any
    part: Pass
    met: Range
    keys: slice
    q_at: Positions
    k_at: Positions
    scale: Float[Tensor, "batch query"] | None
    dtype: torch.dtype
    index: Int[Tensor, "batch key"] | None = None
    _turns: tuple[Rotation | None, Rotation | None] = field(init=False)

    def __post_init__(self) -> None:
        k_ids = _sliced(self.part.k_ids, self.keys)
        q_turn = self.scheme.rotation(self.q_at, ids=self.part.q_ids)
        k_turn = self.scheme.rotation(self.k_at[self.keys], ids=k_ids)
        self._turns = (q_turn and q_turn.to(self.dtype), k_turn and k_turn.to(self.dtype))

    def query(self, q: Tensor) -> Tensor:
        """Return queries as they are in the pass, scaled and rotated."""
        if self.scale is not None:
            q = (q * self.scale.to(self.dtype)[:, None, :, None]).to(q.dtype)
        turn = self._turns[0]
        return q if turn is None else turn.query(q)

    def key(self, k: Tensor) -> Tensor:
        """Return the keys of the view, rotated for the pass, given all keys of the row."""
        turn, k = self._turns[1], self.own(k)
        return k if turn is None else turn.key(k)

    def own(self, x: Tensor) -> Tensor:
        """Return the part of a tensor ``[b, h, key, ...]`` over all keys that the view is about."""
        if self.index is None:
            return x[:, :, self.keys]
        if len(self.index) == 1:
            return x.index_select(2, self.index[0, self.keys])
        index = self.index[:, None, self.keys]
        index = index.reshape(*index.shape, *[1] * (x.ndim - 3))
        return x.gather(2, index.expand(*x.shape[:2], -1, *x.shape[3:]))

    def turned(self, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries, keys and values in the pass, one key and value for each query head."""
        keys, values = repeat_heads(self.key(k), self.own(v), n_head=q.shape[1])
        return self.query(q), keys, padded(values, to=keys)

    def bias(self, *, queries: slice = ALL, keys: slice | None = None) -> Bias | None:
        """Return the bias of some queries and keys of the row, by default of all of the view."""
        keys = self.keys if keys is None else keys
        q_at, k_at = self.q_at[queries], self.k_at[keys]
        q_ids, k_ids = _sliced(self.part.q_ids, queries), _sliced(self.part.k_ids, keys)
        ids = None
        if q_ids is not None and k_ids is not None:
            ids = q_ids.expand_as(q_at.document), k_ids.expand_as(k_at.document)
        bias: Bias | None = self.scheme.bias(q_at, k_at, ids=ids)
        return bias


def key_ranges(
    passes: tuple[Pass, ...],
    *,
    document: Int[Tensor, "batch key"],
    ids: Int[Tensor, "batch key"],
    n_query: int,
) -> list[Range]:
    """Return the keys of each query per pass; queries are the last of the keys."""
    n_key = document.shape[1]
    # One number per key that never decreases along a row: its document, then its id.
    least = ids.amin()
    span = ids.amax() - least + 1
    before = document_runs(document) * span
    order = before + ids - least
    recent = before[:, n_key - n_query :]
    stop = torch.arange(n_key - n_query, n_key, device=ids.device) + 1
    stop = stop.expand(document.shape[0], n_query)
    ranges = []
    for part in passes:
        wanted = recent
        if part.first is not None:
            # There is no key below the first id of the row, and none above the last one.
            wanted = recent + torch.minimum((part.first - least).clamp(min=0), span)
        start = torch.minimum(torch.searchsorted(order, wanted.contiguous()), stop)
        ranges.append(Range(start, stop))
        stop = start
    return ranges


def gathered(kept: Bool[Tensor, "batch key"], met: Range) -> tuple[Int[Tensor, "batch _"], Range]:
    """Return the index of the kept keys, and ranges of keys as ranges of places in it.

    Rows with fewer kept keys than others end in further keys, which no range reaches.
    """
    count = kept.sum(-1, keepdim=True)
    index = kept.byte().argsort(descending=True, stable=True)[:, : max(1, int(count.max()))]
    place = torch.arange(index.shape[1], device=kept.device)
    order = torch.where(place < count, index, kept.shape[1])
    start, stop = (torch.searchsorted(order, ids.contiguous()) for ids in met)
    return index, Range(start, stop)


def _sliced(ids: Tensor | None, time: slice) -> Tensor | None:
    return ids if ids is None or ids.shape[1] == 1 else ids[:, time]
