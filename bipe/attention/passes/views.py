"""A pass as attention sees it: how queries and keys turn, their bias, and who meets whom.

Ids never fall within a document, so the keys of a pass are neighbours. Over all queries of a row
both ends of their ranges never fall either, across documents as well: a block of queries meets one
block of keys, of which only the edges need a mask.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from bipe.bias import Bias
from bipe.encodings.far import Pass
from bipe.positions import Positions, document_runs
from bipe.rotation import Rotation


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """One pass over the keys `begin` to `end` of a row, for a scheme and the positions of a batch.

    scale: a factor on the scores of each query (`Far.scale`).
    """

    scheme: Any
    part: Pass
    q_at: Positions
    k_at: Positions
    begin: int
    end: int
    turns: tuple[Rotation | None, Rotation | None]
    scale: Float[Tensor, "batch 1 query 1"] | None

    def query(self, q: Tensor) -> Tensor:
        """Return queries as they are in the pass."""
        turn = self.turns[0]
        if self.scale is not None:
            q = (q * self.scale).to(q.dtype)
        return q if turn is None else turn.query(q)

    def key(self, k: Tensor) -> Tensor:
        """Return the keys of the range as they are in the pass, given all keys of the row."""
        turn, k = self.turns[1], k[:, :, self.begin : self.end]
        return k if turn is None else turn.key(k)

    def bias(self, *, queries: slice = slice(None), keys: slice | None = None) -> Bias | None:
        """Return the bias of some queries and keys of the row, by default of all of the range."""
        keys = slice(self.begin, self.end) if keys is None else keys
        q_at, k_at = self.q_at[queries], self.k_at[keys]
        ids = None
        if self.part.q_ids is not None and self.part.k_ids is not None:
            q_ids, k_ids = _sliced(self.part.q_ids, queries), _sliced(self.part.k_ids, keys)
            ids = q_ids.expand_as(q_at.document), k_ids.expand_as(k_at.document)
        found: Bias | None = self.scheme.bias(q_at, k_at, ids=ids)
        return found


def view_of(
    scheme: Any,
    part: Pass,
    *,
    q_at: Positions,
    k_at: Positions,
    keys: slice,
    dtype: torch.dtype,
    scale: Tensor | None,
) -> View:
    """Return the view of a pass over `keys`, with its rotations in `dtype`."""
    k_ids = None if part.k_ids is None else _sliced(part.k_ids, keys)
    turns = [
        None if found is None else found.to(dtype)
        for found in (scheme.rotation(q_at, ids=part.q_ids), scheme.rotation(k_at[keys], ids=k_ids))
    ]
    return View(
        scheme=scheme,
        part=part,
        q_at=q_at,
        k_at=k_at,
        begin=keys.start,
        end=keys.stop,
        turns=(turns[0], turns[1]),
        scale=None if scale is None else scale.to(dtype)[:, None, :, None],
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """The keys of each query in a pass: `start` to below `stop`; none where the two are equal."""

    start: Int[Tensor, "batch query"]
    stop: Int[Tensor, "batch query"]


def key_ranges(
    passes: tuple[Pass, ...],
    *,
    document: Int[Tensor, "batch key"],
    ids: Int[Tensor, "batch key"],
    n_query: int,
) -> list[Range]:
    """Return the keys of each pass; queries are the last ones of the keys' time."""
    n_key = document.shape[1]
    # One number per key that never falls along a row: its document, then its id.
    least = ids.amin()
    span = ids.amax() - least + 1
    before = document_runs(document) * span
    order = before + ids - least
    own = before[:, n_key - n_query :]
    stop = torch.arange(n_key - n_query, n_key, device=ids.device) + 1
    stop = stop.expand(document.shape[0], n_query)
    found = []
    for part in passes:
        wanted = own
        if part.first is not None:
            # There is no key below the first id of the row, and none above the last one.
            wanted = own + torch.minimum((part.first - least).clamp(min=0), span)
        start = torch.minimum(torch.searchsorted(order, wanted.contiguous()), stop)
        found.append(Range(start=start, stop=stop))
        stop = start
    return found


def _sliced(ids: Tensor, time: slice) -> Tensor:
    """Return the ids of some tokens, or the one that serves for all."""
    return ids if ids.shape[1] == 1 else ids[:, time]
