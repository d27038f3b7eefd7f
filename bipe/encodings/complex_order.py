"""Embeddings as complex numbers that rotate with the position (Wang et al., 1912.12333).

    z_j(id) = amplitude_j exp(i (frequency_j id + phase_j)),   j < width / 2

A word's amplitude and phase are its embedding: the first half of the features is the real part of
z, the second the imaginary part. A real decoder goes on with both halves as features of their own.
Frequencies are learned, from those of sinusoids on, and all words share them, which the paper
offers too. Its code learns one per word and feature, from word index x 10000^(-2j / d) on, with a
phase of zero: an encoding cannot do that, since it sees embeddings and not words; `turned` can.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from bipe.arguments import require
from bipe.encodings.base import Encoding
from bipe.encodings.rope import inverse_frequencies


def turned(
    x: Float[Tensor, "*batch width"], angles: Float[Tensor, "*batch half"]
) -> Float[Tensor, "*batch width"]:
    """Turn complex numbers, real parts before imaginary ones, by angles in radians."""
    real, imaginary = x.chunk(2, -1)
    cos, sin = angles.cos(), angles.sin()
    return torch.cat((real * cos - imaginary * sin, real * sin + imaginary * cos), -1).to(x.dtype)


class ComplexOrder(Encoding):
    """Rotates pairs of features of the embedding by learned frequencies, in radians per id."""

    relative = False

    def __init__(self, *, width: int, theta: float = 10000.0) -> None:
        super().__init__()
        require(width % 2 == 0, "even", width=width)
        # A vector: it keeps its values at the start of training, and does not decay.
        self.frequencies = nn.Parameter(inverse_frequencies(width=width, theta=theta).float())

    def embed(
        self, x: Float[Tensor, "batch time width"], ids: Int[Tensor, "batch time"]
    ) -> Float[Tensor, "batch time width"]:
        return turned(x, ids[..., None].double() * self.frequencies.double())
