"""A linear bias over a long row on the CPU: keys too far away to matter are never visited.

A slope lowers the score of a far key without bound, while |q||k| / sqrt(width) bounds what the
content can add. For query i and a key j before it, with r the bias row:

    score(i, i) - score(i, j) >= r_i - r_j - (max_j |q_i||k_j| - q_i.k_i) / sqrt(width)

Where the right side exceeds ln(time / tolerance) for all keys up to j and every query of a chunk,
these keys together hold less than `tolerance` of the weight of any of its queries, and the chunk
starts behind j, head by head: steep heads see a segment or two, flat ones everything. Under
BiPE-ALiBi with the paper's slopes 8 of 12 heads reach about ten segments.

Each chunk of queries runs the fused kernel twice, on itself (causal) and on its past, merged by
their log-sum-exp. The row is centred on the chunk, so that scores near the query keep all their
places however long the row is. The eager twin is eager.py, exact to the tolerance.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from bipe.attention.eager import repeat_heads
from bipe.attention.kernel import kernel_backward, kernel_dtype, kernel_forward, merged

# Tokens from which skipping pays for the chunks.
WORTH_FROM = 1024
# Queries a chunk: fewer skip more and pay the kernel's start more often.
CHUNK = 192
_KEYS_STEP = 64  # the kernel works on whole blocks of keys
_GROUP_GAP = 96  # keys: neighbouring heads whose reach differs less run together
# Share of pairs to visit above which one kernel for all is faster: in bfloat16, whose kernel
# loses more on small chunks, and otherwise.
_WORTH_REDUCED, _WORTH_KEYS = 0.6, 0.8
_TOLERANCE = 1 / 8  # in units of the rounding of the dtype


def banded_attention(
    q: Float[Tensor, "batch head time width"],
    k: Float[Tensor, "batch kv_head time width"],
    v: Float[Tensor, "batch kv_head time width"],
    row: Float[Tensor, "batch head time"],
    *,
    chunk: int = CHUNK,
    tolerance: float | None = None,
) -> Float[Tensor, "batch head time width"]:
    """Causal attention with `row` added to the scores of every query; CPU only.

    row: float64, so that it can be centred on each chunk without loss.
    tolerance: the most weight that the keys left out may hold; by default less than the
    rounding of the dtype.
    """
    k, v = repeat_heads(k, v, n_head=q.shape[1])
    share = torch.finfo(q.dtype).eps * _TOLERANCE if tolerance is None else tolerance
    return _banded(q, k, v, row, chunk, share)[0]


@dataclass(frozen=True, slots=True)
class _Part:
    """Queries of a chunk and of some heads, and the first key of their past."""

    heads: slice
    queries: slice
    past: slice

    def bias(self, row: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """The rows of the chunk and of its past, centred on its middle."""
        start, stop = self.queries.start, self.queries.stop
        centre = row[:, self.heads, (start + stop) // 2, None]
        centred = (row[:, self.heads, self.past.start : stop] - centre).to(dtype)
        return centred[..., start - self.past.start :], centred[..., : start - self.past.start]


def first_keys(q: Tensor, k: Tensor, row: Tensor, *, chunk: int, tolerance: float) -> Tensor:
    """The first key that each chunk of queries must visit: int64 [chunks, head]."""
    time, scale = q.shape[2], q.shape[-1] ** -0.5
    q, k = q.float(), k.float()
    largest = k.norm(dim=-1).cummax(-1).values  # of the keys up to each query
    # How much the content may lift a key above the query's own, with room for rounding.
    lift = (q.norm(dim=-1) * largest * 1.001 - (q * k).sum(-1)) * scale
    chunks = -(-time // chunk)
    needed = F.pad(row - lift - math.log(time / tolerance), (0, -time % chunk), value=math.inf)
    needed = needed.unflatten(-1, (chunks, chunk)).amin(-1)  # [b, h, chunks]
    first = torch.searchsorted(row.cummax(-1).values, needed).amin(0).T.contiguous()
    return torch.minimum(first, torch.arange(0, time, chunk)[:, None]) // _KEYS_STEP * _KEYS_STEP


def _parts(first: Tensor, q: Tensor, chunk: int) -> Iterator[_Part]:
    """What the kernel is run on; everything at once where there is little to skip."""
    time = q.shape[2]
    starts = torch.arange(0, time, chunk)[:, None]
    pairs = (starts - first + chunk / 2).sum() * chunk
    most = _WORTH_REDUCED if q.dtype.itemsize < 4 else _WORTH_KEYS
    if pairs > most * first.shape[1] * time * time / 2:
        yield _Part(slice(None), slice(0, time), slice(0, 0))
        return
    for number, heads in enumerate(first.tolist()):
        start = number * chunk
        queries = slice(start, min(start + chunk, time))
        begin = 0
        for head in range(1, len(heads) + 1):
            if head == len(heads) or abs(heads[head] - heads[begin]) > _GROUP_GAP:
                past = slice(min(heads[begin:head]), start)
                yield _Part(slice(begin, head), queries, past)
                begin = head


@torch.library.custom_op("bipe::banded_attention", mutates_args=(), device_types="cpu")
def _banded(
    q: Tensor, k: Tensor, v: Tensor, row: Tensor, chunk: int, tolerance: float
) -> tuple[Tensor, Tensor, Tensor]:
    first = first_keys(q, k, row, chunk=chunk, tolerance=tolerance)
    out, log_sum = _like(q, v), q.new_empty(q.shape[:3], dtype=kernel_dtype(q))
    for part in _parts(first, q, chunk):
        here = (slice(None), part.heads, part.queries)
        past = (slice(None), part.heads, part.past)
        on_self, on_past = part.bias(row, log_sum.dtype)
        found = kernel_forward(q[here], k[here], v[here], on_self, causal=True)
        if part.past.start < part.past.stop:
            far = kernel_forward(q[here], k[past], v[past], on_past, causal=False)
            found = merged(found, far)
        out[here], log_sum[here] = found
    return out, log_sum, first


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
    # Many chunks add to a key: in float32 at least.
    d_k, d_v = (torch.zeros(x.shape, dtype=log_sum.dtype) for x in (k, v))
    for part in _parts(first, q, chunk):
        here = (slice(None), part.heads, part.queries)
        past = (slice(None), part.heads, part.past)
        whole = out[here], log_sum[here].contiguous()
        found: list[Tensor] = []
        for keys, bias, causal in zip(
            (here, past), part.bias(row, log_sum.dtype), (True, False), strict=True
        ):
            if not bias.shape[-1]:
                continue
            qkv = q[here], k[keys], v[keys]
            dq, dk, dv = kernel_backward(grad[here], qkv, *whole, bias, causal=causal)
            d_k[keys] += dk
            d_v[keys] += dv
            found.append(dq)
        d_q[here] = found[0] if len(found) == 1 else found[0] + found[1]
    return d_q, d_k.to(k.dtype), d_v.to(v.dtype)


def _like(q: Tensor, width_of: Tensor) -> Tensor:
    """An empty tensor of q's shape, laid out [b, t, h, d], so that heads join without a copy."""
    batch, head, time, _ = q.shape
    return q.new_empty(batch, time, head, width_of.shape[-1]).transpose(1, 2)


@_banded.register_fake
def _(q, k, v, row, chunk, tolerance):  # type: ignore[no-untyped-def]
    chunks = -(-q.shape[2] // chunk)
    log_sum = q.new_empty(q.shape[:3], dtype=kernel_dtype(q))
    return _like(q, v), log_sum, torch.empty(chunks, q.shape[1], dtype=torch.int64)


@_banded_backward.register_fake
def _(grad, q, k, v, row, out, log_sum, first, chunk):  # type: ignore[no-untyped-def]
    return torch.empty_like(q), k.new_empty(k.shape), v.new_empty(v.shape)


def _save(ctx, inputs, output):  # type: ignore[no-untyped-def]
    q, k, v, row, ctx.chunk, _ = inputs
    ctx.save_for_backward(q, k, v, row, *output)


def _differentiate(ctx, grad, _log_sum, _first):  # type: ignore[no-untyped-def]
    return *_banded_backward(grad, *ctx.saved_tensors, ctx.chunk), None, None, None


_banded.register_autograd(_differentiate, setup_context=_save)
