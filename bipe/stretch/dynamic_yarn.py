"""Dynamic YaRN (the YaRN release): YaRN whose factor is the length in use over the original one.

Up to the original length nothing changes; beyond it the factor is n / L0 (2309.00071, 3.3).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from jaxtyping import Float, Int
from torch import Tensor

from bipe.stretch.base import Stretch, excess, require_at_least
from bipe.stretch.ramp import turns_ramp
from bipe.stretch.yarn import YaRN


@dataclass(frozen=True, kw_only=True)
class DynamicYaRN(Stretch):
    """original_length: L0, in positions. factor: the largest that is used; None for any.

    beta_fast, beta_slow, truncate: see `YaRN`.
    """

    dynamic: ClassVar[bool] = True

    original_length: int
    factor: float | None = None
    beta_fast: float = YaRN.beta_fast
    beta_slow: float = YaRN.beta_slow
    truncate: bool = YaRN.truncate

    def __post_init__(self) -> None:
        require_at_least(self.original_length, 1, name="original_length")
        if self.factor is not None:
            require_at_least(self.factor, 1, name="factor")

    def frequencies(
        self,
        inv_freq: Float[Tensor, " pair"],
        *,
        theta: float,
        length: Int[Tensor, " ..."] | None = None,
    ) -> tuple[Float[Tensor, "... pair"], float | Tensor]:
        if length is None:
            return inv_freq, 1.0
        factor = excess(length, self.original_length).clamp(max=self.factor or math.inf)
        ramp = turns_ramp(
            fast=self.beta_fast,
            slow=self.beta_slow,
            pairs=len(inv_freq),
            theta=theta,
            original_length=self.original_length,
            truncate=self.truncate,
        )
        slowed = inv_freq.lerp(inv_freq / factor, ramp.to(inv_freq.device))
        return slowed, 0.1 * factor.log() + 1.0
