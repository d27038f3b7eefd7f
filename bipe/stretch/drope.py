"""DroPE: no rotation any more (Gelberg et al., 2512.12167).

Rotations help a model to learn and hinder it beyond the length that it learned at. Dropped after
pre-training, they ask for a short recalibration at the same row length: `bipe extend
stretch=drope`. Under BiPE the intra encoding stays, and tells places inside a segment.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from bipe.stretch.base import Stretch


@dataclass(frozen=True, kw_only=True)
class DroPE(Stretch):
    """Every angle is 0.

    attention_factor: on both queries and keys, above 1 for sharper attention in long documents;
    its square is what scores are multiplied by.
    """

    attention_factor: float = 1.0

    def __post_init__(self) -> None:
        if not self.attention_factor > 0:
            raise ValueError(f"attention_factor must be above 0, was: {self.attention_factor}")

    def frequencies(
        self,
        inv_freq: Float[Tensor, " pair"],
        *,
        theta: float,
        length: Int[Tensor, " ..."] | None = None,
    ) -> tuple[Float[Tensor, " pair"], float]:
        return torch.zeros_like(inv_freq), self.attention_factor
