"""Any bias over a long row, exactly and with gradients, a chunk of queries at a time.

Scores of chunk x keys are all that is in memory: each chunk is computed again in the backward pass.
A table bias is spread from its table of id pairs, which under BiPE is a table of segment pairs. It
serves biases that no fused kernel takes, on any device; the eager twin is eager.py.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from bipe.attention.eager import Keys, Queries, repeat_heads
from bipe.bias import Bias, BiasSum, TableBias

CHUNK = 128  # queries
# Below this share of id pairs among pairs of tokens, spreading a table beats computing the bias.
_FEW_PAIRS = 0.25


def chunked_attention(q: Queries, k: Keys, v: Keys, *, bias: Bias, chunk: int = CHUNK) -> Queries:
    """Attend causally to one document per row; `bias` covers the same queries and keys."""
    k, v = repeat_heads(k, v, n_head=q.shape[1])
    outs = []
    for start in range(0, q.shape[2], chunk):
        stop = min(start + chunk, q.shape[2])
        part = bias.part(rows=slice(None), queries=slice(start, stop), keys=slice(0, stop))
        arguments = (q[:, :, start:stop], k[:, :, :stop], v[:, :, :stop], part)
        if torch.is_grad_enabled():
            outs.append(checkpoint(_attend, *arguments, use_reentrant=False))
        else:
            outs.append(_attend(*arguments))
    return torch.cat(outs, 2)


def _attend(q: Tensor, k: Tensor, v: Tensor, bias: Bias) -> Tensor:
    precise = torch.promote_types(q.dtype, torch.float32)
    scores = (q @ k.transpose(-1, -2)).to(precise) / q.shape[-1] ** 0.5
    scores = scores + _dense(bias, precise)
    later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device)
    later = later.triu(1 + k.shape[2] - q.shape[2])
    return scores.masked_fill(later, float("-inf")).softmax(-1).to(v.dtype) @ v


def _dense(bias: Bias, dtype: torch.dtype) -> Tensor:
    if isinstance(bias, BiasSum):
        return sum(_dense(part, dtype) for part in bias.parts)  # type: ignore[return-value]
    if not isinstance(bias, TableBias):
        return bias.dense(dtype)
    pairs = bias.pairs(dtype) if _repeat(bias) else None
    return bias.dense(dtype) if pairs is None else pairs.dense()


def _repeat(bias: TableBias) -> bool:
    """Return whether the ids repeat enough for a table of pairs."""
    size = 1
    for ids in (bias.q_ids, bias.k_ids):
        size *= int((ids.amax(-1) - ids.amin(-1)).max()) + 1
    return size < _FEW_PAIRS * bias.q_ids.shape[1] * bias.k_ids.shape[1]
