"""Frequencies by parts: pairs that turned often in training are kept, slow ones interpolated.

A pair turns L0 x frequency / (2 pi) times over the original length. Fast pairs saw whole turns in
training and are kept (ramp 0), slow ones are interpolated (ramp 1), those between are blended:
2309.00071, eq. 17 and 18, in the form of its code. Letters as in frequencies.py.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from bipe.build import at_least
from bipe.encodings.rope import InvFreq, Length, Stretch, Stretched
from bipe.extension.frequencies import ByLength, excess, ntk_slowdown

_NARROWEST = 0.001  # pairs: the width of a ramp whose ends meet


@dataclass(frozen=True, kw_only=True)
class _Ramped(Stretch):
    """What YaRN and its dynamic form share.

    beta_fast, beta_slow: turns over the original length; pairs with more than the one are kept,
        with fewer than the other interpolated.
    truncate: see `turns_ramp`.
    """

    original_length: int = field(metadata=at_least(1))
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    truncate: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.beta_slow <= self.beta_fast:
            raise ValueError(
                f"beta_slow must be above 0 and at most beta_fast ({self.beta_fast}), was: "
                f"{self.beta_slow}"
            )

    def slowed(self, inv_freq: InvFreq, factor: float | Tensor, *, theta: float) -> Tensor:
        """Return (1 - ramp) frequency + ramp frequency / s (eq. 20)."""
        ramp = turns_ramp(
            inv_freq,
            fast=self.beta_fast,
            slow=self.beta_slow,
            theta=theta,
            original_length=self.original_length,
            truncate=self.truncate,
        )
        # lerp is exact where both ends are the same: a factor of 1 changes no bit.
        return inv_freq.lerp(inv_freq / factor, ramp)


@dataclass(frozen=True, kw_only=True)
class YaRN(_Ramped):
    """Slow pairs interpolated, fast ones kept, attention sharpened (Peng et al., 2309.00071).

    The attention factor is 0.1 ln s + 1, on cosines and sines: scores grow by its square (eq. 22).
    The parameters have their names in transformers, where this is the rope type "yarn".

    factor: s, at least 1. attention_factor: instead of the formula above.
    mscale, mscale_all_dim: weights of the logarithm (DeepSeek): the factor is the ratio of the two
        formulas; one alone is ignored, as in transformers.
    """

    factor: float = field(metadata=at_least(1))
    attention_factor: float | None = None
    mscale: float | None = None
    mscale_all_dim: float | None = None

    def frequencies(self, inv_freq: InvFreq, *, theta: float, length: Length = None) -> Stretched:
        return self.slowed(inv_freq, self.factor, theta=theta), self._sharpening()

    def _sharpening(self) -> float:
        if self.attention_factor is not None:
            return self.attention_factor
        if self.mscale and self.mscale_all_dim:
            return _mscale(self.factor, self.mscale) / _mscale(self.factor, self.mscale_all_dim)
        return _mscale(self.factor)


@dataclass(frozen=True, kw_only=True)
class DynamicYaRN(_Ramped):
    """YaRN with the length in use over the original one as its factor (2309.00071, 3.3).

    Up to the original length nothing changes. factor: the largest that is used; None for any.
    """

    dynamic: ClassVar[bool] = True

    factor: float | None = field(default=None, metadata=at_least(1))

    def frequencies(self, inv_freq: InvFreq, *, theta: float, length: Length = None) -> Stretched:
        if length is None:
            return inv_freq, 1.0
        factor = excess(length, self.original_length).clamp(max=self.factor or math.inf)
        return self.slowed(inv_freq, factor, theta=theta), 0.1 * factor.log() + 1.0


@dataclass(frozen=True, kw_only=True)
class NTKByParts(ByLength):
    """The first form of these (bloc97, 2023): PI for slow pairs, NTK between, fast ones kept.

    Two ramps: one between PI and NTK-aware, one between that and the old frequencies.
    """

    def frequencies(self, inv_freq: InvFreq, *, theta: float, length: Length = None) -> Stretched:
        ramp = functools.partial(
            turns_ramp, inv_freq, theta=theta, original_length=self.original_length
        )
        slowed = inv_freq * ntk_slowdown(inv_freq, self.factor)
        # Turns over the original length, found by its author on LLaMA.
        slowed = slowed.lerp(inv_freq / self.factor, ramp(fast=1.25, slow=0.75))
        return inv_freq.lerp(slowed, ramp(fast=16.0, slow=2.0)), 1.0


def turns_ramp(
    inv_freq: InvFreq,
    *,
    fast: float,
    slow: float,
    theta: float,
    original_length: int,
    truncate: bool = True,
) -> InvFreq:
    """Return 0 for pairs that turn at least `fast` times, 1 for those of at most `slow` turns.

    truncate: round the ends of the ramp outwards to whole pairs. Where not even the fastest pair
    turned `slow` times (an original length of a few segments), all pairs but the first are slow;
    the reference has an inverted ramp there.
    """
    width = 2 * len(inv_freq)
    low, high = (
        turning_pair(turns, width=width, theta=theta, original_length=original_length)
        for turns in (fast, slow)
    )
    if truncate:
        low, high = math.floor(low), math.ceil(high)
    # width - 1, although pairs end at width / 2 - 1: as in both references.
    low, high = max(low, 0), min(high, width - 1)
    high = max(high, low + _NARROWEST)
    # In float32 as in both references: near 1 the factor magnifies the last bit of the ramp.
    at = torch.arange(len(inv_freq), dtype=torch.float32)
    return ((at - low) / (high - low)).clamp(0, 1).double().to(inv_freq.device)


def turning_pair(turns: float, *, width: int, theta: float, original_length: int) -> float:
    """Return the index, not rounded, of the pair that turns so often over the original length."""
    return width * math.log(original_length / (turns * 2 * math.pi)) / (2 * math.log(theta))


def _mscale(factor: float, weight: float = 1.0) -> float:
    """Return 0.1 weight ln s + 1, and 1 for a factor of at most 1."""
    return 1.0 if factor <= 1 else 0.1 * weight * math.log(factor) + 1.0
