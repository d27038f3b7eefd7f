"""Gates that forget (FoX, the Forgetting Transformer; Lin et al., 2503.02130, eq. 6 and 7).

    score(i, j) = q_i . k_j / sqrt(head_width) + sum_{m=j+1}^{i} log f_m,   f_m = sigmoid(w x_m + b)

A linear bias whose steps are computed from hidden states, without a tensor of query x key. Over
segment indices only the gate of the first token of each segment counts. With b = 0 half is
forgotten at every step at first; with `start` (b) of 4, 2%.
"""

from collections.abc import Mapping
from typing import ClassVar

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from bipe.bias import GateBias, KeyIds, QueryIds
from bipe.encodings.content import Layered


class FoX(Layered):
    """Forget gates, one per head and token. width: of the model. start: b, see above."""

    sign: ClassVar[float] = 1.0

    def __init__(self, *, width: int, n_head: int, n_layer: int = 1, start: float = 0.0) -> None:
        super().__init__(n_layer=n_layer)
        self.weight = self.parameter(n_head, width)
        self.offset = nn.Parameter(torch.full((n_layer, n_head), float(start)))

    def starts(self) -> Mapping[str, float | None]:
        return {"offset": None}

    def bias(self, q_ids: QueryIds, k_ids: KeyIds) -> GateBias:
        return GateBias(encoding=self, q_ids=q_ids, k_ids=k_ids)

    def gates(
        self, x: Float[Tensor, "batch time width"], layer: int
    ) -> Float[Tensor, "batch time head"]:
        """Return the gates of tokens, at most 0, given what enters attention in a layer."""
        at = self.of(layer)
        gates = F.linear(x, self.weight[at].to(x.dtype), self.offset[at].to(x.dtype))
        return F.logsigmoid(self.sign * gates.to(torch.promote_types(x.dtype, torch.float32)))
