"""A learned table of absolute positions, added to the embeddings (Gehring et al., 1705.03122).

The intra-segment encoding of the released BiPE. Its table has an end; what happens beyond it is
`overflow`. The release clamps, and keeps the row that all clamped positions share at zero and
untrained (a padding row); here that row is trained like any other.
"""

from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from bipe.encodings.base import Encoding

Overflow = Literal["clamp", "error"]


class PositionError(ValueError):
    """A position lies beyond a table whose overflow is an error."""


class Learned(Encoding):
    """Add row `id` of a table to the embedding.

    length: rows of the table, in the unit of the ids.
    overflow: `clamp` gives ids beyond the table its last row; `error` raises on the CPU and
        asserts on the device.
    """

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
