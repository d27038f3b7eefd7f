"""Attention over several passes under one softmax, for methods that change distances.

How they are computed:

    every key is in the first pass   as without the method (attention/dispatch.py), so that a
                                     window beyond the row changes no bit
    CPU, no bias, or a linear one    fused: the kernel, pass by pass, merged by log-sum-exp
        with the ids as they are
    anything else                    chunked
    path="flex", ids as they are     FlexAttention over the keys of all passes; not tried on a GPU
    path="eager"                     the reference, with all scores in memory

Chunked passes hold the scores of a block of queries, and compute them again in the backward pass.

Keys come unrotated, also from a cache, and are rotated for each pass. The keys that a block of
queries meets are read on the host, once per forward pass.
"""

import functools
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from bipe.attention import Path
from bipe.attention.chunked import CHUNK, checkpointed
from bipe.attention.dispatch import choose_attention, uncompiled
from bipe.attention.eager import allowed_pairs, scores_of
from bipe.attention.fused import bias_row_works
from bipe.attention.heads import Attention, Keys, Queries, padded
from bipe.attention.passes.fused import blocks_of, flex_passes, fused_passes
from bipe.attention.passes.views import Range, View, gathered, key_ranges
from bipe.bias import Bias, SeparableBias
from bipe.encodings.base import counts_length
from bipe.encodings.far import Pass
from bipe.positions import Level, Positions

_LEVELS: dict[str, Level] = {"tokens": "token", "segments": "inter"}


@uncompiled
def pass_attention(
    scheme: Any, *, q_at: Positions, k_at: Positions, dtype: torch.dtype, path: Path = "auto"
) -> Attention:
    """Return ``attend(q, k, v)`` for unrotated q and k; queries are the last of the keys.

    dtype: of the hidden states. Raises ValueError for a path that has no form for passes.
    """
    k_at = replace(k_at, lengths=q_at.lengths)
    q_ids, k_ids = (at.ids(level_of(scheme)) for at in (q_at, k_at))
    passes: tuple[Pass, ...] = scheme.far.passes(q_ids, k_ids)
    where = functools.partial(key_ranges, document=k_at.document, ids=k_ids, n_query=q_ids.shape[1])
    ranges = where(passes)
    see = functools.partial(
        View,
        scheme=scheme,
        q_at=q_at,
        scale=scheme.far.scale(q_ids),
        dtype=torch.promote_types(dtype, torch.float32),
    )
    everything = slice(0, k_ids.shape[1])
    # No query has keys beyond the first pass.
    if torch.equal(ranges[0].start, where((Pass(),))[0].start):
        view = see(part=passes[0], met=ranges[0], k_at=k_at, keys=everything)
        chosen: Path = "auto" if path == "chunked" else path
        plain = choose_attention(bias=view.bias(), q_at=q_at, k_at=k_at, path=chosen)
        return functools.partial(_plain, view=view, attend=plain)
    beyond = scheme.far.beyond(k_at)
    if path == "eager":
        allowed = allowed_pairs(q_at.document, k_at.document)
        views = [
            see(part=part, met=met, k_at=k_at, keys=everything)
            for part, met in zip(passes, ranges, strict=True)
        ]
        inside = members(passes, ids=k_ids, allowed=allowed, beyond=beyond)
        return functools.partial(eager_passes, views=views, where=inside)
    own_ids = all(part.q_ids is None and part.k_ids is None for part in passes)
    if path not in ("auto", "chunked", *(["flex"] if own_ids else [])):
        raise ValueError(
            f"attention path {path!r} does not support passes, which {scheme.far} needs: set "
            f"attention to auto, chunked{', flex' if own_ids else ''} or eager"
        )
    # Frequencies that depend on the length of documents need all of their keys.
    whole = q_at.lengths is None and counts_length(scheme)
    views = list(_views(see, passes, ranges, k_at=k_at, beyond=beyond, whole=whole))
    if path == "flex":
        return flex_passes(views)
    chunked = functools.partial(chunked_passes, views=views)
    if path == "chunked" or q_ids.device.type != "cpu" or not bias_row_works():
        return chunked
    bias = scheme.bias(q_at, k_at)
    fits = isinstance(bias, SeparableBias) and not bias.learned and own_ids
    if bias is not None and not fits:
        return chunked
    return functools.partial(fused_passes, views=views, blocks=blocks_of(views), bias=bias)


def _views(
    see: Callable[..., View],
    passes: tuple[Pass, ...],
    ranges: list[Range],
    *,
    k_at: Positions,
    beyond: Bool[Tensor, "batch key"] | None,
    whole: bool,
) -> Iterator[View]:
    """Yield the passes that any query has keys in. whole: over all keys of the row."""
    for number, (part, met) in enumerate(zip(passes, ranges, strict=True)):
        if beyond is None or not number:
            index, at = None, k_at
        else:
            index, met = gathered(beyond, met)
            at = k_at.map(functools.partial(torch.gather, dim=1, index=index))
        keys = _bounds(met)
        if keys.start < keys.stop:
            keys = slice(0, at.document.shape[1]) if whole else keys
            yield see(part=part, met=met, k_at=at, keys=keys, index=index)


def level_of(scheme: Any) -> Level:
    """Return the level of the ids that a scheme's far method counts."""
    level: Level = _LEVELS.get(scheme.far.unit, scheme.level)
    return level


def seen_later(scheme: Any, at: Positions, *, queries: int) -> Bool[Tensor, "batch key"]:
    """Return the keys that the last `queries` tokens see, or that any later one may see."""
    ids, far = at.ids(level_of(scheme)), scheme.far
    passes = far.passes(ids[:, -queries:], ids)
    ranges = key_ranges(passes, document=at.document, ids=ids, n_query=min(queries, ids.shape[1]))
    place = torch.arange(ids.shape[1], device=ids.device)
    # Starts never decrease along queries.
    near, last = (place >= met.start[:, :1] for met in (ranges[0], ranges[-1]))
    beyond = far.beyond(at)
    return last if beyond is None else near | (beyond & last)


def _plain(q: Tensor, k: Tensor, v: Tensor, *, view: View, attend: Attention) -> Tensor:
    keys = view.key(k)
    return attend(view.query(q), keys, padded(v, to=keys))[..., : v.shape[-1]]


def _bounds(met: Range) -> slice:
    some = met.start < met.stop
    if not bool(some.any()):
        return slice(0, 0)
    return slice(int(met.start[some].min()), int(met.stop[some].max()))


def members(
    passes: tuple[Pass, ...],
    *,
    ids: Int[Tensor, "batch key"],
    allowed: Bool[Tensor, "batch query key"],
    beyond: Bool[Tensor, "batch key"] | None = None,
) -> list[Bool[Tensor, "batch query key"]]:
    """Return the pairs of each pass by its definition: the reference of `key_ranges`."""
    nodes: list[Tensor] = []
    left = allowed
    for part in passes:
        inside = left
        if part.first is not None:
            inside = left & (ids[:, None, :] >= part.first[:, :, None])
        left = left & ~inside
        nodes.append(inside if beyond is None or not nodes else inside & beyond[:, None])
    return nodes


def eager_passes(
    q: Queries, k: Keys, v: Keys, *, views: list[View], where: list[Bool[Tensor, "batch query key"]]
) -> Queries:
    """Attend with one softmax over all passes; `where` holds the pairs of each."""
    scores, values = torch.full((), float("-inf"), device=q.device), v
    for view, inside in zip(views, where, strict=True):
        qs, ks, values = view.turned(q, k, v)
        scores = torch.where(inside[:, None], scores_of(qs, ks, view.bias(), inside), scores)
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
        scores_of(q, k, bias, mask[:, 0]).masked_fill(~mask, float("-inf"))
        for q, k, _, mask, bias in parts
    ]
    values = torch.cat([part[2] for part in parts], 2)
    return torch.cat(scores, -1).softmax(-1).to(values.dtype) @ values
