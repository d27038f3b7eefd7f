"""Shifted positions: one random offset a document (SHAPE; Kiyono et al., 2109.05644, eq. 2).

Nothing changes for relative encodings; an absolute one meets more of its ids than rows are long.
"""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Int
from torch import Tensor

from bipe.random_positions.base import Documents, Draw
from bipe.random_positions.keys import uniform


@dataclass(frozen=True, kw_only=True)
class Shifted(Draw):
    """An offset from 0 to `most`, in tokens or segments as the encoding counts them."""

    most: int

    def __post_init__(self) -> None:
        if self.most < 0:
            raise ValueError(f"most must be 0 or more, was: {self.most}")

    def new_ids(self, told: Documents) -> Int[Tensor, "batch time"]:
        return told.ids + (uniform(told.keys, 0) * (self.most + 1)).long()
