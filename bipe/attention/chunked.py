"""Attention in chunks of queries: exact, and with gradients on any device.

Only scores of chunk x keys are in memory, computed again in the backward pass, also for biases that
no fused kernel takes. The reference is `eager_attention`.
"""

import ctypes
from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from bipe.attention.eager import allowed_pairs, scores_of, valued
from bipe.attention.heads import Keys, Queries, repeat_heads
from bipe.bias import Bias

CHUNK = 128  # queries, fewer in long rows:
_PAIRS = 1 << 19  # queries x keys whose scores are in memory at once


def chunked_attention(
    q: Queries,
    k: Keys,
    v: Keys,
    *,
    bias: Bias,
    document: Int[Tensor, "batch time"] | None = None,
    chunk: int | None = None,
) -> Queries:
    """Attend causally, in one document per row unless `document` says which each token is of.

    bias: covers the same queries and keys.
    """
    k, v = repeat_heads(k, v, n_head=q.shape[1])
    time = q.shape[2]
    chunk = chunk or max(1, min(CHUNK, _PAIRS // time))
    if document is None:
        document = torch.zeros(1, time, dtype=torch.long, device=q.device)
    outs = []
    for start in range(0, time, chunk):
        stop = min(start + chunk, time)
        part = bias.part(rows=slice(None), queries=slice(start, stop), keys=slice(0, stop))
        allowed = allowed_pairs(document[:, start:stop], document[:, :stop])
        inputs = q[:, :, start:stop], k[:, :, :stop], v[:, :, :stop]
        outs.append(checkpointed(_attend, *inputs, part, allowed))
    return torch.cat(outs, 2)


_RELEASE_EVERY = 512  # keys


def _attend(q: Tensor, k: Tensor, v: Tensor, bias: Bias, allowed: Tensor) -> Tensor:
    # Keys grow by the queries of a chunk, so this holds once in so many of them.
    if k.shape[2] % _RELEASE_EVERY < q.shape[2] and not torch.compiler.is_compiling():
        release_freed()
    scores = scores_of(q, k, bias, allowed, spread=True)
    return valued(scores.masked_fill(~allowed[:, None], float("-inf")).softmax(-1), v, bias)


def checkpointed(function: Callable[..., Tensor], *arguments: Any) -> Tensor:
    """Call a function, and again in the backward pass if there is one."""
    if not torch.is_grad_enabled():
        return function(*arguments)
    out: Tensor = checkpoint(function, *arguments, use_reentrant=False)
    return out


_TRIM = getattr(ctypes.pythonapi, "malloc_trim", None)  # of glibc


def release_freed() -> None:
    """Return freed memory of the host to the system, where the C library can.

    Chunks have ever more keys: what one frees is too small for the next, and the heap keeps it all.
    Under FIRE and TUPE a row of 8192 tokens held 3.9 and 3.6 GB, of which 0.3 were in use.
    """
    if _TRIM is not None:
        _TRIM(0)
