"""PoSE: skip-wise positions (Zhu et al., 2309.10400, section 3.2).

A document of n ids is cut at random into chunks, and every chunk but the first is moved on by a
skip; skips grow from chunk to chunk and the last id stays below `reach`:

    ids        0 1 2 3 4 5 6 7
    reach 20   0 1 2 3 4 13 14 15      cut at 5, skip 8

Rows of the training length so meet every distance below `reach`. On segment indices whole
segments are skipped.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from bipe.random_positions.base import Documents, Draw
from bipe.random_positions.keys import uniform


@dataclass(frozen=True, kw_only=True)
class PoSE(Draw):
    """Skips between chunks of a document.

    reach: ids that a document is spread over, in tokens or segments as the encoding counts them;
    a document of more keeps its ids. chunks: of a document, at least 2; more meet more gaps.
    """

    reach: int
    chunks: int = 2

    def __post_init__(self) -> None:
        if self.reach < 1:
            raise ValueError(f"reach must be at least 1, was: {self.reach}")
        if self.chunks < 2:
            raise ValueError(f"chunks must be at least 2, was: {self.chunks}")

    def new_ids(self, told: Documents) -> Int[Tensor, "batch time"]:
        cuts = range(self.chunks - 1)
        # Where a chunk begins: from 1 to count - 1, in [b, t, cut].
        begins = torch.stack([uniform(told.keys, 2 * i) for i in cuts], -1)
        begins = 1 + (begins * (told.count[..., None] - 1)).long().sort(-1).values
        room = (self.reach - told.count).clamp(min=0)[..., None]
        skips = torch.stack([uniform(told.keys, 2 * i + 1) for i in cuts], -1)
        skips = (skips * (room + 1)).long().sort(-1).values
        # The skip of a chunk replaces that of the chunk before it.
        steps = torch.diff(skips, dim=-1, prepend=torch.zeros_like(skips[..., :1]))
        return told.ids + (steps * (told.ids[..., None] >= begins)).sum(-1)
