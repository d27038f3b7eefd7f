"""The scaling of Llama 3.1 (transformers' rope type "llama3"): a ramp over wavelengths.

Pairs whose wavelength is below L0 / high_freq_factor are kept, above L0 / low_freq_factor divided
by the factor; between, blended linearly in the number of turns over the original length.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from jaxtyping import Float, Int
from torch import Tensor

from bipe.stretch.base import Stretch, require_at_least


@dataclass(frozen=True, kw_only=True)
class Llama3(Stretch):
    """factor: at least 1. original_length: L0, in positions.

    low_freq_factor, high_freq_factor: turns over the original length.
    """

    factor: float
    original_length: int
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0

    def __post_init__(self) -> None:
        require_at_least(self.factor, 1, name="factor")
        require_at_least(self.original_length, 1, name="original_length")
        if not 0 < self.low_freq_factor < self.high_freq_factor:
            raise ValueError(
                f"low_freq_factor must be above 0 and below high_freq_factor "
                f"({self.high_freq_factor}), was: {self.low_freq_factor}"
            )

    def frequencies(
        self,
        inv_freq: Float[Tensor, " pair"],
        *,
        theta: float,
        length: Int[Tensor, " ..."] | None = None,
    ) -> tuple[Float[Tensor, " pair"], float]:
        turns = self.original_length * inv_freq / (2 * math.pi)
        kept = (turns - self.low_freq_factor) / (self.high_freq_factor - self.low_freq_factor)
        return (inv_freq / self.factor).lerp(inv_freq, kept.clamp(0, 1)), 1.0
