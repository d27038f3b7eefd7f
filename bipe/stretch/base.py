"""What a strategy of context extension is: other frequencies, and a factor on cosines and sines.

A model knows rotations by angles up to (largest position seen in training) x frequency. A strategy
slows the slow pairs down so that farther positions turn no further. Positions are whatever drives
the rotation: tokens in a flat encoding, segments under BiPE (original_length.py).

Here p is the index of a rotary pair, d = 2 x pairs the width of a head, theta the base of the
frequencies theta^(-2p/d), L0 the original length, n the length in use, s the factor.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor


class Stretch(ABC):
    """A strategy: a frozen, keyword-only dataclass with one method.

    dynamic: whether the result depends on the length in use.
    """

    dynamic: ClassVar[bool] = False

    @abstractmethod
    def frequencies(
        self,
        inv_freq: Float[Tensor, " pair"],
        *,
        theta: float,
        length: Int[Tensor, " ..."] | None = None,
    ) -> tuple[Float[Tensor, "... pair"], float | Tensor]:
        """New frequencies and the factor on both cosines and sines (`attention_factor`).

        inv_freq: theta^(-2p/d), fastest first, float64 radians a position. length: positions in
        use, for dynamic strategies; None: no more than the original length. With lengths of shape
        ``(...)`` frequencies have shape ``(..., pair)`` and the factor ``(..., 1)`` or none.
        """


def ntk_slowdown(
    inv_freq: Float[Tensor, " pair"], alpha: float | Tensor
) -> Float[Tensor, "... pair"]:
    """Factors that raising theta to theta * alpha^(d/(d-2)) puts on the frequencies.

    1 for the fastest pair, 1 / alpha for the slowest; the base itself cancels out.
    """
    pair = torch.arange(len(inv_freq), dtype=torch.float64, device=inv_freq.device)
    exponent = -pair / max(1, len(inv_freq) - 1)
    return torch.as_tensor(alpha, dtype=torch.float64, device=inv_freq.device) ** exponent


def excess(length: Int[Tensor, " ..."], original: int) -> Float[Tensor, "... 1"]:
    """n / L0, at least 1, with a place for the pairs."""
    return (length[..., None].double() / original).clamp(min=1.0)


def require_at_least(value: float | int, least: int, *, name: str) -> None:
    """Raise ValueError, naming the parameter, for a value below the least one; NaN too."""
    if not value >= least:
        raise ValueError(f"{name} must be at least {least}, was: {value}")
