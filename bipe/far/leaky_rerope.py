"""Leaky ReRoPE (Su, 2023; kexue.fm/archives/9731): distances beyond a window grow more slowly.

    distance(i, j) = i - j                   within the window w
                     w + (i - j - w) / s     beyond it

A far query is turned as if it stood at i / s + w - w / s and a far key as if at j / s. As s grows
it becomes ReRoPE; at 1 nothing is changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jaxtyping import Float, Int
from torch import Tensor

from bipe.far.base import Far, Pass, log_n_scale, near
from bipe.stretch.base import require_at_least


@dataclass(frozen=True, kw_only=True)
class LeakyReRoPE(Far):
    """factor: s, at least 1. window: w, in ids. log_n: as in `ReRoPE`."""

    window: int
    factor: float
    log_n: int | None = None

    def __post_init__(self) -> None:
        require_at_least(self.window, 1, name="window")
        require_at_least(self.factor, 1, name="factor")
        if self.log_n is not None:
            require_at_least(self.log_n, 2, name="log_n")

    def passes(
        self, q_ids: Int[Tensor, "batch query"], k_ids: Int[Tensor, "batch key"]
    ) -> tuple[Pass, ...]:
        if self.factor == 1:
            return (Pass(),)
        offset = self.window * (self.factor - 1)
        far = Pass(
            q_ids=(q_ids.double() + offset) / self.factor, k_ids=k_ids.double() / self.factor
        )
        return near(q_ids, self.window), far

    def scale(self, q_ids: Int[Tensor, "batch query"]) -> Float[Tensor, "batch query"] | None:
        return None if self.log_n is None else log_n_scale(q_ids, self.log_n, clip=True)

    @classmethod
    def fitted(cls, original: int) -> dict[str, Any]:
        return {"window": max(1, original // 2)}

    def reach(self, original: int) -> int | None:
        return int(self.window + (original - self.window) * self.factor)
