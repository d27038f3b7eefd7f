"""What a training-free method of context extension is: passes of attention over parts of the keys.

A model knows distances up to those of training. A method says, for each query, at which ids the
query and its keys stand, part of the keys by part: each part is a pass, the parts are disjoint, and
one softmax goes over all of them. Distances count whatever drives the encoding: tokens in a flat
one, segments under BiPE. ReRoPE with a window of 3, the distance that each pair is seen at:

    0
    1 0
    2 1 0
    3 2 1 0             first pass: query at its id, keys at theirs
    3 3 2 1 0           second pass: query at 3, keys at 0

A key belongs to the nearest pass whose `first` it reaches, so passes cannot overlap.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

Hook = Literal["rotation", "bias"]
# Ids at which tokens stand, (batch, time) or, where one stands for all, 1. May be fractions.
Ids = Int[Tensor, "_ _"] | Float[Tensor, "_ _"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """A part of the keys of each query, and where both stand in it.

    first: the least id of the keys of the pass, ``(batch, query)``; None: from the start of the
        document. The last id is below `first` of the pass before, or that of the query.
    q_ids, k_ids: ids that queries and keys have here; None: their own.
    """

    first: Int[Tensor, "batch query"] | None = None
    q_ids: Ids | None = None
    k_ids: Ids | None = None


class Far(ABC):
    """A method: a frozen, keyword-only dataclass.

    serves: hooks of an encoding of which one must be there for the method to act on; none: it
        acts on any encoding.
    unit: what distances count, where that is not what drives the encoding.
    """

    serves: ClassVar[tuple[Hook, ...]] = ("rotation",)
    unit: Literal["tokens", "segments"] | None = None

    @abstractmethod
    def passes(
        self, q_ids: Int[Tensor, "batch query"], k_ids: Int[Tensor, "batch key"]
    ) -> tuple[Pass, ...]:
        """The passes, nearest keys first. Ids never fall within a document."""

    def scale(self, q_ids: Int[Tensor, "batch query"]) -> Float[Tensor, "batch query"] | None:
        """A factor on the scores of each query, float64; None: none."""
        return None

    @classmethod
    @abstractmethod
    def fitted(cls, original: int) -> dict[str, Any]:
        """The arguments that follow from the original length, in ids."""

    def reach(self, original: int) -> int | None:
        """Ids of a document up to which no pair is at a distance beyond training; None: any."""
        return None


def near(q_ids: Int[Tensor, "batch query"], window: int) -> Pass:
    """The keys at distances below `window`, where they are."""
    return Pass(first=q_ids - (window - 1))


def constant(value: int, like: Int[Tensor, "batch time"]) -> Tensor:
    """One id for all tokens."""
    return torch.full((1, 1), value, dtype=like.dtype, device=like.device)


def log_n_scale(
    q_ids: Int[Tensor, "batch query"], original_length: int, *, clip: bool
) -> Float[Tensor, "batch query"]:
    """ln n / ln L0 of queries that see n ids, at least 1 with `clip`."""
    scale = (q_ids + 1).double().log() / torch.tensor(float(original_length)).double().log()
    return scale.clamp(min=1.0) if clip else scale
