"""Attention spelled out: the reference that every other path is held to.

Scores, mask and weights are all in memory. Run it in float64 and it is the oracle of the tests.
"""

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from bipe.bias import Bias

Queries = Float[Tensor, "batch head query width"]
Keys = Float[Tensor, "batch kv_head key width"]
Attention = Callable[[Tensor, Tensor, Tensor], Tensor]


def allowed_pairs(
    q_document: Int[Tensor, "batch query"], k_document: Int[Tensor, "batch key"]
) -> Bool[Tensor, "batch query key"]:
    """Return which keys a query may see: those of its document up to itself.

    Queries are the last ones of the keys' time. Padding (document -1) sees padding: its output is
    never used and must only be finite.

        document 0 0 1 1      1 . . .
                              1 1 . .
                              . . 1 .
                              . . 1 1
    """
    n_query, n_key = q_document.shape[1], k_document.shape[1]
    causal = torch.ones(n_query, n_key, dtype=torch.bool, device=q_document.device)
    causal = causal.tril(n_key - n_query)
    return causal & (q_document[:, :, None] == k_document[:, None, :])


def eager_attention(
    q: Queries, k: Keys, v: Keys, *, bias: Bias | None, allowed: Bool[Tensor, "batch query key"]
) -> Queries:
    """Return softmax(q k^T / sqrt(width) + bias) v over the allowed pairs, at least in float32."""
    k, v = repeat_heads(k, v, n_head=q.shape[1])
    precise = torch.promote_types(q.dtype, torch.float32)
    scores = (q @ k.transpose(-1, -2)).to(precise) / q.shape[-1] ** 0.5
    if bias is not None:
        scores = scores + bias.dense(precise)
    scores = scores.masked_fill(~allowed[:, None], float("-inf"))
    return scores.softmax(-1).to(v.dtype) @ v


def repeat_heads(k: Tensor, v: Tensor, *, n_head: int) -> tuple[Tensor, Tensor]:
    """Give each query head its key and value head (grouped-query attention, 2305.13245)."""
    groups = n_head // k.shape[1]
    if groups == 1:
        return k, v
    return k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
