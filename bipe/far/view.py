"""A pass as attention sees it: how its queries and keys turn, and what is added to their scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from bipe.bias import Bias
from bipe.far.base import Pass
from bipe.positions import Positions
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
        """Queries as they stand in the pass."""
        turn = self.turns[0]
        if self.scale is not None:
            q = (q * self.scale).to(q.dtype)
        return q if turn is None else turn.query(q)

    def key(self, k: Tensor) -> Tensor:
        """Keys of the range as they stand in the pass, of all keys of the row."""
        turn, k = self.turns[1], k[:, :, self.begin : self.end]
        return k if turn is None else turn.key(k)

    def bias(self, *, queries: slice = slice(None), keys: slice | None = None) -> Bias | None:
        """The bias of some queries and keys of the row, by default of all of the range."""
        keys = slice(self.begin, self.end) if keys is None else keys
        q_at, k_at = self.q_at[queries], self.k_at[keys]
        if self.part.q_ids is None or self.part.k_ids is None:
            found: Bias | None = self.scheme.bias(q_at, k_at)
            return found
        ids = sliced(self.part.q_ids, queries), sliced(self.part.k_ids, keys)
        whole = ids[0].expand_as(q_at.document), ids[1].expand_as(k_at.document)
        found = self.scheme.bias(q_at, k_at, ids=whole)
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
    """The view of a pass over `keys`, with its rotations in `dtype`."""
    k_ids = None if part.k_ids is None else sliced(part.k_ids, keys)
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


def sliced(ids: Tensor, time: slice) -> Tensor:
    """Ids of some tokens, or the one that stands for all."""
    return ids if ids.shape[1] == 1 else ids[:, time]
