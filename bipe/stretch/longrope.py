"""LongRoPE (Ding et al., 2402.13753): a divisor of its own for each pair, found by search.

One list for lengths up to the original one, another beyond it: transformers' rope type "longrope".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from bipe.stretch.base import Stretch, require_at_least


@dataclass(frozen=True, kw_only=True)
class LongRoPE(Stretch):
    """short_factor, long_factor: divisors of the frequencies, fastest first, one for each pair.

    factor: s, at least 1: the new length over the original one; sets the attention factor
        sqrt(1 + ln s / ln L0), unless `attention_factor` is given.
    original_length: L0, at least 2 positions; beyond it the long list is used.
    """

    dynamic: ClassVar[bool] = True

    factor: float
    original_length: int
    short_factor: Sequence[float]
    long_factor: Sequence[float]
    attention_factor: float | None = None

    def __post_init__(self) -> None:
        require_at_least(self.factor, 1, name="factor")
        require_at_least(self.original_length, 2, name="original_length")
        for name in ("short_factor", "long_factor"):
            if not all(each > 0 for each in getattr(self, name)):
                raise ValueError(f"{name} must hold numbers above 0, was: {getattr(self, name)}")

    def frequencies(
        self,
        inv_freq: Float[Tensor, " pair"],
        *,
        theta: float,
        length: Int[Tensor, " ..."] | None = None,
    ) -> tuple[Float[Tensor, "... pair"], float]:
        short = inv_freq / self._divisors("short_factor", inv_freq)
        long = inv_freq / self._divisors("long_factor", inv_freq)
        if length is None:
            return short, self._sharpening()
        beyond = length[..., None] > self.original_length
        return torch.where(beyond, long, short), self._sharpening()

    def _divisors(self, name: str, inv_freq: Tensor) -> Tensor:
        divisors = getattr(self, name)
        if len(divisors) != len(inv_freq):
            raise ValueError(
                f"{name} must hold a number for each rotary pair, {len(inv_freq)}, was of length "
                f"{len(divisors)}"
            )
        return inv_freq.new_tensor(list(divisors))

    def _sharpening(self) -> float:
        if self.attention_factor is not None:
            return self.attention_factor
        return math.sqrt(1 + math.log(self.factor) / math.log(self.original_length))
