"""Which pairs a strategy keeps and which it slows down: a ramp between two numbers of turns.

A pair turns L0 x frequency / (2 pi) times over the original length. Fast pairs saw whole turns in
training and are kept (ramp 0), slow ones are interpolated (ramp 1), those between are blended.
2309.00071, eq. 17 and 18, in the form of its code.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor

_NARROWEST = 0.001  # pairs: the width of a ramp whose ends meet


def turning_pair(turns: float, *, width: int, theta: float, original_length: int) -> float:
    """The index, not rounded, of the pair that turns so often over the original length."""
    return width * math.log(original_length / (turns * 2 * math.pi)) / (2 * math.log(theta))


def turns_ramp(
    *,
    fast: float,
    slow: float,
    pairs: int,
    theta: float,
    original_length: int,
    truncate: bool = True,
) -> Float[Tensor, " pair"]:
    """0 for pairs that turn at least `fast` times, 1 for those that turn at most `slow` times.

    truncate: round the ends of the ramp outwards to whole pairs. Where not even the fastest pair
    turned `slow` times (an original length of a few segments), all pairs but the first are slow;
    the reference has an inverted ramp there.
    """
    width = 2 * pairs
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
    at = torch.arange(pairs, dtype=torch.float32)
    return ((at - low) / (high - low)).clamp(0, 1).double()
