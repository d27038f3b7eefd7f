"""Position clipping: no distance is larger than one (Shaw et al., 1803.02155, 3.2).

    distance(i, j) = min(i - j, c)

As ReRoPE, but for biases as well (a far key costs ALiBi no more than the slope times c), and by
default at the largest distance of training.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from jaxtyping import Int
from torch import Tensor

from bipe.far.base import Far, Hook, Pass, constant, near
from bipe.stretch.base import require_at_least


@dataclass(frozen=True, kw_only=True)
class Clip(Far):
    """distance: c, the largest, in ids."""

    serves: ClassVar[tuple[Hook, ...]] = ("rotation", "bias")

    distance: int

    def __post_init__(self) -> None:
        require_at_least(self.distance, 1, name="distance")

    def passes(
        self, q_ids: Int[Tensor, "batch query"], k_ids: Int[Tensor, "batch key"]
    ) -> tuple[Pass, ...]:
        far = Pass(q_ids=constant(self.distance, q_ids), k_ids=constant(0, k_ids))
        return near(q_ids, self.distance + 1), far

    @classmethod
    def fitted(cls, original: int) -> dict[str, Any]:
        return {"distance": max(1, original - 1)}
