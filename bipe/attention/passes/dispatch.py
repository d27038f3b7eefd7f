"""The one function that chooses how several passes are computed.

    every key is in the first pass   as without the method (attention/dispatch.py), so that a
                                     window beyond the row changes no bit
    CPU, no bias or one pass         fused: the kernel, pass by pass, merged by log-sum-exp
    anything else                    chunked: any bias, any device, with gradients
    path="eager"                     the reference, with all scores in memory

Keys come unrotated, those of a cache too, and are turned for each pass. Which keys a block of
queries meets is read on the host, once per forward pass.
"""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from bipe.attention.dispatch import Path, choose_attention
from bipe.attention.eager import (
    CHUNK,
    Attention,
    Keys,
    Queries,
    allowed_pairs,
    checkpointed,
    repeat_heads,
    scores_of,
)
from bipe.attention.fused import bias_row_works
from bipe.attention.passes.fused import blocks_of, fused_passes
from bipe.attention.passes.views import Range, View, key_ranges, view_of
from bipe.bias import Bias, LinearBias
from bipe.encodings.base import counts_length
from bipe.encodings.far import Pass
from bipe.positions import Level, Positions

_LEVELS: dict[str, Level] = {"tokens": "token", "segments": "inter"}


@torch.compiler.disable
def pass_attention(
    scheme: Any, *, q_at: Positions, k_at: Positions, dtype: torch.dtype, path: Path = "auto"
) -> Attention:
    """Return ``attend(q, k, v)`` of unrotated queries and keys, queries being the last of the keys.

    scheme: with a method (`scheme.far`). dtype: of the hidden states.
    Raises ValueError for a path that has no form for passes.
    """
    k_at = replace(k_at, lengths=q_at.lengths)
    level = _LEVELS.get(scheme.far.unit, scheme.level)
    q_ids, k_ids = getattr(q_at, level), getattr(k_at, level)
    passes: tuple[Pass, ...] = scheme.far.passes(q_ids, k_ids)
    precise = torch.promote_types(dtype, torch.float32)
    n_query, n_key = q_ids.shape[1], k_ids.shape[1]
    see = functools.partial(
        view_of, scheme, q_at=q_at, k_at=k_at, dtype=precise, scale=scheme.far.scale(q_ids)
    )
    everything = slice(0, n_key)
    where = functools.partial(key_ranges, document=k_at.document, ids=k_ids, n_query=n_query)
    ranges = where(passes)
    if torch.equal(ranges[0].start, where((Pass(),))[0].start):
        view = see(passes[0], keys=everything)
        asked: Path = "auto" if path == "chunked" else path
        plain = choose_attention(bias=view.bias(), q_at=q_at, k_at=k_at, path=asked)
        return functools.partial(_plain, view=view, attend=plain)
    if path == "eager":
        allowed = allowed_pairs(q_at.document, k_at.document)
        views = [see(part, keys=everything) for part in passes]
        inside = members(passes, ids=k_ids, allowed=allowed)
        return functools.partial(eager_passes, views=views, where=inside)
    if path not in ("auto", "chunked"):
        raise ValueError(
            f"attention path {path!r} has no form for passes, and the model has {scheme.far}: set "
            "attention to auto, chunked or eager"
        )
    # Frequencies that depend on the length of documents need all of their keys.
    whole = q_at.lengths is None and counts_length(scheme)
    views, used = [], []
    for part, found in zip(passes, ranges, strict=True):
        keys = _bounds(found)
        if keys.start < keys.stop:
            views.append(see(part, keys=everything if whole else keys))
            used.append(found)
    if path == "chunked" or q_ids.device.type != "cpu" or not bias_row_works():
        return functools.partial(chunked_passes, views=views, ranges=used)
    bias = scheme.bias(q_at, k_at)
    if bias is not None and not (isinstance(bias, LinearBias) and len(passes) == 1):
        return functools.partial(chunked_passes, views=views, ranges=used)
    blocks = blocks_of(views, used)
    return functools.partial(fused_passes, views=views, ranges=used, blocks=blocks, bias=bias)


def _plain(q: Tensor, k: Tensor, v: Tensor, *, view: View, attend: Attention) -> Tensor:
    return attend(view.query(q), view.key(k), v)


def _bounds(found: Range) -> slice:
    """Return the keys that any query meets."""
    some = found.start < found.stop
    if not bool(some.any()):
        return slice(0, 0)
    return slice(int(found.start[some].min()), int(found.stop[some].max()))


def members(
    passes: tuple[Pass, ...],
    *,
    ids: Int[Tensor, "batch key"],
    allowed: Bool[Tensor, "batch query key"],
) -> list[Bool[Tensor, "batch query key"]]:
    """Return the keys of each pass by the definition, the reference of `key_ranges`."""
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
    precise = torch.promote_types(q.dtype, torch.float32)
    scores = torch.full((), float("-inf"), dtype=precise, device=q.device)
    for view, inside in zip(views, where, strict=True):
        keys, values = repeat_heads(view.key(k), v, n_head=q.shape[1])
        scores = torch.where(inside[:, None], scores_of(view.query(q), keys, view.bias()), scores)
    return scores.softmax(-1).to(v.dtype) @ values


def chunked_passes(
    q: Queries, k: Keys, v: Keys, *, views: list[View], ranges: list[Range], chunk: int = CHUNK
) -> Queries:
    """Attend to the keys that `ranges` give each query, as `views` turn them.

    Scores of a block of queries x keys are all that is in memory. The passes of a block are side by
    side under one softmax, each over the keys that the block meets in it.
    """
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
        outs.append(checkpointed(_attend, parts))
    return torch.cat(outs, 2)


def _attend(parts: list[tuple[Tensor, Tensor, Tensor, Tensor, Bias | None]]) -> Tensor:
    scores = [
        scores_of(q, k, bias).masked_fill(~mask, float("-inf")) for q, k, _, mask, bias in parts
    ]
    values = torch.cat([part[2] for part in parts], 2)
    return torch.cat(scores, -1).softmax(-1).to(values.dtype) @ values
