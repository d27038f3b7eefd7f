"""The fused CPU kernel below scaled_dot_product_attention, with what that function does not offer.

It takes `is_causal` together with a mask, of query stride 0 here, and gives the log-sum-exp of the
scores: so a bias row costs nothing, and passes over parts of the keys can be merged. The operator
is private to torch; fused.py tries it once before anything relies on it.
"""

from __future__ import annotations

import torch
from torch import Tensor


def kernel_dtype(q: Tensor) -> torch.dtype:
    """What a bias row is taken in: float32 for reduced-precision q as well, float64 for its own."""
    return torch.promote_types(q.dtype, torch.float32)


def kernel_forward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    row: Tensor | None,
    *,
    causal: bool,
    scale: float | None = None,
) -> tuple[Tensor, Tensor]:
    """Output and log-sum-exp, ``[b, h, t, d]`` and ``[b, h, t]``; `row` is ``[b, h, key]``.

    scale: of the scores; by default 1 / sqrt(width).
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
    """Gradients of q, k and v; `out` and `log_sum` may be those of several merged passes."""
    return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward(
        grad, *qkv, out, log_sum, 0.0, causal, attn_mask=_mask(row, qkv[0])
    )


def merged(own: tuple[Tensor, Tensor], far: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """One output and log-sum-exp of two passes over different keys."""
    total = torch.logaddexp(own[1], far[1])
    out = sum(part * (part_sum - total).exp()[..., None] for part, part_sum in (own, far))
    assert isinstance(out, Tensor)
    return out, total


def _mask(row: Tensor | None, q: Tensor) -> Tensor | None:
    if row is None or row.ndim == 4:
        return row
    return row.to(kernel_dtype(q))[:, :, None].expand(*q.shape[:3], row.shape[-1])
