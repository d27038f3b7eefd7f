"""Dual chunk attention (An et al., ChunkLlama, 2402.17463): ids count inside chunks.

With chunks of s ids, an original length c >= s and m = i mod s, a key j stands at j mod s, and

    in the chunk of the query       the query stands at m                      (eq. 3)
    in the chunk before that        at min(s + m, c - 1): as far as it is      (eq. 7)
    in any chunk before             at c - 1                                   (eq. 5)

Up to c ids in the first two chunks all distances are what they are. The release lets far queries
stand one further than the paper does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jaxtyping import Int
from torch import Tensor

from bipe.far.base import Far, Pass, constant
from bipe.stretch.base import require_at_least


@dataclass(frozen=True, kw_only=True)
class DualChunk(Far):
    """chunk: s, in ids. length: c, in ids, at least the chunk."""

    chunk: int
    length: int

    def __post_init__(self) -> None:
        require_at_least(self.chunk, 1, name="chunk")
        require_at_least(self.length, self.chunk, name="length")

    def passes(
        self, q_ids: Int[Tensor, "batch query"], k_ids: Int[Tensor, "batch key"]
    ) -> tuple[Pass, ...]:
        inside, k_inside = q_ids % self.chunk, k_ids % self.chunk
        start = q_ids - inside
        before = (inside + self.chunk).clamp(max=self.length - 1)
        return (
            Pass(first=start, q_ids=inside, k_ids=k_inside),
            Pass(first=start - self.chunk, q_ids=before, k_ids=k_inside),
            Pass(q_ids=constant(self.length - 1, q_ids), k_ids=k_inside),
        )

    @classmethod
    def fitted(cls, original: int) -> dict[str, Any]:
        # Three quarters, as in section 4.1.
        return {"chunk": max(1, original * 3 // 4), "length": original}
