"""A small network of normalised distances (FIRE; Li et al., 2310.04418, eq. 8 to 10).

    score + MLP_h( ln(c d + 1) / ln(c max(L, id(i)) + 1) ),   d = id(i) - id(j),  c and L trained

Distances are divided by the query's own id once that is beyond L, so that they stay from 0 to 1 at
any length. That is why FIRE is not relative: a shift of all ids changes its scores.
"""

from collections.abc import Mapping
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from bipe.arguments import require
from bipe.bias import KeyIds, QueryIds, TableBias
from bipe.encodings.base import Encoding

_EPS = 1e-6  # keeps the ratio finite where c is 0


class FIRE(Encoding):
    """A trained function of relative distance, shared by all layers.

    hidden: width of the network. length: L at the start, in ids, times the trained `multiplier`.
    """

    relative: ClassVar[bool] = False

    def __init__(self, *, n_head: int, hidden: int = 32, length: float = 512.0) -> None:
        super().__init__()
        require(length > 0, "above 0", length=length)
        self.c, self.multiplier = nn.Parameter(torch.tensor([0.1])), nn.Parameter(torch.ones(1))
        self.length, self.hidden = float(length), hidden
        self.inner, self.outer = nn.Linear(1, hidden), nn.Linear(hidden, n_head)
        with torch.no_grad():  # bends at all ratios, the same each time
            self.inner.bias.copy_((2 * torch.arange(hidden) + 1) / hidden - 1)
        nn.init.zeros_(self.outer.bias)

    def starts(self) -> Mapping[str, float | None]:
        return {"inner.weight": 1.0, "outer.weight": self.hidden**-0.5}

    def bias(self, q_ids: QueryIds, k_ids: KeyIds) -> TableBias:
        return TableBias(function=self.of_pairs, q_ids=q_ids, k_ids=k_ids)

    def of_pairs(
        self, q_ids: Int[Tensor, "batch query 1"], k_ids: Int[Tensor, "batch 1 key"]
    ) -> Float[Tensor, "batch head query key"]:
        length = (self.length * self.multiplier).abs()
        longest = torch.maximum(q_ids.to(self.c.dtype), length)
        distance = (q_ids - k_ids).clamp(min=0)
        near = torch.log((self.c * distance).abs() + 1)
        ratio = near / (torch.log((self.c * longest).abs() + 1) + _EPS)
        return self.outer(self.inner(ratio[..., None]).relu()).movedim(-1, 1)
