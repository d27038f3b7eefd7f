"""Disentangled attention (DeBERTa; He et al., 2006.03654, eq. 4; version 2: log buckets).

    score(i, j) = (q_i . k_j + q_i . K_b + k_j . Q_b) / sqrt(3 head_width)

K and Q are projections of one trained table of distances, b = clip(id(i) - id(j), -span, span - 1)
+ span. Version 2 puts distances into log buckets first (`longest`), and may use the projections of
queries and keys themselves for the table (`share_att_key`); here they are its own.
"""

import math

import torch
from jaxtyping import Int
from torch import Tensor

from bipe.arguments import require, require_at_least
from bipe.encodings.content import Content, by_distance, distances


class DeBERTa(Content):
    """Disentangled attention. span: distances, or buckets up to `longest` ids (version 2).

    terms: of "c2p" (queries meet distances) and "p2c" (keys meet distances).
    """

    def __init__(
        self,
        *,
        width: int,
        n_head: int,
        head_width: int | None = None,
        span: int = 256,
        longest: int | None = None,
        terms: tuple[str, ...] = ("c2p", "p2c"),
        n_layer: int = 1,
    ) -> None:
        super().__init__(n_layer=n_layer)
        require_at_least(2, span=span)
        require(terms and set(terms) <= {"c2p", "p2c"}, "among c2p and p2c", terms=terms)
        require(longest is None or longest > span, f"above span ({span})", longest=longest)
        of_head = width // n_head if head_width is None else head_width
        self.span, self.longest, self.terms = span, longest, tuple(terms)
        self.table = torch.nn.Parameter(torch.randn(2 * span, width) * 0.02)
        for name in self.terms:
            setattr(self, f"{name}_weight", self.parameter(n_head, of_head, width))
            setattr(self, f"{name}_bias", self.parameter(n_head, of_head))

    def state(self, layer: int, q_ids: Tensor, k_ids: Tensor) -> dict[str, Tensor]:
        at = self.of(layer)
        return {
            name: torch.einsum("nc,hdc->hnd", self.table, getattr(self, f"{name}_weight")[at])
            + getattr(self, f"{name}_bias")[at][:, None]
            for name in self.terms
        }

    def content(self, q, k, plain, q_ids, k_ids, allowed, state):  # type: ignore[no-untyped-def]
        index, total = self._index(q_ids, k_ids), plain
        if "c2p" in state:
            total = total + by_distance(q @ state["c2p"].to(q.dtype).mT, index)
        if "p2c" in state:
            of_keys = k @ state["p2c"].to(k.dtype).mT
            total = total + by_distance(of_keys, index.transpose(1, 2)).transpose(-1, -2)
        width = q.shape[-1]
        return total * (width * (1 + len(state))) ** -0.5 - plain * width**-0.5

    def _index(self, q_ids: Tensor, k_ids: Tensor) -> Int[Tensor, "batch query key"]:
        distance = distances(q_ids, k_ids)
        if self.longest is not None:
            distance = log_bucket(distance, buckets=self.span, longest=self.longest)
        return (distance + self.span).clamp(0, 2 * self.span - 1)


def log_bucket(distance: Tensor, *, buckets: int, longest: int) -> Int[Tensor, "..."]:
    """Return distances up to buckets / 2 as they are, others by their logarithm."""
    exact = buckets // 2
    near = distance.abs() < exact
    size = torch.where(near, exact - 1, distance.abs()).double()
    ratio = torch.log(size / exact) / math.log((longest - 1) / exact)
    far = (torch.ceil(ratio * (exact - 1)) + exact).long() * distance.sign()
    return torch.where(distance.abs() <= exact, distance, far)
