"""Positions counted by learned gates (CoPE; Golovneva et al., 2405.18719, eq. 2 to 5).

    g_im = sigmoid(q_i . k_m),   p_ij = min(g_ij + .. + g_ii, positions - 1)
    score(i, j) = q_i . k_j / sqrt(head_width) + q_i . e[p_ij],   e between whole p interpolated

Gates use unscaled products, as in the paper's code. Only tokens at which the id changes count: all
tokens in a flat encoding, the first token of each segment over segment indices.
"""

import torch
from torch import Tensor

from bipe.arguments import require_at_least
from bipe.encodings.content import Content


class CoPE(Content):
    """Contextual positions. positions: rows of the table, shared by the heads of a layer."""

    def __init__(self, *, head_width: int, positions: int = 64, n_layer: int = 1) -> None:
        super().__init__(n_layer=n_layer)
        require_at_least(2, positions=positions)
        self.table = self.parameter(positions, head_width)

    def state(self, layer: int, q_ids: Tensor, k_ids: Tensor) -> Tensor:
        return self.table[self.of(layer)]

    def content(self, q, k, plain, q_ids, k_ids, allowed, state):  # type: ignore[no-untyped-def]
        table, new = state, k_ids[:, None, 1:] != k_ids[:, None, :-1]
        counted = allowed.expand(len(k_ids), -1, -1).clone()
        counted[..., 1:] &= new | ~allowed[..., :-1]  # a document always starts a segment
        gates = torch.where(counted[:, None], plain.sigmoid(), 0.0)
        place = gates.flip(-1).cumsum(-1).flip(-1).clamp(max=len(table) - 1)
        low, high = place.floor().long(), place.ceil().long()
        scores = q @ table.to(q.dtype).T
        share = (place - low).to(scores.dtype)
        return scores.gather(-1, high) * share + scores.gather(-1, low) * (1 - share)
