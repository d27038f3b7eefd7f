"""Passes spelled out: the reference of chunked.py and fused.py, with all scores in memory."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from bipe.attention.eager import repeat_heads
from bipe.far.view import View


def eager_passes(
    q: Float[Tensor, "batch head query width"],
    k: Float[Tensor, "batch kv_head key width"],
    v: Float[Tensor, "batch kv_head key width"],
    *,
    views: list[View],
    where: list[Bool[Tensor, "batch query key"]],
) -> Float[Tensor, "batch head query width"]:
    """One softmax over all passes; `where` says which pairs each holds."""
    precise = torch.promote_types(q.dtype, torch.float32)
    scores = torch.full((), float("-inf"), dtype=precise, device=q.device)
    for view, inside in zip(views, where, strict=True):
        keys, values = repeat_heads(view.key(k), v, n_head=q.shape[1])
        found = (view.query(q) @ keys.transpose(-1, -2)).to(precise) / q.shape[-1] ** 0.5
        bias = view.bias()
        if bias is not None:
            found = found + bias.dense(precise)
        scores = torch.where(inside[:, None], found, scores)
    return scores.softmax(-1).to(v.dtype) @ values
