"""NTK-aware scaling (bloc97, 2023; 2309.00071, definition 1): a larger theta.

theta' = theta * alpha^(d / (d - 2)):  the fastest pair is kept, the slowest slowed by alpha
"""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Float, Int
from torch import Tensor

from bipe.stretch.base import Stretch, ntk_slowdown, require_at_least


@dataclass(frozen=True, kw_only=True)
class NTKAware(Stretch):
    """factor: alpha, at least 1."""

    factor: float

    def __post_init__(self) -> None:
        require_at_least(self.factor, 1, name="factor")

    def frequencies(
        self,
        inv_freq: Float[Tensor, " pair"],
        *,
        theta: float,
        length: Int[Tensor, " ..."] | None = None,
    ) -> tuple[Float[Tensor, " pair"], float]:
        return inv_freq * ntk_slowdown(inv_freq, self.factor), 1.0
