"""A sliding window: keys at a distance of `window` or more are not seen (2004.05150, 3.1).

    i - w < j <= i

so w keys with the query's own, where tokens are counted. A mask: it serves every encoding.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from jaxtyping import Int
from torch import Tensor

from bipe.far.base import Far, Hook, Pass, near
from bipe.stretch.base import require_at_least


@dataclass(frozen=True, kw_only=True)
class Window(Far):
    """window: w, in ids. unit: what the window counts; None: what drives the encoding."""

    serves: ClassVar[tuple[Hook, ...]] = ()

    window: int
    unit: Literal["tokens", "segments"] | None = None

    def __post_init__(self) -> None:
        require_at_least(self.window, 1, name="window")
        require_unit(self.unit)

    def passes(
        self, q_ids: Int[Tensor, "batch query"], k_ids: Int[Tensor, "batch key"]
    ) -> tuple[Pass, ...]:
        return (near(q_ids, self.window),)

    @classmethod
    def fitted(cls, original: int) -> dict[str, Any]:
        return {"window": original}


def require_unit(unit: str | None) -> None:
    """Raise ValueError for a unit that there is not."""
    if unit not in (None, "tokens", "segments"):
        raise ValueError(f"unit must be tokens, segments or null, was: {unit!r}")
