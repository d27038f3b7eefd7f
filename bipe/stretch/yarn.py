"""YaRN (Peng et al., 2309.00071): slow pairs interpolated, fast ones kept, attention sharpened.

frequency_p = (1 - ramp_p) frequency_p + ramp_p frequency_p / s        (eq. 20; ramp.py)
attention_factor = 0.1 ln s + 1, on cosines and sines: scores grow by its square    (eq. 22)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from jaxtyping import Float, Int
from torch import Tensor

from bipe.stretch.base import Stretch, require_at_least
from bipe.stretch.ramp import turns_ramp


def mscale(factor: float, weight: float = 1.0) -> float:
    """0.1 weight ln s + 1, and 1 for a factor of at most 1."""
    return 1.0 if factor <= 1 else 0.1 * weight * math.log(factor) + 1.0


@dataclass(frozen=True, kw_only=True)
class YaRN(Stretch):
    """The parameters have their names in transformers, where this is the rope type "yarn".

    factor: s, at least 1. original_length: L0, in positions.
    beta_fast, beta_slow: turns over the original length; pairs with more than the one are kept,
        with fewer than the other interpolated.
    truncate: see `turns_ramp`.
    attention_factor: instead of the formula above.
    mscale, mscale_all_dim: weights of the logarithm (DeepSeek): the factor is the ratio of the two
        formulas; one alone is ignored, as in transformers.
    """

    factor: float
    original_length: int
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    truncate: bool = True
    attention_factor: float | None = None
    mscale: float | None = None
    mscale_all_dim: float | None = None

    def __post_init__(self) -> None:
        require_at_least(self.factor, 1, name="factor")
        require_at_least(self.original_length, 1, name="original_length")
        if not 0 < self.beta_slow <= self.beta_fast:
            raise ValueError(
                f"beta_slow must be above 0 and at most beta_fast ({self.beta_fast}), was: "
                f"{self.beta_slow}"
            )

    def frequencies(
        self,
        inv_freq: Float[Tensor, " pair"],
        *,
        theta: float,
        length: Int[Tensor, " ..."] | None = None,
    ) -> tuple[Float[Tensor, " pair"], float]:
        ramp = turns_ramp(
            fast=self.beta_fast,
            slow=self.beta_slow,
            pairs=len(inv_freq),
            theta=theta,
            original_length=self.original_length,
            truncate=self.truncate,
        )
        # lerp is exact where both ends are the same: a factor of 1 changes no bit.
        return inv_freq.lerp(inv_freq / self.factor, ramp.to(inv_freq.device)), self._sharpening()

    def _sharpening(self) -> float:
        if self.attention_factor is not None:
            return self.attention_factor
        if self.mscale and self.mscale_all_dim:
            return mscale(self.factor, self.mscale) / mscale(self.factor, self.mscale_all_dim)
        return mscale(self.factor)
