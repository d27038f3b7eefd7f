"""A linear bias over a long row on the CPU, without visiting keys too far away to matter.

A slope lowers the score of a far key without bound, while |q||k| / sqrt(width) bounds what the
content can add. For query i and an earlier key j, with r the bias row:

    score(i, i) - score(i, j) >= r_i - r_j - (max_j |q_i||k_j| - q_i.k_i) / sqrt(width)

All keys for which the right side exceeds ln(keys / tolerance) together hold less than `tolerance`
of the weight of the query. Under BiPE-ALiBi with the paper's slopes (2401.16421) 8 of 12 heads see
no further than about ten segments. flex.py skips blocks by the same rule.

Each chunk of queries starts, per head, at the first key that can matter to any of them. It runs the
fused kernel on itself (causal) and on its past, and merges the two by their log-sum-exp. The row is
centred on the chunk, so that scores near the query keep all their digits in any row.
"""

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from bipe.attention.fused import (
    augmented_attention,
    bias_row_attention,
    featured,
    kernel_backward,
    kernel_forward,
    merged,
    unfilled,
)
from bipe.attention.heads import Keys, Queries, repeat_heads
from bipe.bias import Row

# Tokens from which skipping pays for the chunks.
WORTH_FROM = 1024
# Queries per chunk: fewer skip more keys, but start the kernel more often.
CHUNK = 192
_KEYS_STEP = 64  # the kernel works on whole blocks of keys
_GROUP_GAP = 96  # keys: neighbouring heads whose first keys differ less run together
# Share of pairs to visit above which a single call of the kernel is faster: in bfloat16, whose
# kernel loses more on small chunks, and in wider dtypes.
_WORTH_REDUCED, _WORTH_KEYS = 0.6, 0.8
# Without gradients in float32: keys from which skipping some pays, and what a row may span (in
# nats of a score) and yet round less than the products of queries and keys do.
_SKIPS_FROM, _EXACT_SPAN = 512, 32.0
_TOLERANCE = 1 / 8  # in units of the rounding of the dtype
_ROUNDING = 1.001  # margin for the rounding of the norms in `least_bias`


def banded_attention(q: Queries, k: Keys, v: Keys, row: Row, *, chunk: int = CHUNK) -> Queries:
    """Attend causally from the last queries, with `row` added to all their scores; CPU only.

    row: float64, to be centred without loss.
    """
    k, v = repeat_heads(k, v, n_head=q.shape[1])
    return _banded(q, k, v, row, chunk, default_tolerance(q.dtype))[0]


def exact_banded_attention(
    q: Queries, k: Keys, v: Keys, row: Row, *, chunk: int = CHUNK
) -> Queries:
    """Do the same without gradients, in float32 as exactly as attention without a bias.

    A row added to finished scores costs them digits: with slopes of 96 up to 4e-4 of an output at
    700 tokens. As features (fused.py) it costs none, for a tenth more time. Raises ValueError where
    gradients are asked for.
    """
    if q.requires_grad and torch.is_grad_enabled():
        raise ValueError("attention path 'exact_banded' has no gradients; set attention=auto")
    query, key = q.shape[2], k.shape[2]
    if q.dtype != torch.float32:  # not worth the time in other dtypes
        if query == key < WORTH_FROM:
            return bias_row_attention(q, k, v, row)
        return banded_attention(q, k, v, row, chunk=chunk)
    if query == key < _SKIPS_FROM:
        return augmented_attention(q, k, v, row)
    return _exact(q, k, v, row, chunk, default_tolerance(q.dtype))


def costs_no_digits(row: Row) -> bool:
    """Return whether a row can be added to finished scores as exactly as no bias is."""
    return bool((row.amax(-1) - row.amin(-1)).amax() <= _EXACT_SPAN)


@dataclass(frozen=True, slots=True)
class _Part:
    """Some heads of a chunk of queries, its own keys, and the past keys that it visits."""

    heads: slice
    queries: slice
    own: slice
    past: slice

    def at(self, time: slice) -> tuple[slice, slice, slice]:
        """Return the index of these heads and a time in a tensor ``[b, h, t, ...]``."""
        return slice(None), self.heads, time

    def passes(self) -> Iterator[tuple[slice, bool]]:
        """Yield the keys to visit, and whether causally."""
        yield self.own, True
        if self.past.start < self.past.stop:
            yield self.past, False

    def bias(self, row: Tensor, keys: slice, dtype: torch.dtype) -> Tensor:
        centre = row[:, self.heads, (self.own.start + self.own.stop) // 2, None]
        return (row[:, self.heads, keys] - centre).to(dtype)


def first_keys(q: Tensor, k: Tensor, row: Tensor, *, chunk: int, tolerance: float) -> Tensor:
    """Return the first key that each chunk of queries must visit: int64 [chunks, head]."""
    query, key = q.shape[2], k.shape[2]
    # With a NaN all keys matter, so that it reaches the output.
    needed = least_bias(q, k, row, tolerance=tolerance).nan_to_num(-math.inf)
    chunks = -(-query // chunk)
    needed = F.pad(needed, (0, -query % chunk), value=math.inf)
    needed = needed.unflatten(-1, (chunks, chunk)).amin(-1)  # [b, h, chunks]
    # The running maximum is sorted, and reaches `needed` with the first key that does; the
    # earliest one of the batch counts.
    first = torch.searchsorted(row.cummax(-1).values, needed).amin(0).T.contiguous()
    starts = torch.arange(key - query, key, chunk)[:, None]
    return torch.minimum(first, starts) // _KEYS_STEP * _KEYS_STEP


def _parts(first: Tensor, q: Tensor, k: Tensor, chunk: int) -> Iterator[_Part]:
    """Yield the parts of each chunk, or one part of everything if there is little to skip.

    Heads with about the same first key share a part.
    """
    query, key = q.shape[2], k.shape[2]
    past = key - query
    starts = torch.arange(past, key, chunk)[:, None]
    # Of each chunk: the past that it visits, and on average half of itself.
    pairs = (starts - first + chunk / 2).sum() * chunk
    most = _WORTH_REDUCED if q.dtype.itemsize < 4 else _WORTH_KEYS
    if pairs > most * first.shape[1] * query * (past + query / 2):
        yield _Part(slice(None), slice(0, query), slice(past, key), slice(0, past))
        return
    for number, heads in enumerate(first.tolist()):
        last = slice(past + number * chunk, min(past + (number + 1) * chunk, key))
        queries = slice(last.start - past, last.stop - past)
        begin = 0
        for head in range(1, len(heads) + 1):
            if head == len(heads) or abs(heads[head] - heads[begin]) > _GROUP_GAP:
                visited = slice(min(heads[begin:head]), last.start)
                yield _Part(slice(begin, head), queries, last, visited)
                begin = head


def default_tolerance(dtype: torch.dtype) -> float:
    """Return the maximum weight of skipped keys: less than the rounding of the dtype."""
    return torch.finfo(dtype).eps * _TOLERANCE


def least_bias(
    q: Queries, k: Keys, row: Row, *, tolerance: float
) -> Float[Tensor, "batch head query"]:
    """Return the bias below which no key matters to each query; NaN where q or k are."""
    past, groups = k.shape[2] - q.shape[2], q.shape[1] // k.shape[1]
    precise = torch.promote_types(q.dtype, torch.float32)
    norms = torch.linalg.vector_norm(k, dim=-1, dtype=precise)
    largest = norms.cummax(-1).values[..., past:]  # of the keys up to each query
    recent = k[:, :, past:]
    if groups > 1:
        largest, recent = (x.repeat_interleave(groups, 1) for x in (largest, recent))
    bound = torch.linalg.vector_norm(q, dim=-1, dtype=precise) * largest * _ROUNDING
    lift = (bound - (q.to(precise) * recent.to(precise)).sum(-1)) * q.shape[-1] ** -0.5
    return row[..., past:] - lift - math.log(k.shape[2] / tolerance)


@torch.library.custom_op("bipe::banded_attention", mutates_args=(), device_types="cpu")
def _banded(
    q: Tensor, k: Tensor, v: Tensor, row: Tensor, chunk: int, tolerance: float
) -> tuple[Tensor, Tensor, Tensor]:
    first = first_keys(q, k, row, chunk=chunk, tolerance=tolerance)
    out, log_sum = unfilled(q, v)
    for part in _parts(first, q, k, chunk):
        here, outputs = part.at(part.queries), []
        for keys, causal in part.passes():
            there, bias = part.at(keys), part.bias(row, keys, log_sum.dtype)
            outputs.append(kernel_forward(q[here], k[there], v[there], bias, causal=causal))
        out[here], log_sum[here] = functools.reduce(merged, outputs)
    return out, log_sum, first


@torch.library.custom_op("bipe::exact_banded_attention", mutates_args=(), device_types="cpu")
def _exact(q: Tensor, k: Tensor, v: Tensor, row: Tensor, chunk: int, tolerance: float) -> Tensor:
    first = first_keys(q, k, row, chunk=chunk, tolerance=tolerance)
    lowest = int(first.min())
    k, v = repeat_heads(k[:, :, lowest:], v[:, :, lowest:], n_head=q.shape[1])
    (out, _), row, scale = unfilled(q, v), row[..., lowest:], q.shape[-1] ** -0.5
    for part in _parts(first - lowest, q, k, chunk):
        here, outputs = part.at(part.queries), []
        q_row = part.bias(row, part.own, torch.float64)
        for keys, causal in part.passes():
            there, k_row = part.at(keys), part.bias(row, keys, torch.float64)
            qkv = featured(q[here], k[there], v[there], q_row=q_row, k_row=k_row)
            outputs.append(kernel_forward(*qkv, None, causal=causal, scale=scale))
        out[here] = functools.reduce(merged, outputs)[0][..., : v.shape[-1]]
    return out


@_exact.register_fake
def _(q, k, v, row, chunk, tolerance):  # type: ignore[no-untyped-def]
    return unfilled(q, v)[0]


@torch.library.custom_op("bipe::banded_attention_backward", mutates_args=(), device_types="cpu")
def _banded_backward(
    grad: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    row: Tensor,
    out: Tensor,
    log_sum: Tensor,
    first: Tensor,
    chunk: int,
) -> tuple[Tensor, Tensor, Tensor]:
    d_q = torch.empty_like(q)
    # Many chunks add to the gradient of a key: sum in float32 at least.
    d_k, d_v = (torch.zeros(x.shape, dtype=log_sum.dtype) for x in (k, v))
    for part in _parts(first, q, k, chunk):
        here = part.at(part.queries)
        whole = out[here], log_sum[here].contiguous()
        grads: list[Tensor] = []
        for keys, causal in part.passes():
            there, bias = part.at(keys), part.bias(row, keys, log_sum.dtype)
            qkv = q[here], k[there], v[there]
            dq, dk, dv = kernel_backward(grad[here], qkv, *whole, bias, causal=causal)
            d_k[there] += dk
            d_v[there] += dv
            grads.append(dq)
        d_q[here] = grads[0] if len(grads) == 1 else grads[0] + grads[1]
    return d_q, d_k.to(k.dtype), d_v.to(v.dtype)


@_banded.register_fake
def _(q, k, v, row, chunk, tolerance):  # type: ignore[no-untyped-def]
    chunks = -(-q.shape[2] // chunk)
    return *unfilled(q, v), torch.empty(chunks, q.shape[1], dtype=torch.int64)


@_banded_backward.register_fake
def _(grad, q, k, v, row, out, log_sum, first, chunk):  # type: ignore[no-untyped-def]
    return torch.empty_like(q), k.new_empty(k.shape), v.new_empty(v.shape)


def _save(ctx, inputs, output):  # type: ignore[no-untyped-def]
    q, k, v, row, ctx.chunk, _ = inputs
    ctx.save_for_backward(q, k, v, row, *output)


def _differentiate(ctx, grad, _log_sum, _first):  # type: ignore[no-untyped-def]
    return *_banded_backward(grad, *ctx.saved_tensors, ctx.chunk), None, None, None


_banded.register_autograd(_differentiate, setup_context=_save)
