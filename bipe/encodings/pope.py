"""Polar coordinates (PoPE; Gopalakrishnan et al., 2509.10534, eq. 6).

    score(i, j) = sum over c of  softplus(q_c) softplus(k_c) cos((j - i) theta_c + delta_c)
    theta_c = theta^(-c / head_width), c = 0 .. head_width - 1;  delta is learned per head

In RoPE, the angle of a pair also depends on its content; here each feature is a magnitude at an
angle that depends on position alone. So d features become 2d: scores cost twice as much, and cached
keys twice the memory. They are divided by sqrt(d), not sqrt(2d): queries are multiplied by sqrt(2).

Deviations: delta is on the query, so that keys shared by several heads stay one; it is not clamped
to [-2 pi, 0] as in the release, since angles are periodic and a clamp only stops learning.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from bipe.arguments import require_at_least
from bipe.encodings.base import Encoding
from bipe.encodings.far import Ids
from bipe.rotation import Turn


@dataclass(frozen=True, slots=True, kw_only=True)
class PolarRotation(Turn):
    """Puts each feature at the angle of its token: ``(..., width)`` to ``(..., 2 width)``."""

    cos: Float[Tensor, "batch time width"]
    sin: Float[Tensor, "batch time width"]
    delta: Float[Tensor, "head width"]
    widens = True

    def query(self, x: Float[Tensor, "batch head time width"]) -> Tensor:
        left, right = self._placed(x)
        # The angle minus delta; its sign is that of keys at plus delta.
        cos, sin = (math.sqrt(2) * x[:, None] for x in (self.delta.cos(), self.delta.sin()))
        return torch.cat((left * cos + right * sin, right * cos - left * sin), -1).to(x.dtype)

    def key(self, x: Float[Tensor, "batch head time width"]) -> Tensor:
        return torch.cat(self._placed(x), -1).to(x.dtype)

    def _placed(self, x: Tensor) -> tuple[Tensor, Tensor]:
        size = F.softplus(x.to(self.cos.dtype))
        return size * self.cos[:, None], size * self.sin[:, None]


class PoPE(Encoding):
    """Magnitudes from content and angles from ids. n_head: query heads, each with its own delta."""

    frequencies: Tensor

    def __init__(self, *, head_width: int, n_head: int, theta: float = 10000.0) -> None:
        super().__init__()
        require_at_least(1, head_width=head_width, n_head=n_head)
        exponents = torch.arange(head_width, dtype=torch.float64) / head_width
        self.constant("frequencies", theta**-exponents)
        # A vector, which stays zero at the start of training and does not decay.
        self.delta = nn.Parameter(torch.zeros(n_head * head_width))

    def rotation(self, ids: Ids) -> PolarRotation:
        angles = ids[..., None].double() * self.frequencies
        delta = self.delta.view(-1, len(self.frequencies))
        return PolarRotation(cos=angles.cos(), sin=angles.sin(), delta=delta)
