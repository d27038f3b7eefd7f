"""Randomised positions (Ruoss et al., 2305.16843, section 3).

A document of n ids gets n of `reach`, all such subsets alike, in order:

    ids        0 1 2 3
    reach 20   2 7 8 16

A model trained so has seen the gaps that `reach` makes of its rows; it is best evaluated on
documents whose ids fill `reach` as well.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from bipe.random_positions.base import Documents, Draw
from bipe.random_positions.keys import mixed, uniform


@dataclass(frozen=True, kw_only=True)
class Randomised(Draw):
    """A random subset of ids, in order.

    reach: ids to draw from, in tokens or segments as the encoding counts them; a document of more
    keeps its ids. Work and memory grow with it, and with the documents of a row.
    """

    reach: int

    def __post_init__(self) -> None:
        if self.reach < 1:
            raise ValueError(f"reach must be at least 1, was: {self.reach}")

    def new_ids(self, told: Documents) -> Int[Tensor, "batch time"]:
        found = told.ids
        for number in range(int(told.document.max()) + 1):  # waits for the device
            inside = told.document == number
            first = inside.byte().argmax(-1, keepdim=True)
            count, keys = told.count.gather(-1, first), told.keys.gather(-1, first)
            chosen = self._subset(keys, count)
            ids = chosen.gather(-1, told.ids.clamp(max=self.reach - 1))
            found = torch.where(inside & (told.count <= self.reach), ids, found)
        return found

    def _subset(self, keys: Tensor, count: Tensor) -> Int[Tensor, "batch reach"]:
        """`count` ids below `reach` in order, the others behind them."""
        place = torch.arange(self.reach, device=keys.device)
        rank = uniform(mixed(keys + place), 0).argsort(-1).argsort(-1)
        return (place + self.reach * (rank >= count)).argsort(-1)
