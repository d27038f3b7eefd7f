"""Self-Extend (Jin et al., 2401.01325): far tokens share positions by groups, near ones do not.

    distance(i, j) = i - j                                     within the window w
                     floor(i/G) - floor(j/G) + w - floor(w/G)  beyond it

as in its eq. 3 and algorithm 1. Groups of 1 change nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jaxtyping import Int
from torch import Tensor

from bipe.far.base import Far, Pass, near
from bipe.stretch.base import require_at_least


@dataclass(frozen=True, kw_only=True)
class SelfExtend(Far):
    """group: G, in ids. window: w, the neighbours, in ids."""

    window: int
    group: int

    def __post_init__(self) -> None:
        require_at_least(self.window, 1, name="window")
        require_at_least(self.group, 1, name="group")

    def passes(
        self, q_ids: Int[Tensor, "batch query"], k_ids: Int[Tensor, "batch key"]
    ) -> tuple[Pass, ...]:
        if self.group == 1:
            return (Pass(),)
        shift = self.window - self.window // self.group
        far = Pass(q_ids=q_ids // self.group + shift, k_ids=k_ids // self.group)
        return near(q_ids, self.window), far

    @classmethod
    def fitted(cls, original: int) -> dict[str, Any]:
        # A quarter of the original length for neighbours leaves three for groups.
        return {"window": max(1, original // 4)}

    def reach(self, original: int) -> int | None:
        return (original - self.window) * self.group + self.window
