"""Absolute encodings, a vector per id, and the learned table of them (Gehring et al., 1705.03122).

    combine=add         x + p
    combine=multiply    x * p, feature by feature (Su, kexue.fm/archives/8130)

A product with a table of small entries shrinks the embedding, which the norm before the first block
compensates. Adam updates all entries by similar amounts, so a table whose rows occur in every batch
outgrows the embeddings of rare tokens; `scale` below 1 limits that. The table is the intra-segment
encoding of the released BiPE. The release clamps larger ids to a padding row, which stays zero and
untrained; here the last row is trained like any other.
"""

from abc import abstractmethod
from typing import Literal, get_args

from jaxtyping import Float, Int
from torch import Tensor, nn

from bipe.arguments import require, require_at_least
from bipe.encodings.base import Encoding
from bipe.positions import require_at_most

Combine = Literal["add", "multiply"]
Overflow = Literal["clamp", "error"]


class Absolute(Encoding):
    """An encoding that defines `vectors`; combine: how `embed` applies them."""

    relative = False

    def __init__(self, *, combine: Combine = "add") -> None:
        super().__init__()
        choices = get_args(Combine)
        require(combine in choices, " or ".join(map(repr, choices)), combine=combine)
        self.combine: Combine = combine

    @abstractmethod
    def vectors(self, ids: Int[Tensor, "batch time"]) -> Float[Tensor, "batch time width"]:
        """Return the vector of each id."""

    def embed(
        self, x: Float[Tensor, "batch time width"], ids: Int[Tensor, "batch time"]
    ) -> Float[Tensor, "batch time width"]:
        vectors = self.vectors(ids).to(x.dtype)
        return x + vectors if self.combine == "add" else x * vectors


class PositionError(ValueError):
    """A position beyond the table, where `overflow` is "error"."""


class Learned(Absolute):
    """Row `id` of a table, times `scale`.

    overflow: "clamp" uses the last row for larger ids, "error" raises (an assertion on a device).
    """

    def __init__(
        self,
        *,
        width: int,
        length: int,
        overflow: Overflow = "clamp",
        combine: Combine = "add",
        scale: float = 1.0,
    ) -> None:
        super().__init__(combine=combine)
        require_at_least(1, length=length)
        require(overflow in ("clamp", "error"), "'clamp' or 'error'", overflow=overflow)
        self.table = nn.Embedding(length, width)
        self.overflow, self.scale = overflow, scale

    def vectors(self, ids: Int[Tensor, "batch time"]) -> Float[Tensor, "batch time width"]:
        last = self.table.num_embeddings - 1
        if self.overflow == "clamp":
            ids = ids.clamp(max=last)
        else:
            require_at_most(
                last,
                ids,
                f"positions must be below the length of the learned table ({last + 1})",
                cure="use a longer table or overflow='clamp'",
                error=PositionError,
            )
        return self.scale * self.table(ids)
