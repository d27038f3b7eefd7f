"""Position interpolation (PI; Chen et al., 2306.15595): all frequencies divided by the factor."""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Float, Int
from torch import Tensor

from bipe.stretch.base import Stretch, require_at_least


@dataclass(frozen=True, kw_only=True)
class Linear(Stretch):
    """Positions up to factor x L0 turn as those up to L0 did. factor: at least 1."""

    factor: float

    def __post_init__(self) -> None:
        require_at_least(self.factor, 1, name="factor")

    def frequencies(
        self,
        inv_freq: Float[Tensor, " pair"],
        *,
        theta: float,
        length: Int[Tensor, " ..."] | None = None,
    ) -> tuple[Float[Tensor, " pair"], float]:
        return inv_freq / self.factor, 1.0
