"""Dynamic NTK (emozilla, 2023; 2309.00071, 3.3): NTK-aware scaling that grows with the length.

    alpha = s * n / L0 - (s - 1)  beyond the original length L0, 1 up to it

transformers' rope type "dynamic". There a factor of 1 still grows; here it is the identity, as it
is for every strategy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from jaxtyping import Float, Int
from torch import Tensor

from bipe.stretch.base import Stretch, excess, ntk_slowdown, require_at_least


@dataclass(frozen=True, kw_only=True)
class DynamicNTK(Stretch):
    """factor: s, at least 1. original_length: L0, in positions."""

    dynamic: ClassVar[bool] = True

    factor: float
    original_length: int

    def __post_init__(self) -> None:
        require_at_least(self.factor, 1, name="factor")
        require_at_least(self.original_length, 1, name="original_length")

    def frequencies(
        self,
        inv_freq: Float[Tensor, " pair"],
        *,
        theta: float,
        length: Int[Tensor, " ..."] | None = None,
    ) -> tuple[Float[Tensor, "... pair"], float]:
        if length is None or self.factor == 1:
            return inv_freq, 1.0
        # Exactly 1 up to the original length, which s n / L0 - (s - 1) is not in floating point.
        alpha = 1 + self.factor * (excess(length, self.original_length) - 1)
        return inv_freq * ntk_slowdown(inv_freq, alpha), 1.0
