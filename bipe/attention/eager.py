"""Attention spelled out, with scores, mask and weights all in memory.

It is the reference of every other path; in float64 it is the oracle of the tests.
"""

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from bipe.attention.heads import Keys, Queries, repeat_heads
from bipe.bias import Bias


def allowed_pairs(
    q_document: Int[Tensor, "batch query"], k_document: Int[Tensor, "batch key"]
) -> Bool[Tensor, "batch query key"]:
    """Return which keys a query may see: those of its document up to itself.

    Queries are the last of the keys. Padding (document -1) sees padding: its output is never used
    and must only be finite.

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
    scores = scores_of(q, k, bias, allowed).masked_fill(~allowed[:, None], float("-inf"))
    return valued(scores.softmax(-1), v, bias)


def scores_of(
    q: Tensor,
    k: Tensor,
    bias: Bias | None,
    allowed: Bool[Tensor, "batch query key"],
    *,
    spread: bool = False,
) -> Tensor:
    """Return q k^T / sqrt(width) + bias, at least in float32. spread: see `Bias.spread`."""
    precise = torch.promote_types(q.dtype, torch.float32)
    plain = (q @ k.transpose(-1, -2)).to(precise)
    scores = plain / q.shape[-1] ** 0.5
    return scores if bias is None else scores + bias.added(q, k, plain, allowed, spread=spread)


def valued(weights: Tensor, v: Tensor, bias: Bias | None) -> Tensor:
    """Return what queries read with these weights, of `v` and of the values of a bias."""
    out = weights.to(v.dtype) @ v
    for leaf in () if bias is None else bias.leaves():
        if (values := leaf.valued(weights)) is not None:
            out = out + values.to(v.dtype)
    return out
