"""What `bipe extend` can be told beside the strategy and the training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from train.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Extend:
    """unit: what the original length counts, or that length. sha256: of the weights to start from.

    None leaves the unit to what drives the rotation, and takes any weights.
    """

    unit: Literal["segments", "tokens"] | int | None
    sha256: str | None

    def __post_init__(self) -> None:
        if isinstance(self.unit, int) and self.unit < 1:
            raise ConfigError(
                f"extend.unit must be segments, tokens or at least 1 position, was: {self.unit}"
            )
