"""FlexAttention: a bias inside the kernel and a mask by blocks, for packed rows on CUDA.

Blocks that no query may see are skipped, so that a packed row costs its documents alone. A linear
bias is computed in float32 from integer differences of ids; a table bias is gathered from its table
of id pairs (He et al., 2401.16421, under BiPE a table of segments). On a CPU it runs uncompiled, in
memory of queries x keys and without gradients: for tests. The eager twin is eager.py.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention

from bipe.attention.documents import Attention
from bipe.bias import Bias, BiasSum, IdPairs, LinearBias, LinearTerm, TableBias
from bipe.positions import Positions

# (score, batch, head, query, key) -> score
ScoreMod = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]


def choose_flex(*, bias: Bias | None, at: Positions) -> Attention:
    """``attend(q, k, v)`` for packed rows: the mask and the tables are made here, once.

    Raises ValueError for a bias that is neither linear nor a table.
    """
    mask = _block_mask(at.document)
    score = _score_mod(bias)
    kernel = _compiled() if at.document.is_cuda else flex_attention

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        grouped = q.shape[1] != k.shape[1]
        found = kernel(q, k, v, score_mod=score, block_mask=mask, enable_gqa=grouped)
        assert isinstance(found, Tensor)
        return found

    return attend


def _block_mask(document: Tensor) -> BlockMask:
    batch, time = document.shape
    return create_block_mask(
        lambda b, h, q, k: (q >= k) & (document[b, q] == document[b, k]),
        *(batch, None, time, time),
        device=str(document.device),
    )


def _score_mod(bias: Bias | None) -> ScoreMod | None:
    """What is added to a score, as a function of its place."""
    if bias is None:
        return None
    parts = bias.parts if isinstance(bias, BiasSum) else (bias,)
    return functools.reduce(_both, (mod for part in parts for mod in _mods(part)))


def _both(first: ScoreMod, second: ScoreMod) -> ScoreMod:
    return lambda score, b, h, q, k: second(first(score, b, h, q, k), b, h, q, k)


def _mods(bias: Bias) -> list[ScoreMod]:
    if isinstance(bias, LinearBias):
        return [_linear(term) for term in bias.terms]
    if isinstance(bias, TableBias):
        return [_gathered(bias.pairs(torch.float32))]
    raise ValueError(f"attention path 'flex' takes linear and table biases, got {bias!r}")


def _linear(term: LinearTerm) -> ScoreMod:
    slopes, q_ids, k_ids = term.slopes.float(), term.q_ids, term.k_ids
    # The difference of integers is exact, however large the ids.
    return lambda score, b, h, q, k: score + slopes[h] * (k_ids[b, k] - q_ids[b, q]).float()


def _gathered(pairs: IdPairs) -> ScoreMod:
    table, q_at, k_at = pairs.table, pairs.q_at, pairs.k_at
    return lambda score, b, h, q, k: score + table[b, h, q_at[b, q], k_at[b, k]]


@functools.cache
def _compiled() -> Any:
    return torch.compile(flex_attention)
