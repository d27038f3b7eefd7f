"""Attention spelled out: the reference of every other path, and its form in chunks of queries.

The reference has scores, mask and weights all in memory; in float64 it is the oracle of the tests.
In chunks, only scores of chunk x keys are in memory, computed again in the backward pass: exact and
with gradients on any device, also for biases that no fused kernel takes.
"""

import ctypes
import functools
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from bipe.bias import Bias

CHUNK = 128  # queries, fewer in long rows:
_PAIRS = 1 << 19  # queries x keys whose scores are in memory at once
_RELEASE_EVERY = 512  # keys
Queries = Float[Tensor, "batch head query width"]
Keys = Float[Tensor, "batch kv_head key width"]
Attention = Callable[[Tensor, Tensor, Tensor], Tensor]


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
    chunk = chunk or max(1, min(CHUNK, _PAIRS // q.shape[2]))
    outs = []
    for start in range(0, q.shape[2], chunk):
        stop = min(start + chunk, q.shape[2])
        part = bias.part(rows=slice(None), queries=slice(start, stop), keys=slice(0, stop))
        seen = torch.ones(stop - start, stop, dtype=torch.bool, device=q.device).tril(start)[None]
        if document is not None:
            seen = seen & (document[:, start:stop, None] == document[:, None, :stop])
        inputs = q[:, :, start:stop], k[:, :, :stop], v[:, :, :stop]
        outs.append(checkpointed(_attend, *inputs, part, seen))
    return torch.cat(outs, 2)


def _attend(q: Tensor, k: Tensor, v: Tensor, bias: Bias, seen: Tensor) -> Tensor:
    # Keys grow by the queries of a chunk, so this holds once in so many of them.
    if k.shape[2] % _RELEASE_EVERY < q.shape[2] and not torch.compiler.is_compiling():
        release_freed()
    scores = scores_of(q, k, bias, seen, spread=True)
    return valued(scores.masked_fill(~seen[:, None], float("-inf")).softmax(-1), v, bias)


def release_freed() -> None:
    """Return freed memory of the host to the system, where the C library can (glibc).

    Chunks have ever more keys: what one frees is too small for the next, and the heap keeps it all.
    Under FIRE and TUPE a row of 8192 tokens held 3.9 and 3.6 GB, of which 0.3 were in use.
    """
    if (trim := _trim()) is not None:
        trim(0)


@functools.cache
def _trim() -> Callable[[int], int] | None:
    return getattr(ctypes.pythonapi, "malloc_trim", None)


def checkpointed(function: Callable[..., Tensor], *arguments: Any) -> Tensor:
    """Call a function, and again in the backward pass if there is one."""
    if not torch.is_grad_enabled():
        return function(*arguments)
    out: Tensor = checkpoint(function, *arguments, use_reentrant=False)
    return out


def uncompiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Keep a function out of compiled graphs.

    `torch.compiler.disable` at import would load Dynamo, which takes longer than torch itself.
    """

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling():
            return torch.compiler.disable(function)(*args, **kwargs)
        return function(*args, **kwargs)

    return call


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


def padded(v: Tensor, *, to: Tensor) -> Tensor:
    """Return values as wide as queries and keys, which an encoding may widen (PoPE)."""
    spare = to.shape[-1] - v.shape[-1]
    return F.pad(v, (0, spare)) if spare else v


def repeat_heads(k: Tensor, v: Tensor, *, n_head: int) -> tuple[Tensor, Tensor]:
    """Give each query head its key and value head (grouped-query attention, 2305.13245)."""
    groups = n_head // k.shape[1]
    if groups == 1:
        return k, v
    return k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
