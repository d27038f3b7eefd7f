"""NTK-by-parts in its first form (bloc97, 2023): PI for slow pairs, NTK between, fast ones kept.

Two ramps: between PI and NTK-aware (1.25 to 0.75 turns over the original length), and between that
and the old frequencies (16 to 2 turns). YaRN uses one ramp and no NTK (yarn.py).
"""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Float, Int
from torch import Tensor

from bipe.stretch.base import Stretch, ntk_slowdown, require_at_least
from bipe.stretch.ramp import turns_ramp

# Turns over the original length, found by its author on LLaMA.
_NTK_TO_LINEAR = {"fast": 1.25, "slow": 0.75}
_KEPT_TO_NTK = {"fast": 16.0, "slow": 2.0}


@dataclass(frozen=True, kw_only=True)
class NTKByParts(Stretch):
    """factor: s, at least 1. original_length: L0, in positions."""

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
    ) -> tuple[Float[Tensor, " pair"], float]:
        linear = inv_freq / self.factor
        slowed = inv_freq * ntk_slowdown(inv_freq, self.factor)
        slowed = slowed.lerp(linear, self._ramp(inv_freq, theta, **_NTK_TO_LINEAR))
        return inv_freq.lerp(slowed, self._ramp(inv_freq, theta, **_KEPT_TO_NTK)), 1.0

    def _ramp(self, inv_freq: Tensor, theta: float, *, fast: float, slow: float) -> Tensor:
        ramp = turns_ramp(
            fast=fast,
            slow=slow,
            pairs=len(inv_freq),
            theta=theta,
            original_length=self.original_length,
        )
        return ramp.to(inv_freq.device)
