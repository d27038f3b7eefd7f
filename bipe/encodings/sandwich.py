"""The inner products of sinusoids as a bias (Sandwich; Chi et al., 2212.10356, eq. 4).

    score + (sum_{i=1}^{d/2} cos((id(i) - id(j)) / 10000^(2i/d)) - d/2) * H / (8 h),   h = 1 .. H

Nothing is trained. The sum begins at i = 1; d need not be the width of a head (the paper: 128); the
constant -d/2 changes no softmax. Beyond a few hundred ids the cosines average out: a window.
"""

import torch
from torch import Tensor

from bipe.arguments import require
from bipe.bias import DistanceBias, KeyIds, QueryIds
from bipe.encodings.base import Encoding

_WIDEST = 1 << 16


class Sandwich(Encoding):
    """A fixed penalty that grows with the logarithm of the distance. width: d, even."""

    frequencies: Tensor
    scales: Tensor

    def __init__(self, *, n_head: int, width: int = 128, theta: float = 10000.0) -> None:
        super().__init__()
        sound = width % 2 == 0 and 2 <= width <= _WIDEST
        require(sound, f"even and from 2 to {_WIDEST}", width=width)
        pairs = torch.arange(1, width // 2 + 1, dtype=torch.float64)
        self.constant("frequencies", theta ** (-2 * pairs / width))
        heads = torch.arange(1, n_head + 1, dtype=torch.float64)
        self.constant("scales", n_head / (8 * heads))

    def bias(self, q_ids: QueryIds, k_ids: KeyIds) -> DistanceBias:
        return DistanceBias(function=self.of_distance, q_ids=q_ids, k_ids=k_ids)

    def of_distance(self, distance: Tensor) -> Tensor:
        """Return the bias at distances ``(...)``: ``(head, ...)``, float64."""
        waves = (distance[..., None].double() * self.frequencies).cos() - 1
        return self.scales.view(-1, *[1] * distance.ndim) * waves.sum(-1)
