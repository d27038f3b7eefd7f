"""What a method that changes distances is: passes of attention over parts of the keys.

A model knows distances up to those of training. A method gives, for each query, the ids of the
query and of its keys, one part of the keys at a time: each part is a pass, the parts are disjoint,
and one softmax goes over all of them. Distances count whatever drives the encoding: tokens in a
flat one, segments under BiPE. ReRoPE with a window of 3, the distance at which each pair is seen:

    0
    1 0
    2 1 0
    3 2 1 0             first pass: query at its id, keys at theirs
    3 3 2 1 0           second pass: query at 3, keys at 0

A key belongs to the nearest pass whose `first` it reaches, so passes cannot overlap. The methods
are in bipe/extension/distances.py, the attention over passes in bipe/attention/passes.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from jaxtyping import Float, Int
from torch import Tensor

from bipe.build import Bounded

Hook = Literal["rotation", "bias"]
QueryIds = Int[Tensor, "batch query"]
KeyIds = Int[Tensor, "batch key"]
QueryScale = Float[Tensor, "batch query"] | None
# Ids of tokens, (batch, time), or (1, 1) where one id serves for all. May be fractions.
Ids = Int[Tensor, "_ _"] | Float[Tensor, "_ _"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """A part of the keys of each query, and the ids of both in it.

    first: the least id of the keys of the pass, ``(batch, query)``; None: from the start of the
        document. The last id is below `first` of the pass before, or that of the query.
    q_ids, k_ids: ids that queries and keys have here; None: their own.
    """

    first: QueryIds | None = None
    q_ids: Ids | None = None
    k_ids: Ids | None = None


class Far(Bounded, ABC):
    """A method that changes distances: a frozen, keyword-only dataclass.

    serves: hooks of an encoding of which one must be there for the method to act on; empty: it
        acts on any encoding.
    unit: what distances count, where that is not what drives the encoding.
    """

    serves: ClassVar[tuple[Hook, ...]] = ("rotation",)
    unit: Literal["tokens", "segments"] | None = None

    @abstractmethod
    def passes(self, q_ids: QueryIds, k_ids: KeyIds) -> tuple[Pass, ...]:
        """Return the passes, nearest keys first. Ids never fall within a document."""

    def scale(self, q_ids: QueryIds) -> QueryScale:
        """Return a factor on the scores of each query, float64; None: none."""
        return None

    @classmethod
    @abstractmethod
    def fitted(cls, original: int) -> dict[str, Any]:
        """Return the arguments that follow from the original length, in ids."""

    def longest(self, original: int) -> int | None:
        """Return the ids per document up to which no distance is beyond training; None: any."""
        return None
