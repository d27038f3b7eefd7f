"""Rotary position embedding (RoPE; Su et al., RoFormer, 2104.09864, eq. 34).

    score(i, j) = (R_id(i) q_i) . (R_id(j) k_j),   angle of pair p = id * theta^(-2p / head_width)

`Bilevel(inter=RoPE)`, over segment indices, is BiPE-RoPE (2401.16421, eq. 3). bipe/extension has
the strategies that change the frequencies for longer contexts.
"""

from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from bipe.build import Bounded
from bipe.encodings.base import Encoding
from bipe.encodings.far import Ids
from bipe.rotation import PlaneRotation

# theta^(-2p / head_width), fastest first, float64 radians per position.
InvFreq = Float[Tensor, " pair"]
Length = Int[Tensor, " ..."] | None
Stretched = tuple[Float[Tensor, "... pair"], float | Tensor]


class Stretch(Bounded, ABC):
    """A frozen dataclass that changes rotary frequencies; if `dynamic`, according to the length."""

    dynamic: ClassVar[bool] = False

    @abstractmethod
    def frequencies(self, inv_freq: InvFreq, *, theta: float, length: Length = None) -> Stretched:
        """Return new frequencies and a factor on both cosines and sines.

        length: positions in use, for dynamic strategies; None: at most the original length. Shape
        ``(...)`` gives frequencies ``(..., pair)`` and a factor ``(..., 1)`` or a number.
        """


def inverse_frequencies(*, width: int, theta: float) -> InvFreq:
    """Return theta^(-2p / width) for p = 0 .. width / 2 - 1, in float64 radians per position."""
    return theta ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)


class RoPE(Encoding):
    """Rotates queries and keys by angles proportional to their ids.

    interleaved: which features form pairs, see `PlaneRotation`; halves in LLaMA checkpoints.
    stretch: changes the frequencies. A dynamic one depends on the number of ids per document, which
        a cache must know beforehand (`Lengths`); in packed rows each document has its own.
    """

    frequencies: Tensor

    def __init__(
        self,
        *,
        head_width: int,
        theta: float = 10000.0,
        interleaved: bool = False,
        stretch: Stretch | None = None,
    ) -> None:
        super().__init__()
        if head_width % 2:
            raise ValueError(f"head_width must be even, was: {head_width}")
        frequencies = inverse_frequencies(width=head_width, theta=theta)
        self.attention_factor: float | Tensor = 1.0
        self.counts_length = stretch is not None and stretch.dynamic
        if stretch is not None:
            # Call a dynamic one as well, so that it raises here for what it cannot take.
            slowed, factor = stretch.frequencies(frequencies, theta=theta)
            if not stretch.dynamic:
                frequencies, self.attention_factor = slowed, factor
        self.constant("frequencies", frequencies)
        self.interleaved, self.theta, self.stretch = interleaved, theta, stretch

    def rotation(
        self, ids: Ids, *, length: Int[Tensor, " batch #time"] | None = None
    ) -> PlaneRotation:
        """Return the rotation at `ids`. length: ids in use, by default the row's largest + 1."""
        frequencies, factor = self.frequencies, self.attention_factor
        if self.stretch is not None and self.stretch.dynamic:
            length = ids.amax(-1, keepdim=True) + 1 if length is None else length
            frequencies, factor = self.stretch.frequencies(
                frequencies, theta=self.theta, length=length
            )
        angles = ids[..., None].double() * frequencies  # [b, t, d/2]
        cos, sin = angles.cos(), angles.sin()
        if self.stretch is not None:
            cos, sin = cos * factor, sin * factor
        return PlaneRotation(cos=cos, sin=sin, interleaved=self.interleaved)
