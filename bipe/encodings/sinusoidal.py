"""Sinusoids of absolute positions, combined with the embeddings (Vaswani et al., 1706.03762, 3.5).

    angle_i = id * theta^(-2i / width)

Codes differ in where features stand, and one family in the exponents:

    interleaved   sin_0 cos_0 sin_1 cos_1 ...   the paper, OpenNMT
    halves        sin_0 sin_1 ... cos_0 ...     Transformer-XL, DeepMind's randomised positions
    spread        as halves, but with the exponent -i / (width / 2 - 1), so that the slowest wave is
                  exactly theta ids / radian: tensor2tensor, fairseq; an odd width ends with a zero

fairseq counts positions from its padding id + 1.
"""

from typing import Literal, get_args

import torch
from jaxtyping import Float, Int
from torch import Tensor

from bipe.arguments import require
from bipe.encodings.learned import Absolute, Combine
from bipe.encodings.rope import inverse_frequencies

Layout = Literal["interleaved", "halves", "spread"]


class Sinusoidal(Absolute):
    """Sines and cosines of the id, times `scale` (norm sqrt(width / 2) without it)."""

    frequencies: Tensor

    def __init__(
        self,
        *,
        width: int,
        theta: float = 10000.0,
        scale: float = 1.0,
        layout: Layout = "interleaved",
        combine: Combine = "add",
    ) -> None:
        super().__init__(combine=combine)
        require(layout in get_args(Layout), ", ".join(get_args(Layout)), layout=layout)
        if layout == "spread":
            require(width >= 4, "at least 4 in the layout 'spread'", width=width)
            waves = torch.arange(width // 2, dtype=torch.float64)
            frequencies = theta ** (-waves / (width // 2 - 1))
        else:
            why = "each wave has a sine and a cosine; layout=spread ends with a zero"
            require(width % 2 == 0, f"even ({why})", width=width)
            frequencies = inverse_frequencies(width=width, theta=theta)
        self.constant("frequencies", frequencies)
        self.scale, self.layout, self.spare = scale, layout, width % 2

    def vectors(self, ids: Int[Tensor, "batch time"]) -> Float[Tensor, "batch time width"]:
        angles = ids[..., None].double() * self.frequencies
        if self.layout == "interleaved":
            return self.scale * torch.stack((angles.sin(), angles.cos()), -1).flatten(-2)
        waves = torch.cat((angles.sin(), angles.cos()), -1)
        return self.scale * torch.nn.functional.pad(waves, (0, self.spare))
