"""Rotary position embedding (RoPE; Su et al., RoFormer, 2104.09864, eq. 34).

    score(i, j) = (R_id(i) q_i) . (R_id(j) k_j),   angle of pair p = id * theta^(-2p / head_width)

With `Bilevel(inter=RoPE)` the ids are segment indices: BiPE-RoPE (2401.16421, eq. 3). No table of
positions, hence no length to run out of; context extension of the frequencies lives in stretch/.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from bipe.encodings.base import Encoding
from bipe.rotation import PlaneRotation


def inverse_frequencies(*, width: int, theta: float) -> Float[Tensor, " pair"]:
    """theta^(-2p / width) for p = 0 .. width / 2 - 1, in float64 radians a position."""
    return theta ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)


class RoPE(Encoding):
    """Turn queries and keys by angles proportional to their ids.

    interleaved: which features pair up, see `PlaneRotation`; LLaMA checkpoints pair halves.
    """

    frequencies: Tensor

    def __init__(
        self, *, head_width: int, theta: float = 10000.0, interleaved: bool = False
    ) -> None:
        super().__init__()
        if head_width % 2:
            raise ValueError(f"head_width must be even, was: {head_width}")
        self.constant("frequencies", inverse_frequencies(width=head_width, theta=theta))
        self.interleaved = interleaved

    def rotation(self, ids: Int[Tensor, "batch time"]) -> PlaneRotation:
        angles = ids[..., None].double() * self.frequencies  # [b, t, d/2]
        return PlaneRotation(cos=angles.cos(), sin=angles.sin(), interleaved=self.interleaved)
