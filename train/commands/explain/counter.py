"""Operations as torch counts them while a model is run, with the kernels that it does not know."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode


def counter() -> FlopCounterMode:
    """Return torch's counter, which counts what is run; fused causal kernels do half the pairs."""
    aten = torch.ops.aten
    kernels = {
        aten._scaled_dot_product_flash_attention_for_cpu: _forward_operations,
        aten._scaled_dot_product_flash_attention_for_cpu_backward: _backward_operations,
    }
    return FlopCounterMode(display=False, custom_mapping=dict(kernels))


def _forward_operations(
    q: Any, k: Any, v: Any, *rest: Any, out_shape: Any = None, **named: Any
) -> int:
    return _pairs(q, k, rest[1] if len(rest) > 1 else named.get("is_causal")) * 4 * int(q[-1])


def _backward_operations(
    grad: Any, q: Any, k: Any, v: Any, *rest: Any, out_shape: Any = None, **named: Any
) -> int:
    # (grad_out, q, k, v, out, logsumexp, dropout_p, is_causal, *, attn_mask, scale)
    return _pairs(q, k, rest[3]) * 10 * int(q[-1])


def _pairs(q: Any, k: Any, causal: Any) -> int:
    batch, head, queries, _ = q
    keys = k[-2]
    return int(batch * head * (queries * (keys + 1) // 2 if causal else queries * keys))
