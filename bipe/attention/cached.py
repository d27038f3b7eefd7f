"""Attention of the last tokens of a row over all of it, with the earlier keys from a cache.

One query sees every key: no mask at all, only the bias of a row. Several queries (a chunk of the
prompt) see the past whole and themselves causally: two kernels merged by their log-sum-exp, so
that no mask of queries x keys is made (with a linear bias: banded.py, which skips what it can of
the past). For decoding: on the CPU and without gradients. The eager twin is eager.py.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from bipe.attention.eager import repeat_heads
from bipe.attention.kernel import kernel_forward, merged


def last_query_attention(
    q: Float[Tensor, "batch head 1 width"],
    k: Float[Tensor, "batch kv_head key width"],
    v: Float[Tensor, "batch kv_head key width"],
    *,
    bias: Tensor | None,
) -> Float[Tensor, "batch head 1 width"]:
    """Attention of one query a row over all keys.

    bias: added to the scores, ``(batch, head or 1, 1, key)`` in at least float32.
    """
    # Heads of a group are queries of the same keys: no key is repeated.
    grouped = q.reshape(q.shape[0], k.shape[1], -1, q.shape[-1])
    if bias is None:
        return F.scaled_dot_product_attention(grouped, k, v).reshape(q.shape)
    precise = torch.promote_types(q.dtype, bias.dtype)
    scores = (grouped @ k.transpose(-1, -2)).to(precise).view(*q.shape[:3], -1)
    weights = (scores * q.shape[-1] ** -0.5 + bias).softmax(-1).to(v.dtype)
    return (weights.view(*grouped.shape[:3], -1) @ v).view_as(q)


def chunk_attention(
    q: Float[Tensor, "batch head query width"],
    k: Float[Tensor, "batch kv_head key width"],
    v: Float[Tensor, "batch kv_head key width"],
) -> Float[Tensor, "batch head query width"]:
    """Attention of the last queries over the past and causally over themselves; CPU only."""
    k, v = repeat_heads(k, v, n_head=q.shape[1])
    past = k.shape[2] - q.shape[2]
    own = kernel_forward(q, k[:, :, past:], v[:, :, past:], None, causal=True)
    if not past:
        return own[0]
    far = kernel_forward(q, k[:, :, :past], v[:, :, :past], None, causal=False)
    return merged(own, far)[0].to(q.dtype)
