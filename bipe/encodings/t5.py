"""Trained scores of buckets of distances (T5; Raffel et al., 1910.10683, section 2.1).

    score + table[bucket(id(i) - id(j)), h]

Half of the buckets hold one distance each, the others grow with the logarithm up to `longest`,
beyond which all share the last one. T5 itself does not divide scores by sqrt(head_width); here they
are divided as everywhere, which the table can make up for.
"""

import math

import torch
from jaxtyping import Int
from torch import Tensor, nn

from bipe.arguments import require, require_at_least
from bipe.bias import DistanceBias, KeyIds, QueryIds
from bipe.encodings.base import Encoding


class T5(Encoding):
    """A trained score per bucket of distances and head, shared by all layers. longest: in ids."""

    def __init__(self, *, n_head: int, buckets: int = 32, longest: int = 128) -> None:
        super().__init__()
        require_at_least(2, buckets=buckets)
        require(longest > buckets // 2, f"above {buckets // 2} (buckets / 2)", longest=longest)
        self.table = nn.Parameter(torch.randn(buckets, n_head) * 0.02)
        self.longest = longest

    def bias(self, q_ids: QueryIds, k_ids: KeyIds) -> DistanceBias:
        return DistanceBias(function=self.of_distance, q_ids=q_ids, k_ids=k_ids)

    def of_distance(self, distance: Tensor) -> Tensor:
        """Return the bias at distances ``(...)``: ``(head, ...)``."""
        index = bucket(distance, buckets=len(self.table), longest=self.longest)
        return self.table[index].movedim(-1, 0)


def bucket(distance: Tensor, *, buckets: int, longest: int) -> Int[Tensor, "..."]:
    """Return the bucket of each distance (of queries before keys: 0)."""
    distance = distance.clamp(min=0)
    exact = buckets // 2
    # In float32, as the reference: at powers of the base float64 can fall into another bucket.
    ratio = torch.log(distance.float().clamp(min=1) / exact) / math.log(longest / exact)
    far = exact + (ratio * (buckets - exact)).long()
    return torch.where(distance < exact, distance.long(), far.clamp(max=buckets - 1))
