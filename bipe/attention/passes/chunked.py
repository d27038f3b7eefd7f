"""Passes a block of queries at a time: any bias, any device, with gradients.

Scores of block x keys are all that is in memory; a block is computed again in the backward pass.
The passes of a block are side by side under one softmax, each over the keys that the block meets
in it. The eager twin is `eager_passes`.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from bipe.attention.eager import Keys, Queries, repeat_heads
from bipe.attention.passes.views import Range, View
from bipe.bias import Bias

CHUNK = 128  # queries


def chunked_passes(
    q: Queries, k: Keys, v: Keys, *, views: list[View], ranges: list[Range], chunk: int = CHUNK
) -> Queries:
    """Attend to the keys that `ranges` give each query, as `views` turn them."""
    n_head, n_query = q.shape[1], q.shape[2]
    turned = []
    for view in views:
        keys, values = repeat_heads(view.key(k), v[:, :, view.begin : view.end], n_head=n_head)
        turned.append((view.query(q), keys, values))
    # Both ends never fall with the query: those of a block are at its first and last one.
    firsts = [found.start.amin(0).tolist() for found in ranges]
    lasts = [found.stop.amax(0).tolist() for found in ranges]
    outs = []
    for begin in range(0, n_query, chunk):
        end = min(begin + chunk, n_query)
        parts = []
        for view, found, first, last, (qs, ks, vs) in zip(
            views, ranges, firsts, lasts, turned, strict=True
        ):
            # A query without keys in the pass has an empty range that may lie outside the view.
            start, stop = max(first[begin], view.begin), min(last[end - 1], view.end)
            if start >= stop:
                continue
            inside = slice(start - view.begin, stop - view.begin)
            place = torch.arange(start, stop, device=q.device)
            mask = place >= found.start[:, begin:end, None]
            mask = mask & (place < found.stop[:, begin:end, None])
            bias = view.bias(queries=slice(begin, end), keys=slice(start, stop))
            parts.append(
                (qs[:, :, begin:end], ks[:, :, inside], vs[:, :, inside], mask[:, None], bias)
            )
        if torch.is_grad_enabled():
            outs.append(checkpoint(_attend, parts, use_reentrant=False))
        else:
            outs.append(_attend(parts))
    return torch.cat(outs, 2)


def _attend(parts: list[tuple[Tensor, Tensor, Tensor, Tensor, Bias | None]]) -> Tensor:
    scores = []
    for q, k, _, mask, bias in parts:
        precise = torch.promote_types(q.dtype, torch.float32)
        found = (q @ k.transpose(-1, -2)).to(precise) / q.shape[-1] ** 0.5
        if bias is not None:
            found = found + bias.dense(precise)
        scores.append(found.masked_fill(~mask, float("-inf")))
    values = torch.cat([part[2] for part in parts], 2)
    return torch.cat(scores, -1).softmax(-1).to(values.dtype) @ values
