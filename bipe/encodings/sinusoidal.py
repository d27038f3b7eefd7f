"""Sinusoids of absolute positions, added to the embeddings (Vaswani et al., 1706.03762, 3.5).

angle_i = id * theta^(-2i / width);  feature 2i = sin angle_i,  feature 2i + 1 = cos angle_i
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from bipe.encodings.base import Encoding
from bipe.encodings.rope import inverse_frequencies


class Sinusoidal(Encoding):
    """Adds sines and cosines of the id, times `scale`, to the embedding (norm sqrt(width / 2))."""

    relative = False
    frequencies: Tensor

    def __init__(self, *, width: int, theta: float = 10000.0, scale: float = 1.0) -> None:
        super().__init__()
        if width % 2:
            raise ValueError(f"width must be even, was: {width}")
        self.constant("frequencies", inverse_frequencies(width=width, theta=theta))
        self.scale = scale

    def embed(
        self, x: Float[Tensor, "batch time width"], ids: Int[Tensor, "batch time"]
    ) -> Float[Tensor, "batch time width"]:
        angles = ids[..., None].double() * self.frequencies
        waves = torch.stack((angles.sin(), angles.cos()), -1).flatten(-2)
        return x + (self.scale * waves).to(x.dtype)
