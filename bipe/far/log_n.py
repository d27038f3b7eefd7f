"""Log-n scaling (Su, 2021; kexue.fm/archives/8823): sharper scores for queries that see more.

    score(i, j) * ln n / ln L0,   n = id of the query + 1

at least 1 with `clip`, as in the released ReRoPE; without, as `log_scale` of the released BiPE,
where queries of the first segment come to nothing. A factor on queries: it serves every encoding.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from jaxtyping import Float, Int
from torch import Tensor

from bipe.far.base import Far, Hook, Pass, log_n_scale
from bipe.far.window import require_unit
from bipe.stretch.base import require_at_least


@dataclass(frozen=True, kw_only=True)
class LogN(Far):
    """original_length: L0, in ids. unit: as in `Window`. clip: whether the factor is at least 1."""

    serves: ClassVar[tuple[Hook, ...]] = ()

    original_length: int
    clip: bool = True
    unit: Literal["tokens", "segments"] | None = None

    def __post_init__(self) -> None:
        require_at_least(self.original_length, 2, name="original_length")
        require_unit(self.unit)

    def passes(
        self, q_ids: Int[Tensor, "batch query"], k_ids: Int[Tensor, "batch key"]
    ) -> tuple[Pass, ...]:
        return (Pass(),)

    def scale(self, q_ids: Int[Tensor, "batch query"]) -> Float[Tensor, "batch query"] | None:
        return log_n_scale(q_ids, self.original_length, clip=self.clip)

    @classmethod
    def fitted(cls, original: int) -> dict[str, Any]:
        return {"original_length": max(2, original)}
