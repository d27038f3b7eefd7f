"""Attention without a T x T tensor, for no bias or a linear one, in one document per row.

causal      no bias: the fused causal kernel.
bias_row    a linear bias on the CPU: the same kernel, with a mask of shape (batch, head, 1, key)
            expanded over queries with stride 0. Softmax ignores what a query adds to all its
            scores, so the row slope * k_id is enough.
augmented   a linear bias on any device: features of keys and queries add r_j - r_i to the scores of
            the causal kernel. They come first in the head, so that their difference is exact before
            anything is added; last, or without the query's, the error is 40 to 400 times as large.
last query  one query and cached keys: it sees every key, so there is no mask.
chunk       several last queries and cached keys, on the CPU without gradients: the past in full and
            the chunk itself causally, merged by their log-sum-exp.

The CPU operator below scaled_dot_product_attention takes `is_causal` together with a mask, and
returns the log-sum-exp of the scores, so that passes over parts of the keys can be merged. It is
private to torch: `bias_row_works` tries it once.
"""

import functools
from concurrent.futures import ThreadPoolExecutor

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from bipe.attention.heads import Keys, Queries, repeat_heads
from bipe.bias import Row

# Numbers of a dtype that hold one bias: 3 x 8 bits of bfloat16 hold what float32 holds.
_PIECES = {torch.float64: 1, torch.float32: 2, torch.bfloat16: 3, torch.float16: 3}


def causal_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Attend causally without a bias. *Shape:* ``(batch, head, time, head_width)``."""
    grouped = q.shape[1] != k.shape[1]
    return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=grouped)


def bias_row_attention(q: Tensor, k: Tensor, v: Tensor, row: Row) -> Tensor:
    """Attend causally with `row` added to the scores of every query; CPU only."""
    k, v = repeat_heads(k, v, n_head=q.shape[1])
    return _BiasRow.apply(q, k, v, row)


def augmented_attention(q: Tensor, k: Tensor, v: Tensor, row: Row) -> Tensor:
    """Attend causally with `row` added to the scores of every query; any device."""
    k, v = repeat_heads(k, v, n_head=q.shape[1])
    out = F.scaled_dot_product_attention(
        *featured(q, k, v, q_row=row, k_row=row), is_causal=True, scale=q.shape[-1] ** -0.5
    )
    return out[..., : v.shape[-1]]


def featured(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    q_row: Float[Tensor, "batch head query"],
    k_row: Float[Tensor, "batch head key"],
) -> tuple[Tensor, Tensor, Tensor]:
    """Return q and k with features in front that add k_row - q_row to scores, and padded v.

    Scores are to be scaled by the width that q had before.
    """
    scale = q.shape[-1] ** -0.5
    q_pieces, k_pieces = (_exact_pieces(x.double() / scale, q.dtype) for x in (q_row, k_row))
    # Alternating key and query: the largest pieces cancel first.
    of_keys = torch.stack((k_pieces, torch.ones_like(k_pieces)), -1).flatten(-2)
    of_queries = torch.stack((torch.ones_like(q_pieces), -q_pieces), -1).flatten(-2)
    # Kernels need widths of q, k and v that are multiples of 8.
    spare = -of_keys.shape[-1] % 8
    of_keys, of_queries = F.pad(of_keys, (0, spare)), F.pad(of_queries, (0, spare))
    return (
        torch.cat((of_queries, q), -1),
        torch.cat((of_keys, k), -1),
        F.pad(v, (0, of_keys.shape[-1])),
    )


def _exact_pieces(values: Tensor, dtype: torch.dtype) -> Tensor:
    """Split float64 values into a last axis of `dtype` numbers that add up to them."""
    pieces = []
    for _ in range(_PIECES[dtype]):
        pieces.append(values.to(dtype))
        values = values - pieces[-1].double()
    return torch.stack(pieces, -1)


def bias_row_works() -> bool:
    """Try the private CPU operator once; without it, the augmented path is taken."""
    return _bias_row_works()


# torch.compiler.assume_constant_result, which would import dynamo: the trial is not to be traced.
bias_row_works._dynamo_marked_constant = True  # type: ignore[attr-defined]


@functools.cache
def _bias_row_works() -> bool:
    # The first caller may be under inference_mode, autocast or a trace of torch.export, which are
    # all of its thread; random numbers would change its state.
    with ThreadPoolExecutor(1) as apart:
        return apart.submit(_try_bias_row).result()


def _try_bias_row() -> bool:
    q = torch.linspace(-1, 1, 64, dtype=torch.float32).sin().view(1, 1, 8, 8).requires_grad_()
    row = torch.arange(8, dtype=torch.float32).view(1, 1, 8)
    scores = q @ q.transpose(-1, -2) / 8**0.5 + row
    hidden = torch.ones(8, 8, dtype=torch.bool).triu(1)
    expected = scores.masked_fill(hidden, float("-inf")).softmax(-1) @ q
    try:
        out = bias_row_attention(q, q, q, row)
        ours, theirs = (torch.autograd.grad(x.square().sum(), q)[0] for x in (out, expected))
    except (RuntimeError, AttributeError, TypeError):
        return False
    return torch.allclose(out, expected, atol=1e-5) and torch.allclose(ours, theirs, atol=1e-4)


def last_query_attention(
    q: Float[Tensor, "batch head 1 width"], k: Keys, v: Keys, *, bias: Tensor | None
) -> Float[Tensor, "batch head 1 width"]:
    """Attend from one query per row to all keys. bias: ``(batch, head or 1, 1, key)``."""
    # Heads of a group are queries of the same keys: no key is repeated.
    grouped = q.reshape(q.shape[0], k.shape[1], -1, q.shape[-1])
    if bias is None:
        return F.scaled_dot_product_attention(grouped, k, v).reshape(q.shape)
    precise = kernel_dtype(q)
    scores = (grouped @ k.transpose(-1, -2)).to(precise).view(*q.shape[:3], -1)
    weights = (scores * q.shape[-1] ** -0.5 + bias.to(precise)).softmax(-1).to(v.dtype)
    return (weights.view(*grouped.shape[:3], -1) @ v).view_as(q)


def chunk_attention(q: Queries, k: Keys, v: Keys) -> Queries:
    """Attend from the last queries to the past and causally to themselves; CPU only."""
    k, v = repeat_heads(k, v, n_head=q.shape[1])
    past = k.shape[2] - q.shape[2]
    output = kernel_forward(q, k[:, :, past:], v[:, :, past:], None, causal=True)
    if not past:
        return output[0]
    far = kernel_forward(q, k[:, :, :past], v[:, :, :past], None, causal=False)
    return merged(output, far)[0].to(q.dtype)


def kernel_dtype(q: Tensor) -> torch.dtype:
    """Return the dtype of a bias row: at least float32."""
    return torch.promote_types(q.dtype, torch.float32)


def unfilled(q: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """Return output and log-sum-exp to fill, laid out [b, t, h, d]: heads join without a copy."""
    batch, head, time, _ = q.shape
    output = q.new_empty(batch, time, head, v.shape[-1]).transpose(1, 2)
    return output, q.new_empty(q.shape[:3], dtype=kernel_dtype(q))


def kernel_forward(
    q: Tensor, k: Tensor, v: Tensor, row: Tensor | None, *, causal: bool, scale: float | None = None
) -> tuple[Tensor, Tensor]:
    """Return output ``[b, h, t, d]`` and log-sum-exp ``[b, h, t]``.

    row: added to scores, ``[b, h, key]``, or a mask of its own per query, ``[b, h, t, key]``.
    """
    return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        q, k, v, 0.0, causal, attn_mask=_mask(row, q), scale=scale
    )


def kernel_backward(
    grad: Tensor,
    qkv: tuple[Tensor, Tensor, Tensor],
    out: Tensor,
    log_sum: Tensor,
    row: Tensor | None,
    *,
    causal: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return gradients of q, k, v; `out` and `log_sum` may be those of several merged passes."""
    return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward(
        grad, *qkv, out, log_sum, 0.0, causal, attn_mask=_mask(row, qkv[0])
    )


def merged(own: tuple[Tensor, Tensor], far: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """Merge the outputs and log-sum-exps of two passes over different keys."""
    total = torch.logaddexp(own[1], far[1])
    out = sum(part * (part_sum - total).exp()[..., None] for part, part_sum in (own, far))
    assert isinstance(out, Tensor)
    return out, total


def _mask(row: Tensor | None, q: Tensor) -> Tensor | None:
    if row is None or row.ndim == 4:
        return row
    return row.to(kernel_dtype(q))[:, :, None].expand(*q.shape[:3], row.shape[-1])


class _BiasRow(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, row):  # type: ignore[no-untyped-def]
        out, log_sum = kernel_forward(q, k, v, row, causal=True)
        ctx.save_for_backward(q, k, v, row, out, log_sum)
        return out

    @staticmethod
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        q, k, v, row, out, log_sum = ctx.saved_tensors
        return *kernel_backward(grad, (q, k, v), out, log_sum, row, causal=True), None
