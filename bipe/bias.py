"""Descriptions of what is added to attention scores, as returned by `Encoding.bias`.

They let attention choose a path (attention/dispatch.py): a `LinearBias` never needs a tensor of
query x key.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

# With fewer pairs of ids than this share of the pairs of tokens, spreading a table is faster.
_FEW_PAIRS = 0.25


class Bias(ABC):
    """A bias on attention scores, added after they are divided by sqrt(head_width)."""

    @abstractmethod
    def dense(self, dtype: torch.dtype) -> Float[Tensor, "batch head query key"]:
        """Return the bias as a tensor: the reference of every other path, and the fallback."""

    def spread(self, dtype: torch.dtype) -> Float[Tensor, "batch head query key"]:
        """Return the same as `dense`, with less work where there are few pairs of ids."""
        return self.dense(dtype)

    @abstractmethod
    def part(self, *, rows: slice, queries: slice, keys: slice) -> Bias:
        """Return the bias of some rows of the batch, queries and keys."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearTerm:
    """slope_h * (k_id - q_id): one slope per head, ids in the unit of their level."""

    slopes: Float[Tensor, " head"]
    q_ids: Int[Tensor, "batch query"]
    k_ids: Int[Tensor, "batch key"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearBias(Bias):
    """A sum of linear terms; softmax ignores q_id, so a row ``(batch, head, key)`` is enough."""

    terms: tuple[LinearTerm, ...]

    def dense(self, dtype: torch.dtype) -> Float[Tensor, "batch head query key"]:
        return sum(  # type: ignore[return-value]
            term.slopes[:, None, None].to(dtype)
            * (term.k_ids[:, None, None, :] - term.q_ids[:, None, :, None]).to(dtype)
            for term in self.terms
        )

    def part(self, *, rows: slice, queries: slice, keys: slice) -> LinearBias:
        return LinearBias(terms=tuple(_part(term, rows, queries, keys) for term in self.terms))

    def row(
        self,
        *,
        rows: slice = slice(None),
        keys: slice = slice(None),
        dtype: torch.dtype = torch.float32,
    ) -> Float[Tensor, "batch head key"]:
        """Return the bias of some keys up to a constant per query, for some rows of the batch.

        Ids are centred as integers, before they are multiplied by a slope: added to an uncentred
        slope * id, scores are lost to rounding (official BiPE, bfloat16: 0.3 nats at 1024 tokens).
        """
        return sum(  # type: ignore[return-value]
            (term.slopes.double()[:, None] * (ids - ids[:, ids.shape[1] // 2, None])[:, None]).to(
                dtype
            )
            for term in self.terms
            for ids in (term.k_ids[rows, keys],)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TableBias(Bias):
    """Any function of an id pair (T5, KERPLE, FIRE): score[q, k] = function(q_id, k_id).

    function: ids ``(batch, query, 1)`` and ``(batch, 1, key)`` to ``(batch, head, query, key)``.
    """

    function: Callable[[Tensor, Tensor], Tensor]
    q_ids: Int[Tensor, "batch query"]
    k_ids: Int[Tensor, "batch key"]

    def dense(self, dtype: torch.dtype) -> Float[Tensor, "batch head query key"]:
        return self.function(self.q_ids[:, :, None], self.k_ids[:, None, :]).to(dtype)

    def part(self, *, rows: slice, queries: slice, keys: slice) -> TableBias:
        return _part(self, rows, queries, keys)

    def spread(self, dtype: torch.dtype) -> Float[Tensor, "batch head query key"]:
        size = _range(self.q_ids).shape[1] * _range(self.k_ids).shape[1]
        few = size < _FEW_PAIRS * self.q_ids.shape[1] * self.k_ids.shape[1]
        return self.pairs(dtype).dense() if few else self.dense(dtype)

    def pairs(self, dtype: torch.dtype) -> IdPairs:
        """Return the bias per pair of ids, few under BiPE; reads the range of ids on the host."""
        q_ids, k_ids = _range(self.q_ids), _range(self.k_ids)
        table = self.function(q_ids[:, :, None], k_ids[:, None, :]).to(dtype)
        return IdPairs(table=table, q_at=self.q_ids - q_ids[:, :1], k_at=self.k_ids - k_ids[:, :1])


@dataclass(frozen=True, slots=True, kw_only=True)
class IdPairs:
    """A bias per pair of ids, and the row or column of each query and key in that table."""

    table: Float[Tensor, "batch head q_id k_id"]
    q_at: Int[Tensor, "batch query"]
    k_at: Int[Tensor, "batch key"]

    def dense(self) -> Float[Tensor, "batch head query key"]:
        """Return the bias per pair of tokens."""
        batch = torch.arange(len(self.table), device=self.table.device)[:, None, None]
        spread = self.table.permute(0, 2, 3, 1)[batch, self.q_at[:, :, None], self.k_at[:, None]]
        return spread.permute(0, 3, 1, 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class BiasSum(Bias):
    """A sum of biases of different kinds."""

    parts: tuple[Bias, ...]

    def dense(self, dtype: torch.dtype) -> Float[Tensor, "batch head query key"]:
        return sum(part.dense(dtype) for part in self.parts)  # type: ignore[return-value]

    def spread(self, dtype: torch.dtype) -> Float[Tensor, "batch head query key"]:
        return sum(part.spread(dtype) for part in self.parts)  # type: ignore[return-value]

    def part(self, *, rows: slice, queries: slice, keys: slice) -> BiasSum:
        parts = (part.part(rows=rows, queries=queries, keys=keys) for part in self.parts)
        return BiasSum(parts=tuple(parts))


def add_biases(*biases: Bias | None) -> Bias | None:
    """Add the biases of several encodings; linear ones stay linear. None if there are none."""
    parts = tuple(b for b in biases if b is not None)
    if len(parts) < 2:
        return parts[0] if parts else None
    linear = tuple(b for b in parts if isinstance(b, LinearBias))
    if len(linear) == len(parts):
        return LinearBias(terms=tuple(term for b in linear for term in b.terms))
    return BiasSum(parts=parts)


_OfIds = TypeVar("_OfIds", LinearTerm, TableBias)


def _part(of: _OfIds, rows: slice, queries: slice, keys: slice) -> _OfIds:
    return replace(of, q_ids=of.q_ids[rows, queries], k_ids=of.k_ids[rows, keys])


def _range(ids: Tensor) -> Tensor:
    """Return consecutive ids from the least of each row on, as many as the widest row spans."""
    first, last = ids.amin(-1, keepdim=True), ids.amax(-1, keepdim=True)
    return first + torch.arange(int((last - first).max()) + 1, device=ids.device)
