"""NTK-RoPE-mixed (Su, kexue.fm/archives/9706): every pair slowed, the slow ones more.

    frequency_p *= exp(-a (p + 1)^b),   a = ln s / (d / 2)^b,   b = 0.75

so that the slowest pair is slowed by s exactly. It needs no original length.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from bipe.stretch.base import Stretch, require_at_least


@dataclass(frozen=True, kw_only=True)
class NTKMixed(Stretch):
    """factor: s, at least 1. exponent: b; 0 is position interpolation."""

    factor: float
    exponent: float = 0.75

    def __post_init__(self) -> None:
        require_at_least(self.factor, 1, name="factor")
        require_at_least(self.exponent, 0, name="exponent")

    def frequencies(
        self,
        inv_freq: Float[Tensor, " pair"],
        *,
        theta: float,
        length: Int[Tensor, " ..."] | None = None,
    ) -> tuple[Float[Tensor, " pair"], float]:
        pairs = len(inv_freq)
        index = torch.arange(1, pairs + 1, dtype=torch.float64, device=inv_freq.device)
        slowdown = (-math.log(self.factor) * (index / pairs) ** self.exponent).exp()
        return inv_freq * slowdown, 1.0
