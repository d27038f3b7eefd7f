"""Attention with linear biases (ALiBi; Press et al., 2108.12409).

    score(i, j) = q_i . k_j / sqrt(head_width) - slope_h * (id(i) - id(j))

`Bilevel(inter=ALiBi(multiplier=96))`, over segment indices, is BiPE-ALiBi as released (2401.16421,
eq. 4; the multiplier is in its code). `Bilevel(intra=ALiBi(), inter=ALiBi(multiplier=m))` counts a
segment as m tokens, whatever its length.
"""

import torch
from torch import Tensor

from bipe.arguments import require_at_least
from bipe.bias import KeyIds, LinearBias, QueryIds
from bipe.encodings.base import Encoding


def alibi_slopes(n_head: int) -> list[float]:
    """Return the slopes of the ALiBi release: 2^(-8i/c) for i = 1..c, c a power of two.

    Other head counts: c is the largest power below; then every other slope of 2c heads follows.
    """
    power = 1 << (n_head.bit_length() - 1)
    slopes = [2.0 ** (-8 * i / power) for i in range(1, power + 1)]
    between = [2.0 ** (-8 * i / (2 * power)) for i in range(1, 2 * power, 2)]
    return (slopes + between)[:n_head]


class ALiBi(Encoding):
    """A penalty on distance, with one slope per head. multiplier: factor on all slopes."""

    slopes: Tensor
    either_sign = True

    def __init__(self, *, n_head: int, multiplier: float = 1.0) -> None:
        super().__init__()
        require_at_least(1, n_head=n_head)
        slopes = torch.tensor(alibi_slopes(n_head), dtype=torch.float64) * multiplier
        self.constant("slopes", slopes)

    def bias(self, q_ids: QueryIds, k_ids: KeyIds) -> LinearBias:
        return LinearBias(slopes=self.slopes, q_ids=q_ids, k_ids=k_ids)
