"""Strategies that lower rotary frequencies, so that larger positions stay within trained angles.

A model has only seen angles up to (largest position in training) x frequency. Positions are in the
unit of the encoding: tokens if it is flat, segments under BiPE.

Here p is the index of a rotary pair, d = 2 x pairs the width of a head, theta the base of the
frequencies theta^(-2p/d), L0 the original length, n the length in use, s the factor. A factor of 1
changes nothing.

By parts (2309.00071, eq. 17 and 18, as in its code): a pair turns L0 x frequency / (2 pi) times
over the original length; fast pairs are kept (ramp 0), slow ones interpolated (1), others blended.
"""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from bipe.arguments import at_least, require
from bipe.encodings.rope import InvFreq, Length, Stretch, Stretched

_NARROWEST = 0.001  # pairs: the width of a ramp whose ends meet, so that none is divided by 0


@dataclass(frozen=True, kw_only=True)
class ByFactor(Stretch):
    """A strategy with a factor s, at least 1."""

    factor: float = field(metadata=at_least(1))


@dataclass(frozen=True, kw_only=True)
class ByLength(ByFactor):
    """A strategy with a factor and an original length L0, in positions."""

    original_length: int = field(metadata=at_least(1))


@dataclass(frozen=True, kw_only=True)
class Linear(ByFactor):
    """Position interpolation (PI; Chen et al., 2306.15595): all frequencies divided by s."""

    def frequencies(self, inv_freq: InvFreq, *, theta: float, length: Length = None) -> Stretched:
        return inv_freq / self.factor, 1.0


@dataclass(frozen=True, kw_only=True)
class NTKAware(ByFactor):
    """A larger theta: theta * s^(d / (d - 2)) (bloc97, 2023; 2309.00071, definition 1)."""

    def frequencies(self, inv_freq: InvFreq, *, theta: float, length: Length = None) -> Stretched:
        return inv_freq * ntk_slowdown(inv_freq, self.factor), 1.0


@dataclass(frozen=True, kw_only=True)
class DynamicNTK(ByLength):
    """NTK-aware scaling that grows with the length (emozilla, 2023; 2309.00071, 3.3).

        alpha = s * n / L0 - (s - 1)  beyond the original length, 1 up to it

    This is transformers' rope type "dynamic", but there a factor of 1 still grows.
    """

    dynamic: ClassVar[bool] = True

    def frequencies(self, inv_freq: InvFreq, *, theta: float, length: Length = None) -> Stretched:
        if length is None or self.factor == 1:
            return inv_freq, 1.0
        # Exactly 1 up to the original length, which s n / L0 - (s - 1) is not in floating point.
        alpha = 1 + self.factor * (excess(length, self.original_length) - 1)
        return inv_freq * ntk_slowdown(inv_freq, alpha), 1.0


@dataclass(frozen=True, kw_only=True)
class NTKMixed(ByFactor):
    """Every pair slowed, the slow ones more (NTK-RoPE-mixed; Su, kexue.fm/archives/9706).

        frequency_p *= exp(-a (p + 1)^b),   a = ln s / (d / 2)^b

    The slowest pair is slowed by exactly s. exponent: b; 0 is position interpolation.
    """

    exponent: float = field(default=0.75, metadata=at_least(0))

    def frequencies(self, inv_freq: InvFreq, *, theta: float, length: Length = None) -> Stretched:
        pairs = len(inv_freq)
        index = torch.arange(1, pairs + 1, dtype=torch.float64, device=inv_freq.device)
        slowdown = (-math.log(self.factor) * (index / pairs) ** self.exponent).exp()
        return inv_freq * slowdown, 1.0


@dataclass(frozen=True, kw_only=True)
class Llama3(ByLength):
    """The scaling of Llama 3.1 (transformers' rope type "llama3"): a ramp over wavelengths.

    Pairs with wavelengths below L0 / high_freq_factor are kept, above L0 / low_freq_factor divided
    by s, and between blended linearly in the number of turns over the original length.
    """

    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0

    def __post_init__(self) -> None:
        super().__post_init__()
        low, high = self.low_freq_factor, self.high_freq_factor
        require(0 < low < high, f"above 0 and below high_freq_factor ({high})", low_freq_factor=low)

    def frequencies(self, inv_freq: InvFreq, *, theta: float, length: Length = None) -> Stretched:
        turns = self.original_length * inv_freq / (2 * math.pi)
        kept = (turns - self.low_freq_factor) / (self.high_freq_factor - self.low_freq_factor)
        return (inv_freq / self.factor).lerp(inv_freq, kept.clamp(0, 1)), 1.0


@dataclass(frozen=True, kw_only=True)
class LongRoPE(ByLength):
    """A divisor per pair, found by search (Ding et al., 2402.13753; rope type "longrope").

    short_factor, long_factor: divisors of the frequencies, fastest first, up to the original length
        and beyond it. factor: the new length over the original one; by default it sets the
        attention factor to sqrt(1 + ln s / ln L0).
    """

    dynamic: ClassVar[bool] = True

    original_length: int = field(metadata=at_least(2))
    short_factor: Sequence[float]
    long_factor: Sequence[float]
    attention_factor: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("short_factor", "long_factor"):
            divisors = getattr(self, name)
            require(all(divisor > 0 for divisor in divisors), "numbers above 0", **{name: divisors})

    def frequencies(self, inv_freq: InvFreq, *, theta: float, length: Length = None) -> Stretched:
        sharpening = self.attention_factor
        if sharpening is None:
            sharpening = math.sqrt(1 + math.log(self.factor) / math.log(self.original_length))
        short = inv_freq / self._divisors("short_factor", inv_freq)
        long = inv_freq / self._divisors("long_factor", inv_freq)
        if length is None:
            return short, sharpening
        return torch.where(length[..., None] > self.original_length, long, short), sharpening

    def _divisors(self, name: str, inv_freq: Tensor) -> Tensor:
        divisors = getattr(self, name)
        if len(divisors) != len(inv_freq):
            raise ValueError(
                f"{name} must have one number per rotary pair, {len(inv_freq)}, was: "
                f"{len(divisors)}"
            )
        return inv_freq.new_tensor(list(divisors))


@dataclass(frozen=True, kw_only=True)
class DroPE(Stretch):
    """No rotation (Gelberg et al., 2512.12167).

    Rotations help training but hurt beyond its length. Dropping them after pre-training takes a
    short recalibration at the same row length: `bipe extend stretch=drope`. attention_factor: on
    both queries and keys; above 1 it sharpens attention in long documents.
    """

    attention_factor: float = 1.0

    def __post_init__(self) -> None:
        require(self.attention_factor > 0, "above 0", attention_factor=self.attention_factor)

    def frequencies(self, inv_freq: InvFreq, *, theta: float, length: Length = None) -> Stretched:
        return torch.zeros_like(inv_freq), self.attention_factor


@dataclass(frozen=True, kw_only=True)
class _Ramped(Stretch):
    """Keeps pairs of more than `beta_fast` turns, interpolates those below `beta_slow`."""

    original_length: int = field(metadata=at_least(1))
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    truncate: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        slow, fast = self.beta_slow, self.beta_fast
        require(0 < slow <= fast, f"above 0 and at most beta_fast ({fast})", beta_slow=slow)

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

    Parameters are named as in transformers' rope type "yarn". attention_factor: on cosines and
    sines, so scores grow by its square (eq. 22); None: 0.1 ln s + 1. mscale, mscale_all_dim:
    weights of the logarithm (DeepSeek); the attention factor is then the ratio of both formulas.
    One without the other is ignored, as in transformers.
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
    """YaRN whose factor is length in use / original length, 1 to `factor` (2309.00071, 3.3)."""

    dynamic: ClassVar[bool] = True

    factor: float | None = field(default=None, metadata=at_least(1))

    def frequencies(self, inv_freq: InvFreq, *, theta: float, length: Length = None) -> Stretched:
        if length is None:
            return inv_freq, 1.0
        factor = excess(length, self.original_length).clamp(max=self.factor or math.inf)
        return self.slowed(inv_freq, factor, theta=theta), 0.1 * factor.log() + 1.0


@dataclass(frozen=True, kw_only=True)
class NTKByParts(ByLength):
    """An earlier form (bloc97, 2023): PI for slow pairs, NTK-aware between, fast ones kept."""

    def frequencies(self, inv_freq: InvFreq, *, theta: float, length: Length = None) -> Stretched:
        ramp = functools.partial(
            turns_ramp, inv_freq, theta=theta, original_length=self.original_length
        )
        slowed = inv_freq * ntk_slowdown(inv_freq, self.factor)
        # Turns over the original length that the author found on LLaMA.
        slowed = slowed.lerp(inv_freq / self.factor, ramp(fast=1.25, slow=0.75))
        return inv_freq.lerp(slowed, ramp(fast=16.0, slow=2.0)), 1.0


def ntk_slowdown(inv_freq: InvFreq, alpha: float | Tensor) -> Float[Tensor, "... pair"]:
    """Return the effect of theta * alpha^(d / (d - 2)) on frequencies: 1 to 1 / alpha."""
    pair = torch.arange(len(inv_freq), dtype=torch.float64, device=inv_freq.device)
    exponent = -pair / max(1, len(inv_freq) - 1)
    return torch.as_tensor(alpha, dtype=torch.float64, device=inv_freq.device) ** exponent


def excess(length: Int[Tensor, " ..."], original: int) -> Float[Tensor, "... 1"]:
    """Return n / L0, at least 1, with a last axis for the pairs."""
    return (length[..., None].double() / original).clamp(min=1.0)


def turns_ramp(
    inv_freq: InvFreq,
    *,
    fast: float,
    slow: float,
    theta: float,
    original_length: int,
    truncate: bool = True,
) -> InvFreq:
    """Return 0 for pairs that turn at least `fast` times, 1 for at most `slow` times.

    truncate: round the ends of the ramp outwards to whole pairs. If not even the first pair turns
    `slow` times (a few segments), all others are slow; the reference has an inverted ramp there.
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
    """Return the index, not rounded, of the pair that turns so often in the original length."""
    return width * math.log(original_length / (turns * 2 * math.pi)) / (2 * math.log(theta))


def _mscale(factor: float, weight: float = 1.0) -> float:
    """Return 0.1 weight ln s + 1, or 1 for a factor of at most 1."""
    return 1.0 if factor <= 1 else 0.1 * weight * math.log(factor) + 1.0
