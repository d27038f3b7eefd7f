"""Relative positions and relative segments (XLNet; Yang et al., 1906.08237, section 2.5).

    score(i, j) = ((q_i + u) . k_j + (q_i + v) . W R_d + (q_i + s) . e_same) / sqrt(head_width)

e_same is one of two trained vectors per head: id(i) = id(j), or not. Over segment indices
(`Bilevel(inter=XLNet)`) that is XLNet's relative segment encoding; in a flat encoding only a token
itself has its id.
"""

import torch
from torch import Tensor

from bipe.encodings.content import distances
from bipe.encodings.transformer_xl import TransformerXL


class XLNet(TransformerXL):
    """Transformer-XL's encoding, with a term for tokens of the same id."""

    def make_vectors(self, n_head: int, head_width: int) -> None:
        super().make_vectors(n_head, head_width)
        self.s = self.parameter(n_head, head_width)
        self.same = self.parameter(2, n_head, head_width)

    def state(self, layer: int, q_ids: Tensor, k_ids: Tensor) -> tuple[Tensor, ...]:  # type: ignore[override]
        at = self.of(layer)
        return *super().state(layer, q_ids, k_ids), self.s[at], self.same[at]

    def content(self, q, k, plain, q_ids, k_ids, allowed, state):  # type: ignore[no-untyped-def]
        *before, s, same = state
        content = super().content(q, k, plain, q_ids, k_ids, allowed, before)
        # [2, batch, head, query]: of keys of another id, and of the same.
        by_kind = torch.einsum("bhqd,shd->sbhq", q + s[:, None].to(q.dtype), same.to(q.dtype))
        differs, equals = (by_kind * q.shape[-1] ** -0.5)[..., None]
        return content + torch.where((distances(q_ids, k_ids) == 0)[:, None], equals, differs)
