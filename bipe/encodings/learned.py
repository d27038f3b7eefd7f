"""A learned table of absolute positions, added to the embeddings (Gehring et al., 1705.03122).

The intra-segment encoding of the released BiPE. The release clamps ids beyond the table to a
padding row, which stays zero and untrained; here the last row is trained like any other.
"""

from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from bipe.encodings.base import Encoding

Overflow = Literal["clamp", "error"]


class PositionError(ValueError):
    """A position beyond the table, where `overflow` is "error"."""


class Learned(Encoding):
    """Adds row `id` of a table. overflow: clamp to the last row, or raise (device: assert)."""

    relative = False

    def __init__(self, *, width: int, length: int, overflow: Overflow = "clamp") -> None:
        super().__init__()
        if length < 1:
            raise ValueError(f"length must be at least 1, was: {length}")
        if overflow not in ("clamp", "error"):
            raise ValueError(f"overflow must be 'clamp' or 'error', was: {overflow!r}")
        self.table = nn.Embedding(length, width)
        self.overflow = overflow

    def embed(
        self, x: Float[Tensor, "batch time width"], ids: Int[Tensor, "batch time"]
    ) -> Float[Tensor, "batch time width"]:
        last = self.table.num_embeddings - 1
        if self.overflow == "clamp":
            ids = ids.clamp(max=last)
        elif ids.device.type == "cpu":
            if ids.numel() and int(ids.max()) > last:
                raise PositionError(
                    f"a position of {int(ids.max())} is beyond the learned table: length is "
                    f"{last + 1}; use a longer table or overflow='clamp'"
                )
        else:
            torch._assert_async((ids <= last).all())
        return x + self.table(ids)
