"""What a draw is: strictly increasing new ids for the documents of a row.

A draw changes what encodings count between tokens: the token index of flat encodings and the
segment index of BiPE, each document and each level on its own. A segment moves as a whole, and
nothing changes inside it. What attends to what is the same.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from jaxtyping import Int
from torch import Tensor

from bipe.positions import Positions
from bipe.random_positions.keys import mixed

_LEVELS: tuple[Literal["token", "inter"], ...] = ("token", "inter")


@dataclass(frozen=True, slots=True, kw_only=True)
class Documents:
    """What a draw is told of each token. *Shape:* ``(batch, time)`` each.

    ids: index from the first id of its document in the row. count: ids of that document in the
    row. document: index of the document in its row, from 0. keys: one for each document.
    """

    ids: Int[Tensor, "batch time"]
    count: Int[Tensor, "batch time"]
    document: Int[Tensor, "batch time"]
    keys: Int[Tensor, "batch time"]


class Draw(ABC):
    """A method: a frozen, keyword-only dataclass with one method of its own."""

    @abstractmethod
    def new_ids(self, told: Documents) -> Int[Tensor, "batch time"]:
        """Ids instead of `told.ids`: equal where those are, greater where those are."""

    def drawn(self, at: Positions, keys: Int[Tensor, " batch"]) -> Positions:
        """Positions with other token and segment indices; padding keeps its own.

        keys: see `row_keys`. A document that goes on from the row before goes on from the same
        first index.
        """
        found: dict[str, Any] = {}
        document = _numbered(at.document)
        for number, level in enumerate(_LEVELS):
            ids: Tensor = getattr(at, level)
            first = _of_document(ids, document, "amin")
            count = _of_document(ids, document, "amax") - first + 1
            own = mixed(mixed(keys + number)[:, None] + document)
            told = Documents(ids=ids - first, count=count, document=document, keys=own)
            found[level] = torch.where(at.document < 0, ids, first + self.new_ids(told))
        return replace(at, **found)


def _numbered(document: Tensor) -> Tensor:
    """The stretches of one document, from 0 in each row; padding as if it were one."""
    opens = torch.ones_like(document, dtype=torch.bool)
    opens[:, 1:] = document[:, 1:] != document[:, :-1]
    return opens.cumsum(-1) - 1


def _of_document(ids: Tensor, document: Tensor, reduce: Literal["amin", "amax"]) -> Tensor:
    """The least or largest id of each document, at each of its tokens."""
    found = torch.zeros_like(ids).scatter_reduce(-1, document, ids, reduce, include_self=False)
    return found.gather(-1, document)
