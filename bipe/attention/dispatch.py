"""The one function that chooses how attention is computed.

    no bias       one document a row          causal
                  packed, CPU                 causal, document by document
    linear bias   CPU                         banded in long documents, bias_row in short ones
                                              (augmented where the operator is missing)
                  elsewhere                   augmented
    other bias    CPU                         chunked in long documents, masked in short ones
    any           packed, CUDA; tables there  flex
    cached keys   one query                   step: no mask but for padding
                  several, one document       chunk (CPU, no gradients)
    anything      elsewhere                   masked: a dense mask for the fused kernel

The choice is made once a forward pass; every layer then calls the same attention. `path="eager"`
forces the reference. Every path is exact (banded: to less than the rounding of its dtype), and
documents do not leak into each other at all.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor

from bipe.attention.banded import WORTH_FROM, banded_attention
from bipe.attention.cached import chunk_attention, last_query_attention
from bipe.attention.chunked import chunked_attention
from bipe.attention.documents import Attention, ByDocument, Span, document_spans
from bipe.attention.eager import allowed_pairs, eager_attention
from bipe.attention.flex import choose_flex
from bipe.attention.fused import (
    augmented_attention,
    bias_row_attention,
    bias_row_works,
    causal_attention,
)
from bipe.bias import Bias, BiasSum, LinearBias, TableBias
from bipe.positions import Positions

log = logging.getLogger(__name__)

Path = Literal[
    "auto", "eager", "masked", "causal", "banded", "bias_row", "augmented", "chunked", "flex"
]  # fmt: skip
PATHS = get_args(Path)
# Tokens from which a dense bias costs more memory than a second forward pass costs time.
CHUNKED_FROM = 1024
_LINEAR = {
    "banded": banded_attention,
    "bias_row": bias_row_attention,
    "augmented": augmented_attention,
}


def choose_attention(
    *, bias: Bias | None, q_at: Positions, k_at: Positions, path: Path = "auto"
) -> Attention:
    """Return ``attend(q, k, v)`` for queries at `q_at` and keys at `k_at`.

    Queries are the last ones of the keys' time. Raises ValueError for a path that cannot do
    what is asked.
    """
    name = _choose(bias, q_at, k_at) if path == "auto" else path
    _log_once(name, q_at.document.device.type, type(bias).__name__)
    if name == "step":
        return functools.partial(last_query_attention, bias=_last_row(bias, q_at, k_at))
    if name == "chunk" and (bias is None or isinstance(bias, LinearBias)):
        return functools.partial(chunk_attention, bias=bias)
    if name in ("eager", "masked"):
        allowed = allowed_pairs(q_at.document, k_at.document)
        if name == "eager":
            return functools.partial(eager_attention, bias=bias, allowed=allowed)
        return functools.partial(_masked_attention, bias=bias, allowed=allowed)
    if name == "flex":
        return choose_flex(bias=bias, at=_same(name, q_at, k_at))
    if name == "causal" and bias is not None:
        raise ValueError(f"attention path {name!r} takes no bias, got {type(bias).__name__}")
    if name in ("banded", "bias_row", "augmented") and not isinstance(bias, LinearBias):
        raise ValueError(f"attention path {name!r} takes a linear bias, got {bias!r}")
    if name == "chunked" and bias is None:
        raise ValueError("attention path 'chunked' takes a bias, got None")
    _same(name, q_at, k_at)
    return _by_document(_kernel(name, bias), k_at)


def _choose(bias: Bias | None, q_at: Positions, k_at: Positions) -> str:
    on_cpu = k_at.document.device.type == "cpu"
    if q_at.document.shape != k_at.document.shape:
        return _choose_cached(bias, q_at, k_at)
    if k_at.packed and k_at.document.is_cuda:
        return "flex" if _gathers(bias) else "masked"
    if k_at.packed and not on_cpu:
        return "masked"
    if bias is None:
        return "causal"
    if not isinstance(bias, LinearBias):
        if k_at.document.is_cuda and _gathers(bias):
            return "flex"
        return "chunked" if k_at.document.shape[1] >= CHUNKED_FROM else "masked"
    return "banded" if on_cpu and bias_row_works() else "augmented"


def _gathers(bias: Bias | None) -> bool:
    """Whether FlexAttention can add it."""
    parts = bias.parts if isinstance(bias, BiasSum) else (bias,)
    return all(part is None or isinstance(part, LinearBias | TableBias) for part in parts)


def _same(name: str, q_at: Positions, k_at: Positions) -> Positions:
    """The positions of queries and keys, which must be the same tokens."""
    if q_at.document.shape != k_at.document.shape:
        raise ValueError(
            f"attention path {name!r} takes as many queries as keys, got "
            f"{q_at.document.shape[1]} and {k_at.document.shape[1]}; set attention=auto to decode"
        )
    return k_at


def _choose_cached(bias: Bias | None, q_at: Positions, k_at: Positions) -> str:
    """What serves the last queries of a row whose earlier keys are cached."""
    if q_at.document.shape[1] == 1:
        return "step"
    mergeable = k_at.document.device.type == "cpu" and bias_row_works()
    inference = not torch.is_grad_enabled()
    described = bias is None or isinstance(bias, LinearBias)
    return "chunk" if mergeable and inference and described and not k_at.packed else "masked"


def _last_row(bias: Bias | None, q_at: Positions, k_at: Positions) -> Tensor | None:
    """What is added to the scores of the one query of each row: float32 or None."""
    if bias is None and not k_at.packed:
        return None
    row = (
        torch.zeros((), device=k_at.document.device) if bias is None else bias.dense(torch.float32)
    )
    if not k_at.packed:
        return row
    allowed = allowed_pairs(q_at.document, k_at.document)[:, None]
    return torch.where(allowed, row, float("-inf"))


def _kernel(name: str, bias: Bias | None) -> Callable[[slice, slice], Attention]:
    """A function from (rows of the batch, time of the document) to the attention there."""
    if bias is not None and name == "chunked":
        return lambda rows, keys: functools.partial(
            chunked_attention, bias=bias.part(rows=rows, queries=keys, keys=keys)
        )
    if not isinstance(bias, LinearBias):
        return lambda rows, keys: causal_attention

    def at(rows: slice, keys: slice) -> Attention:
        time = len(range(*keys.indices(bias.terms[0].k_ids.shape[1])))
        short = name == "banded" and time < WORTH_FROM
        attention = bias_row_attention if short else _LINEAR[name]
        dtype = torch.float32 if attention is bias_row_attention else torch.float64
        return functools.partial(attention, row=bias.row(rows=rows, keys=keys, dtype=dtype))

    return at


def _by_document(kernel: Callable[[slice, slice], Attention], at: Positions) -> Attention:
    everything = slice(None)
    if not at.packed or at.document.device.type != "cpu":
        return kernel(everything, everything)
    spans = document_spans(at.document)
    if all(len(row) == 1 for row in spans):
        return kernel(everything, everything)

    def placed(span: Span) -> tuple[Span, Attention]:
        rows, keys = slice(span.row, span.row + 1), slice(span.start, span.stop)
        return span, kernel(rows, keys)

    return ByDocument([[placed(span) for span in row] for row in spans])


def _masked_attention(
    q: Tensor, k: Tensor, v: Tensor, *, bias: Bias | None, allowed: Tensor
) -> Tensor:
    grouped = q.shape[1] != k.shape[1]
    mask = allowed[:, None]
    if bias is not None:
        mask = bias.dense(q.dtype).masked_fill(~mask, float("-inf"))
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=grouped)


@functools.cache
def _log_once(path: str, device: str, bias: str) -> None:
    log.info("attention path: %s (device %s, bias %s)", path, device, bias)
