"""What is added to attention scores, described and not spelled out: what `Encoding.bias` returns.

A description lets attention choose a path (attention/dispatch.py). A `LinearBias` never needs a
tensor of query x key; any other bias offers `dense`, which does.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor


class Bias(ABC):
    """A bias on attention scores, after the scores are divided by sqrt(head_width)."""

    @abstractmethod
    def dense(self, dtype: torch.dtype) -> Float[Tensor, "batch head query key"]:
        """Spell the bias out: the reference of every other path, and the fallback."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearTerm:
    """slope_h * (k_id - q_id): one slope a head, ids in whatever unit the level counts."""

    slopes: Float[Tensor, " head"]
    q_ids: Int[Tensor, "batch query"]
    k_ids: Int[Tensor, "batch key"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearBias(Bias):
    """A sum of linear terms: ALiBi, BiPE-ALiBi, or ALiBi on both levels.

    A query adds the same to all its scores whatever its own id, and softmax does not see that:
    so a row of shape ``(batch, head, key)`` says it all.
    """

    terms: tuple[LinearTerm, ...]

    def dense(self, dtype: torch.dtype) -> Float[Tensor, "batch head query key"]:
        return sum(  # type: ignore[return-value]
            term.slopes[:, None, None].to(dtype)
            * (term.k_ids[:, None, None, :] - term.q_ids[:, None, :, None]).to(dtype)
            for term in self.terms
        )

    def row(
        self, *, rows: slice, keys: slice, dtype: torch.dtype = torch.float32
    ) -> Float[Tensor, "batch head key"]:
        """The bias of some keys up to a constant a query, for some rows of the batch.

        Ids are centred as integers, before they meet a slope: an unshifted slope * id loses the
        scores below it to rounding (official BiPE, in bfloat16: 0.3 nats at 1024 tokens).
        """
        return sum(  # type: ignore[return-value]
            (term.slopes.double()[:, None] * _centred(term.k_ids[rows, keys])[:, None]).to(dtype)
            for term in self.terms
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TableBias(Bias):
    """Any function of an id pair (T5, KERPLE, FIRE): score[q, k] = function(q_id, k_id).

    function: takes ids of shapes ``(batch, query, 1)`` and ``(batch, 1, key)``, returns
        ``(batch, head, query, key)``.
    """

    function: Callable[[Tensor, Tensor], Tensor]
    q_ids: Int[Tensor, "batch query"]
    k_ids: Int[Tensor, "batch key"]

    def dense(self, dtype: torch.dtype) -> Float[Tensor, "batch head query key"]:
        return self.function(self.q_ids[:, :, None], self.k_ids[:, None, :]).to(dtype)


@dataclass(frozen=True, slots=True, kw_only=True)
class BiasSum(Bias):
    """Biases of different kinds, added."""

    parts: tuple[Bias, ...]

    def dense(self, dtype: torch.dtype) -> Float[Tensor, "batch head query key"]:
        return sum(part.dense(dtype) for part in self.parts)  # type: ignore[return-value]


def add_biases(*biases: Bias | None) -> Bias | None:
    """Add what several encodings ask for; linear ones stay linear. None if there is none."""
    parts = tuple(b for b in biases if b is not None)
    if len(parts) < 2:
        return parts[0] if parts else None
    linear = tuple(b for b in parts if isinstance(b, LinearBias))
    if len(linear) == len(parts):
        return LinearBias(terms=tuple(term for b in linear for term in b.terms))
    return BiasSum(parts=parts)


def _centred(ids: Int[Tensor, "batch key"]) -> Int[Tensor, "batch key"]:
    return ids - ids[:, ids.shape[1] // 2, None]
