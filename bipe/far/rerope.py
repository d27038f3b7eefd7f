"""ReRoPE (Su, 2023; kexue.fm/archives/9708): distances beyond a window count as the window.

    distance(i, j) = min(i - j, w)

A far query is turned as if it stood at w and a far key as if it stood at 0. The released patch also
multiplies queries by log-n (log_n.py); here that is an option.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jaxtyping import Float, Int
from torch import Tensor

from bipe.far.base import Far, Pass, constant, log_n_scale, near
from bipe.stretch.base import require_at_least


@dataclass(frozen=True, kw_only=True)
class ReRoPE(Far):
    """window: w, in ids. log_n: the original length of log-n, in ids; None: without."""

    window: int
    log_n: int | None = None

    def __post_init__(self) -> None:
        require_at_least(self.window, 1, name="window")
        if self.log_n is not None:
            require_at_least(self.log_n, 2, name="log_n")

    def passes(
        self, q_ids: Int[Tensor, "batch query"], k_ids: Int[Tensor, "batch key"]
    ) -> tuple[Pass, ...]:
        far = Pass(q_ids=constant(self.window, q_ids), k_ids=constant(0, k_ids))
        return near(q_ids, self.window), far

    def scale(self, q_ids: Int[Tensor, "batch query"]) -> Float[Tensor, "batch query"] | None:
        return None if self.log_n is None else log_n_scale(q_ids, self.log_n, clip=True)

    @classmethod
    def fitted(cls, original: int) -> dict[str, Any]:
        # Half of the original length, the most that the author advises: larger distances are rare
        # in training.
        return {"window": max(1, original // 2)}
