"""Rotary position embedding (RoPE; Su et al., RoFormer, 2104.09864, eq. 34).

    score(i, j) = (R_id(i) q_i) . (R_id(j) k_j),   angle of pair p = id * theta^(-2p / head_width)

With `Bilevel(inter=RoPE)` the ids are segment indices: BiPE-RoPE (2401.16421, eq. 3). No table of
positions, hence no length to run out of; context extension of the frequencies lives in stretch/.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from bipe.encodings.base import Encoding
from bipe.far.base import Ids
from bipe.rotation import PlaneRotation
from bipe.stretch.base import Stretch


def inverse_frequencies(*, width: int, theta: float) -> Float[Tensor, " pair"]:
    """theta^(-2p / width) for p = 0 .. width / 2 - 1, in float64 radians a position."""
    return theta ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)


class RoPE(Encoding):
    """Turn queries and keys by angles proportional to their ids.

    interleaved: which features pair up, see `PlaneRotation`; LLaMA checkpoints pair halves.
    stretch: what was done to the frequencies for positions beyond those of training. A dynamic one
        counts with the ids that a document has: each row of packed documents is turned as its
        documents alone would be, and a cache needs their number beforehand (`Reach`).
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
            # Of a dynamic one to try it: what it refuses, it refuses now.
            slowed, factor = stretch.frequencies(frequencies, theta=theta)
            if not stretch.dynamic:
                frequencies, self.attention_factor = slowed, factor
        self.constant("frequencies", frequencies)
        self.interleaved, self.theta, self.stretch = interleaved, theta, stretch

    def rotation(
        self,
        ids: Ids,
        *,
        length: Int[Tensor, " batch #time"] | None = None,
    ) -> PlaneRotation:
        """See `Encoding.rotation`. length: ids in use, by default the largest of the row + 1."""
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
