"""Which keys a query meets in each pass: ranges of the keys' time.

Ids never fall within a document, so the keys of a pass are neighbours. Over all queries of a row
both ends of their ranges never fall either, across documents as well: a block of queries meets one
block of keys, of which only the edges need a mask.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from bipe.far.base import Pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """Keys `start` to below `stop` of each query; empty where the two are equal."""

    start: Int[Tensor, "batch query"]
    stop: Int[Tensor, "batch query"]


def key_ranges(
    passes: tuple[Pass, ...],
    *,
    document: Int[Tensor, "batch key"],
    ids: Int[Tensor, "batch key"],
    n_query: int,
) -> list[Keys]:
    """The keys of each pass; queries are the last ones of the keys' time."""
    n_key = document.shape[1]
    opens = torch.zeros_like(document)
    opens[:, 1:] = document[:, 1:] != document[:, :-1]
    # One number a key that never falls along a row: its document, then its id.
    least = ids.amin()
    span = ids.amax() - least + 1
    before = opens.cumsum(-1) * span
    order = before + ids - least
    own = before[:, n_key - n_query :]
    stop = torch.arange(n_key - n_query, n_key, device=ids.device) + 1
    stop = stop.expand(document.shape[0], n_query)
    found = []
    for part in passes:
        wanted = own
        if part.first is not None:
            # Below the first id of the row stands no key, above the last one none either.
            wanted = own + torch.minimum((part.first - least).clamp(min=0), span)
        start = torch.minimum(torch.searchsorted(order, wanted.contiguous()), stop)
        found.append(Keys(start=start, stop=stop))
        stop = start
    return found


def members(
    passes: tuple[Pass, ...],
    *,
    ids: Int[Tensor, "batch key"],
    allowed: Bool[Tensor, "batch query key"],
) -> list[Bool[Tensor, "batch query key"]]:
    """The same by the definition, pair by pair: for the reference."""
    found, left = [], allowed
    for part in passes:
        inside = left
        if part.first is not None:
            inside = left & (ids[:, None, :] >= part.first[:, :, None])
        found.append(inside)
        left = left & ~inside
    return found
