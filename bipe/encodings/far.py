"""Methods that change distances: attention in passes over parts of the keys.

A model has only seen distances up to the training length. A method splits the keys of each query
into disjoint parts and sets the ids of query and keys for each part: a pass. One softmax covers all
passes. Distances are in the unit of the encoding: tokens if it is flat, segments under BiPE.
The distances of ReRoPE with a window of 3:

    0
    1 0
    2 1 0
    3 2 1 0             first pass: query at its id, keys at theirs
    3 3 2 1 0           second pass: query at 3, keys at 0
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from jaxtyping import Bool, Float, Int
from torch import Tensor

from bipe.arguments import Bounded
from bipe.bias import KeyIds, QueryIds
from bipe.positions import Positions

Hook = Literal["rotation", "bias"]
QueryScale = Float[Tensor, "batch query"] | None
Fit = Mapping[str, tuple[float, int]]
# Ids of tokens, (batch, time), or (1, 1) for one id for all tokens. May be fractions.
Ids = Int[Tensor, "_ _"] | Float[Tensor, "_ _"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """A part of the keys of each query, and the ids of both in it.

    first: least id of the keys, ``(batch, query)``; None: the start of the document. The keys end
        before `first` of the previous pass, or with the query itself in the first pass. Of later
        passes, `Far.beyond` may leave out keys.
    q_ids, k_ids: ids of queries and keys in the pass; None: their own.
    """

    first: QueryIds | None = None
    q_ids: Ids | None = None
    k_ids: Ids | None = None


class Far(Bounded, ABC):
    """A method that changes distances: a frozen, keyword-only dataclass.

    serves: hooks of which the encoding must have one; empty: any encoding.
    unit: the unit of distances, if not that of the encoding.
    forgets: some keys are never attended to again, so that a cache drops them.
    fit: arguments that follow from the original length: the share of it, and the least.
    """

    serves: ClassVar[tuple[Hook, ...]] = ("rotation",)
    forgets: ClassVar[bool] = False
    fit: ClassVar[Fit] = {}
    unit: Literal["tokens", "segments"] | None = None

    @property
    def reads_segments(self) -> bool:
        """Return whether a flat encoding with the method depends on segments."""
        return self.unit == "segments"

    @abstractmethod
    def passes(self, q_ids: QueryIds, k_ids: KeyIds) -> tuple[Pass, ...]:
        """Return the passes, nearest keys first; the given ids never decrease in a document."""

    def beyond(self, at: Positions) -> Bool[Tensor, "batch key"] | None:
        """Return the keys that are in passes after the first one; None: all.

        A query asks only for keys before itself; keys that a cache has dropped are missing in `at`.
        """
        return None

    def scale(self, q_ids: QueryIds) -> QueryScale:
        """Return a factor on the scores of each query, float64; None: no factor."""
        return None

    @classmethod
    def fitted(cls, original: int) -> dict[str, Any]:
        """Return the arguments that follow from the original length, in ids."""
        return {key: max(least, int(share * original)) for key, (share, least) in cls.fit.items()}

    def longest(self, original: int) -> int | None:
        """Return the largest number of ids per document without an unseen distance; None: any."""
        return None
