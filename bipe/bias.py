"""Descriptions of biases on attention scores, as returned by `Encoding.bias`.

They let attention choose a path (attention/dispatch.py):

    separable   r_j - r_i: linear in ids (ALiBi), or a running sum of gates (FoX); no query x key
    table       a function of the distance of ids (T5, KERPLE), or of a pair of ids (FIRE)
    content     depends on queries and keys (Shaw, Transformer-XL, CoPE): in blocks of queries
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

# With fewer pairs of ids than this share of the pairs of tokens, spreading a table is faster.
_FEW_PAIRS = 0.25
_ALL = slice(None)
_FLOAT = torch.float32
QueryIds = Int[Tensor, "batch query"]
KeyIds = Int[Tensor, "batch key"]
Dense = Float[Tensor, "batch head query key"]
Row = Float[Tensor, "batch head key"]


class Bias(ABC):
    """A bias on attention scores, added after they are divided by sqrt(head_width).

    layered: differs between layers, see `in_layer`.
    """

    layered: ClassVar[bool] = False

    @abstractmethod
    def dense(self, dtype: torch.dtype) -> Dense:
        """Return the bias as a tensor: the reference for every other path, and the fallback."""

    def spread(self, dtype: torch.dtype) -> Dense:
        """Return the same as `dense`, with less work where there are few pairs of ids."""
        return self.dense(dtype)

    @abstractmethod
    def part(self, *, rows: slice, queries: slice, keys: slice) -> Bias:
        """Return the bias of some rows of the batch, queries and keys."""

    def added(
        self, q: Tensor, k: Tensor, plain: Tensor, allowed: Tensor, *, spread: bool = False
    ) -> Tensor:
        """Return what is added to the scores of `q` and `k`, given `plain`, their products.

        *Shape:* as `plain`, ``(batch, head, query, key)``. allowed: the pairs that attend,
        ``(batch, query, key)``. spread: see `Bias.spread`.
        """
        return self.spread(plain.dtype) if spread else self.dense(plain.dtype)

    def valued(self, weights: Tensor) -> Tensor | None:
        """Return the term added to the weighted sum of values; None: 0."""
        return None

    def leaves(self) -> tuple[Bias, ...]:
        """Return the biases that this one is a sum of."""
        return (self,)


@dataclass(frozen=True, slots=True, kw_only=True)
class OfIds(Bias):
    """A bias that is a function of ids of queries and keys, and perhaps of more."""

    q_ids: QueryIds
    k_ids: KeyIds

    def part(self, *, rows: slice, queries: slice, keys: slice) -> OfIds:
        return replace(self, q_ids=self.q_ids[rows, queries], k_ids=self.k_ids[rows, keys])


class SeparableBias(Bias):
    """r_j - r_i: softmax ignores r_i, so a row ``(batch, head, key)`` is enough.

    learned: gradients go to the row.
    """

    learned: ClassVar[bool] = False

    @abstractmethod
    def row(self, *, rows: slice = _ALL, keys: slice = _ALL, dtype: torch.dtype = _FLOAT) -> Row:
        """Return the bias of some keys up to a constant per query, for some rows of the batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearBias(OfIds, SeparableBias):
    """slope_h * (k_id - q_id): one slope per head, ids in the unit of their level."""

    slopes: Float[Tensor, " head"]

    def dense(self, dtype: torch.dtype) -> Dense:
        slopes = self.slopes[:, None, None].to(dtype)
        return slopes * (self.k_ids[:, None, None, :] - self.q_ids[:, None, :, None]).to(dtype)

    def row(self, *, rows: slice = _ALL, keys: slice = _ALL, dtype: torch.dtype = _FLOAT) -> Row:
        """Return the bias of some keys up to a constant per query, for some rows of the batch.

        Ids are centred as integers before the multiplication by a slope: an uncentred slope * id
        rounds away the scores (official BiPE, bfloat16: 0.3 nats at 1024 tokens).
        """
        ids = _centred(self.k_ids[rows, keys])
        return (self.slopes.double()[:, None] * ids[:, None]).to(dtype)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowBias(SeparableBias):
    """k_row - q_row, which may have gradients: the last queries of the keys."""

    learned: ClassVar[bool] = True

    q_row: Float[Tensor, "batch head query"]
    k_row: Float[Tensor, "batch head key"]

    def dense(self, dtype: torch.dtype) -> Dense:
        return (self.k_row[:, :, None, :] - self.q_row[:, :, :, None]).to(dtype)

    def part(self, *, rows: slice, queries: slice, keys: slice) -> RowBias:
        return RowBias(q_row=self.q_row[rows, :, queries], k_row=self.k_row[rows, :, keys])

    def row(self, *, rows: slice = _ALL, keys: slice = _ALL, dtype: torch.dtype = _FLOAT) -> Row:
        return _centred(self.k_row[rows, :, keys]).to(dtype)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableBias(OfIds):
    """Any function of an id pair (FIRE, TUPE): score[q, k] = function(q_id, k_id).

    function: ids ``(batch, query, 1)`` and ``(batch, 1, key)`` to ``(batch, head, query, key)``.
    """

    function: Callable[[Tensor, Tensor], Tensor]

    def dense(self, dtype: torch.dtype) -> Dense:
        return self._of(self.q_ids, self.k_ids).to(dtype)

    def spread(self, dtype: torch.dtype) -> Dense:
        return self.pairs(dtype).dense() if self.has_few_pairs() else self.dense(dtype)

    def has_few_pairs(self) -> bool:
        """Return whether there are far fewer pairs of ids than of tokens; waits for the device."""
        size = _range(self.q_ids).shape[1] * _range(self.k_ids).shape[1]
        return size < _FEW_PAIRS * self.q_ids.shape[1] * self.k_ids.shape[1]

    def pairs(self, dtype: torch.dtype) -> IdPairs:
        """Return the bias per pair of ids, few under BiPE; reads the range of ids on the host."""
        q_ids, k_ids = _range(self.q_ids), _range(self.k_ids)
        table = self._of(q_ids, k_ids).to(dtype)
        return IdPairs(table=table, q_at=self.q_ids - q_ids[:, :1], k_at=self.k_ids - k_ids[:, :1])

    def _of(self, q_ids: QueryIds, k_ids: KeyIds) -> Dense:
        scores = self.function(q_ids[:, :, None], k_ids[:, None, :])
        if scores.ndim != 4:  # without heads, it would be spread over the batch
            raise ValueError(
                "function of a TableBias must return scores [batch, head, query, key], was: "
                f"{[*scores.shape]} for ids [batch, query, 1] = {[*q_ids.shape, 1]}"
            )
        return scores


@dataclass(frozen=True, slots=True, kw_only=True)
class IdPairs:
    """A bias per pair of ids, and the row or column of each query and key in that table."""

    table: Float[Tensor, "batch head q_id k_id"]
    q_at: QueryIds
    k_at: KeyIds

    def dense(self) -> Dense:
        """Return the bias per pair of tokens."""
        batch = torch.arange(len(self.table), device=self.table.device)[:, None, None]
        spread = self.table.permute(0, 2, 3, 1)[batch, self.q_at[:, :, None], self.k_at[:, None]]
        return spread.permute(0, 3, 1, 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class DistanceBias(OfIds):
    """A function of q_id - k_id (T5, KERPLE, Sandwich); keys behind a query count as its own.

    function: distances ``(...)``, from 0, to a bias ``(head, ...)``.
    """

    function: Callable[[Tensor], Tensor]

    def dense(self, dtype: torch.dtype) -> Dense:
        distance = (self.q_ids[:, :, None] - self.k_ids[:, None, :]).clamp(min=0)
        if distance.is_floating_point():  # far methods may set fractions
            return self.function(distance).transpose(0, 1).to(dtype)
        return self.by_distance(dtype)[:, distance].transpose(0, 1)

    def by_distance(self, dtype: torch.dtype) -> Float[Tensor, "head distance"]:
        """Return the bias of each distance up to the largest, which is read on the host."""
        largest = int((self.q_ids.amax(-1) - self.k_ids.amin(-1)).max().clamp(min=0))
        return self.function(torch.arange(largest + 1, device=self.q_ids.device)).to(dtype)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContentBias(OfIds):
    """A bias that depends on queries and keys, or on values (encodings/content.py).

    state: what the encoding needs in one layer; None: before `in_layer`.
    """

    layered: ClassVar[bool] = True

    encoding: Any
    state: Any = None

    def in_layer(self, layer: int) -> ContentBias:
        """Return the bias with the parameters of a layer."""
        return replace(self, state=self.encoding.state(layer, self.q_ids, self.k_ids))

    def dense(self, dtype: torch.dtype) -> Tensor:
        raise ValueError(f"the bias of {type(self.encoding).__name__} depends on queries and keys")

    def added(
        self, q: Tensor, k: Tensor, plain: Tensor, allowed: Tensor, *, spread: bool = False
    ) -> Tensor:
        added = self.encoding.content(q, k, plain, self.q_ids, self.k_ids, allowed, self.state)
        return added.to(plain.dtype)

    def valued(self, weights: Tensor) -> Tensor | None:
        values: Tensor | None = self.encoding.valued(weights, self.q_ids, self.k_ids, self.state)
        return values


@dataclass(frozen=True, slots=True, kw_only=True)
class GateBias(OfIds):
    """A cumulative sum of gates computed from the hidden states of each layer (FoX, CABLE).

    A gate lowers the scores of all earlier tokens. It applies to tokens whose id differs from that
    of the previous token: every token in a flat encoding, the first of each segment in BiPE.
    """

    layered: ClassVar[bool] = True

    encoding: Any

    def gates(self, layer: int, x: Tensor) -> Float[Tensor, "batch query head"]:
        gates: Tensor = self.encoding.gates(x, layer)
        return gates

    def over(self, gates: Float[Tensor, "batch head key"]) -> RowBias:
        """Return the bias, given the gates of all keys."""
        new = torch.ones_like(self.k_ids, dtype=torch.bool)
        new[:, 1:] = self.k_ids[:, 1:] != self.k_ids[:, :-1]
        # In float64: single gates would be lost in the sum over a long row.
        row = -(gates.double() * new[:, None]).cumsum(-1)
        return RowBias(q_row=row[..., row.shape[-1] - self.q_ids.shape[1] :], k_row=row)

    def dense(self, dtype: torch.dtype) -> Tensor:
        raise ValueError(f"the bias of {type(self.encoding).__name__} depends on hidden states")


@dataclass(frozen=True, slots=True, kw_only=True)
class BiasSum(Bias):
    """A sum of biases of different kinds."""

    parts: tuple[Any, ...]

    def leaves(self) -> tuple[Bias, ...]:
        return self.parts

    def dense(self, dtype: torch.dtype) -> Dense:
        return sum(part.dense(dtype) for part in self.parts)  # type: ignore[return-value]

    def spread(self, dtype: torch.dtype) -> Dense:
        return sum(part.spread(dtype) for part in self.parts)  # type: ignore[return-value]

    def added(
        self, q: Tensor, k: Tensor, plain: Tensor, allowed: Tensor, *, spread: bool = False
    ) -> Tensor:
        return sum(part.added(q, k, plain, allowed, spread=spread) for part in self.parts)  # type: ignore[return-value]

    def part(self, *, rows: slice, queries: slice, keys: slice) -> BiasSum:
        parts = (part.part(rows=rows, queries=queries, keys=keys) for part in self.parts)
        return type(self)(parts=tuple(parts))


class SeparableSum(BiasSum, SeparableBias):
    """A sum of separable biases; `learned` if one is."""

    @property
    def learned(self) -> bool:  # type: ignore[override]
        return any(part.learned for part in self.parts)

    def row(self, *, rows: slice = _ALL, keys: slice = _ALL, dtype: torch.dtype = _FLOAT) -> Row:
        return sum(part.row(rows=rows, keys=keys, dtype=dtype) for part in self.parts)  # type: ignore[return-value]


def add_biases(*biases: Bias | None) -> Bias | None:
    """Add the biases of several encodings; separable ones stay so. None if there are none."""
    for bias in biases:
        if bias is not None and not isinstance(bias, Bias):
            raise TypeError(
                "the bias of an encoding must be a Bias of bipe.bias, such as TableBias(function=, "
                f"q_ids=, k_ids=), or None, was: {type(bias).__name__}"
            )
    parts = tuple(leaf for b in biases if b is not None for leaf in b.leaves())
    if len(parts) < 2:
        return parts[0] if parts else None
    separable = all(isinstance(part, SeparableBias) for part in parts)
    return SeparableSum(parts=parts) if separable else BiasSum(parts=parts)


def _centred(row: Tensor) -> Tensor:
    # On the middle: what is left is at most half as large as from an end.
    return row - row[..., row.shape[-1] // 2, None]


def _range(ids: Tensor) -> Tensor:
    """Return consecutive ids from the least of each row on, as many as the widest row spans."""
    first, last = ids.amin(-1, keepdim=True), ids.amax(-1, keepdim=True)
    return first + torch.arange(int((last - first).max()) + 1, device=ids.device)
