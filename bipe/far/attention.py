"""Attention of a model with a far method: how its passes are computed.

    every key is in the first pass   as without the method (attention/dispatch.py), so that a
                                     window beyond the row changes no bit
    CPU, no bias or one pass         fused: the kernel, pass by pass, merged by log-sum-exp
    anything else                    chunked
    path="eager"                     the reference

Keys come unrotated, those of a cache too, and are turned for each pass. Where a block of queries
looks is read on the host, once a forward pass.
"""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from bipe.attention import Path, allowed_pairs, choose_attention
from bipe.attention.documents import Attention
from bipe.attention.fused import bias_row_works
from bipe.bias import LinearBias
from bipe.encodings.base import counts_length
from bipe.far.base import Pass
from bipe.far.chunked import chunked_passes
from bipe.far.fused import blocks_of, fused_passes
from bipe.far.keys import Keys, key_ranges, members
from bipe.far.reference import eager_passes
from bipe.far.view import View, view_of
from bipe.positions import Level, Positions

_LEVELS: dict[str, Level] = {"tokens": "token", "segments": "inter"}


@torch.compiler.disable
def far_attention(
    scheme: Any, *, q_at: Positions, k_at: Positions, dtype: torch.dtype, path: Path = "auto"
) -> Attention:
    """``attend(q, k, v)`` of unrotated queries and keys, the queries being the last of the keys.

    scheme: with a method (`scheme.far`). dtype: of the hidden states.
    Raises ValueError for a path that knows no passes.
    """
    k_at = replace(k_at, reach=q_at.reach)
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
            f"attention path {path!r} knows no passes, and the model has {scheme.far}: set "
            "attention to auto, chunked or eager"
        )
    # Frequencies by the length of documents are told from all of their keys.
    whole = q_at.reach is None and counts_length(scheme)
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


def _bounds(found: Keys) -> slice:
    """The keys that any query meets."""
    some = found.start < found.stop
    if not bool(some.any()):
        return slice(0, 0)
    return slice(int(found.start[some].min()), int(found.stop[some].max()))
