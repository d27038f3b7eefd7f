"""Trained kernels of the distance (KERPLE; Chi et al., 2205.09921, eq. 4 and 5).

    log      score - p ln(1 + a d)
    power    score - a d^p,   0 < p <= 2;   weighted: score * exp(-a' d^p') - a d^p

with d = id(i) - id(j). As in the release, parameters below 0.01 (an exponent above 2) count as
0.01 (2); gradients still reach them. Its "original" is `kernel="power", p=1, a=` a slope of ALiBi.
"""

from collections.abc import Mapping
from typing import Literal

import torch
from torch import Tensor, nn

from bipe.arguments import require
from bipe.bias import Bias, DistanceBias, KeyIds, QueryIds
from bipe.encodings.content import Content, distances

_LEAST, _LARGEST_POWER = 0.01, 2.0


class Kerple(Content):
    """A penalty on distance, with a trained kernel per head.

    p, a: None: trained; a number: fixed, for all heads. weighted: also shrink scores with distance,
    which needs them: slower.
    """

    def __init__(
        self,
        *,
        n_head: int,
        kernel: Literal["log", "power"] = "log",
        p: float | None = None,
        a: float | None = None,
        weighted: bool = False,
    ) -> None:
        super().__init__()
        self.p: Tensor
        self.a: Tensor
        require(kernel in ("log", "power"), "log or power", kernel=kernel)
        require(
            kernel == "power" or not weighted, "false unless kernel is power", weighted=weighted
        )
        self.kernel, self.weighted = kernel, weighted
        # The release draws p from 0 to 2 and a from 0 to 1: here evenly spaced, the same each time.
        even = (torch.arange(n_head) + 0.5) / n_head
        for name, value, start in (("p", p, 2 * even), ("a", a, 1 - even)):
            if value is None:
                setattr(self, name, nn.Parameter(start))
            else:
                self.constant(name, torch.full((n_head,), float(value)))
        if weighted:
            self.weight_p, self.weight_a = nn.Parameter(2 * even), nn.Parameter(1 - even)

    def starts(self) -> Mapping[str, float | None]:
        return dict.fromkeys(("p", "a", "weight_p", "weight_a"))

    def bias(self, q_ids: QueryIds, k_ids: KeyIds) -> Bias:  # type: ignore[override]
        if self.weighted:
            return super().bias(q_ids, k_ids)
        return DistanceBias(function=self.of_distance, q_ids=q_ids, k_ids=k_ids)

    def of_distance(self, distance: Tensor) -> Tensor:
        """Return the bias at distances ``(...)``: ``(head, ...)``."""
        if self.kernel == "power":
            return -_power(_kept(self.a), _kept(self.p, _LARGEST_POWER), distance)
        p, a = (_kept(x).view(-1, *[1] * distance.ndim) for x in (self.p, self.a))
        return -p * torch.log1p(a * distance)

    @property
    def layered(self) -> bool:  # type: ignore[override]
        return self.weighted

    def content(self, q, k, plain, q_ids, k_ids, allowed, state):  # type: ignore[no-untyped-def]
        distance = distances(q_ids, k_ids).clamp(min=0)
        weight_p = _kept(self.weight_p, _LARGEST_POWER)
        shrunk = torch.expm1(-_power(_kept(self.weight_a), weight_p, distance)).transpose(0, 1)
        return plain * q.shape[-1] ** -0.5 * shrunk + self.of_distance(distance).transpose(0, 1)


def _kept(parameter: Tensor, largest: float | None = None) -> Tensor:
    """Return a parameter inside its bounds, with the gradient of one that is."""
    return parameter + (parameter.clamp(_LEAST, largest) - parameter).detach()


def _power(a: Tensor, p: Tensor, distance: Tensor) -> Tensor:
    shape = (-1, *[1] * distance.ndim)
    # 0^p has no gradient in p: take it at 1 and leave it out.
    safe = distance.clamp(min=1).to(a.dtype)
    return torch.where(distance > 0, a.view(shape) * safe ** p.view(shape), 0.0)
