"""Passes under one softmax, with their scores in memory: any bias, with gradients.

`eager_passes` holds all scores and is the reference. `chunked_passes` holds those of a block of
queries and computes them again in the backward pass.
"""

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from bipe.attention.eager import CHUNK, Keys, Queries, checkpointed, scores_of
from bipe.attention.passes.views import View
from bipe.bias import Bias
from bipe.encodings.far import Pass


def members(
    passes: tuple[Pass, ...],
    *,
    ids: Int[Tensor, "batch key"],
    allowed: Bool[Tensor, "batch query key"],
) -> list[Bool[Tensor, "batch query key"]]:
    """Return the pairs of each pass by its definition: the reference of `key_ranges`."""
    found, left = [], allowed
    for part in passes:
        inside = left
        if part.first is not None:
            inside = left & (ids[:, None, :] >= part.first[:, :, None])
        found.append(inside)
        left = left & ~inside
    return found


def eager_passes(
    q: Queries, k: Keys, v: Keys, *, views: list[View], where: list[Bool[Tensor, "batch query key"]]
) -> Queries:
    """Attend with one softmax over all passes; `where` holds the pairs of each."""
    scores, values = torch.full((), float("-inf"), device=q.device), v
    for view, inside in zip(views, where, strict=True):
        qs, ks, values = view.turned(q, k, v)
        scores = torch.where(inside[:, None], scores_of(qs, ks, view.bias()), scores)
    return (scores.softmax(-1).to(v.dtype) @ values)[..., : v.shape[-1]]


def chunked_passes(
    q: Queries, k: Keys, v: Keys, *, views: list[View], chunk: int = CHUNK
) -> Queries:
    """Attend to the keys that the views give each query."""
    turned = [view.turned(q, k, v) for view in views]
    # Ranges never decrease along queries: the first and the last query of a block bound them.
    firsts = [view.met.start.amin(0).tolist() for view in views]
    lasts = [view.met.stop.amax(0).tolist() for view in views]
    outs = []
    for begin in range(0, q.shape[2], chunk):
        queries = slice(begin, min(begin + chunk, q.shape[2]))
        parts = []
        for view, first, last, (qs, ks, vs) in zip(views, firsts, lasts, turned, strict=True):
            # A query without keys in the pass has an empty range that may lie outside the view.
            start, stop = (
                max(first[begin], view.keys.start),
                min(last[queries.stop - 1], view.keys.stop),
            )
            if start >= stop:
                continue
            keys = slice(start, stop)
            inside = slice(start - view.keys.start, stop - view.keys.start)
            mask = view.met.holds(queries=queries, keys=keys)[:, None]
            bias = view.bias(queries=queries, keys=keys)
            parts.append((qs[:, :, queries], ks[:, :, inside], vs[:, :, inside], mask, bias))
        outs.append(checkpointed(_attend, parts))
    return torch.cat(outs, 2)[..., : v.shape[-1]]


def _attend(parts: list[tuple[Tensor, Tensor, Tensor, Tensor, Bias | None]]) -> Tensor:
    scores = [
        scores_of(q, k, bias).masked_fill(~mask, float("-inf")) for q, k, _, mask, bias in parts
    ]
    values = torch.cat([part[2] for part in parts], 2)
    return torch.cat(scores, -1).softmax(-1).to(values.dtype) @ values
