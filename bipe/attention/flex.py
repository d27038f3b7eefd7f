"""FlexAttention: a bias inside the kernel and a mask by blocks, for CUDA.

Blocks of queries x keys that cannot matter are skipped: those of other documents, later ones, and
under a linear bias, per head, those too far away (the rule and the tolerance of banded.py). They
are found from a few numbers per block, so that nothing of size queries x keys is made. On a CPU it
runs uncompiled, in memory of queries x keys and without gradients: for tests.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, flex_attention

from bipe.attention.banded import default_tolerance, least_bias
from bipe.attention.heads import Attention
from bipe.bias import (
    Bias,
    DistanceBias,
    LinearBias,
    RowBias,
    SeparableBias,
    TableBias,
)
from bipe.positions import Positions, document_runs

BLOCK = 128  # tokens that the kernel takes at once
_LEAST_WIDTH = 16  # minimum width of a head in the kernel

# (score, batch, head, query, key) -> score
ScoreMod = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]


def choose_flex(*, bias: Bias | None, at: Positions) -> Attention:
    """Return ``attend(q, k, v)``; what does not depend on q and k is made once for all layers.

    Raises ValueError for a bias that is neither linear nor a table.
    """
    blocks, score = Blocks.of(at.document), score_mod(bias)
    row = bias.row(dtype=torch.float64).detach() if isinstance(bias, SeparableBias) else None
    # In a graph it is compiled with the rest; Dynamo would warn of the cache of `compiled`.
    alone = at.document.device.type != "cpu" and not torch.compiler.is_compiling()
    kernel = compiled(_attend) if alone else _attend
    return functools.partial(kernel, blocks=blocks, score=score, row=row)


@dataclass(frozen=True, slots=True)
class Blocks:
    """The blocks of queries x keys of a packed row: some pair attends in `seen`, each in `whole`.

    run: documents (and stretches of padding) of each row, numbered from 0.
    """

    run: Int[Tensor, "batch time"]
    seen: Bool[Tensor, "batch block block"]
    whole: Bool[Tensor, "batch block block"]

    @classmethod
    def of(cls, document: Int[Tensor, "batch time"]) -> Blocks:
        """Compare the first and the last run of each block: runs follow each other in a row."""
        time, run = document.shape[1], document_runs(document)
        first, last = run[:, ::BLOCK], by_block(run, amount=-1).amax(-1)
        number = torch.arange(first.shape[1], device=run.device)
        earlier = number > number[:, None]
        # The last run of the keys must reach the first one of the queries.
        seen = ~earlier & (last[:, None, :] >= first[:, :, None])
        one = (first == last) & ((number + 1) * BLOCK <= time)
        same = first[:, :, None] == first[:, None, :]
        whole = (number < number[:, None]) & same & one[:, :, None] & one[:, None, :]
        return cls(run=run, seen=seen, whole=whole)

    def mask(self, near: Bool[Tensor, "batch head block block"] | None = None) -> BlockMask:
        """Return the kernel's mask; near: blocks of each head that matter, by default all."""
        seen, whole = self.seen[:, None], self.whole[:, None]
        if near is not None:
            seen, whole = seen & near, whole & near
        run, time = self.run, self.run.shape[1]
        some = seen & ~whole
        return BlockMask(
            (time, time),
            *ordered(some),
            *ordered(whole),
            *ordered(some.mT),
            *ordered(whole.mT),
            BLOCK_SIZE=(BLOCK, BLOCK),
            mask_mod=lambda b, h, q, k: (q >= k) & (run[b, q] == run[b, k]),
        )


def near_blocks(
    q: Float[Tensor, "batch head time width"],
    k: Float[Tensor, "batch kv_head time width"],
    row: Float[Tensor, "batch head time"],
    *,
    tolerance: float,
) -> Bool[Tensor, "batch head block block"]:
    """Return the blocks of each head with a key that matters to a query, or with a NaN."""
    needed = by_block(least_bias(q, k, row, tolerance=tolerance), amount=math.inf).amin(-1)
    most = by_block(row, amount=-math.inf).amax(-1)
    return ~(needed[..., :, None] > most[..., None, :])


def by_block(values: Tensor, *, amount: float | int) -> Tensor:
    """Split the last axis into blocks, ``[..., block, BLOCK]``, the last filled by `amount`."""
    return F.pad(values, (0, -values.shape[-1] % BLOCK), value=amount).unflatten(-1, (-1, BLOCK))


def ordered(blocks: Tensor) -> tuple[Tensor, Tensor]:
    """Return how many blocks of keys each row of blocks has, and all indices, those first.

    By an operator, since the kernel reads both as contiguous: compiled without gradients, Inductor
    chose other strides for them, and outputs were wrong (torch 2.11, CUDA).
    """
    count, order = _ordered(blocks)  # an operator has no types of its own
    return count, order


@torch.library.custom_op(
    "bipe::ordered_blocks", mutates_args=(), schema="(Tensor blocks) -> (Tensor, Tensor)"
)
def _ordered(blocks: Tensor) -> tuple[Tensor, Tensor]:
    order = blocks.to(torch.int8).argsort(dim=-1, descending=True, stable=True)
    empty_count, empty_order = _empty(blocks)
    return empty_count.copy_(blocks.sum(-1)), empty_order.copy_(order)


@_ordered.register_fake
def _empty(blocks: Tensor) -> tuple[Tensor, Tensor]:
    count, order = blocks.shape[:-1], blocks.shape
    return blocks.new_empty(count, dtype=torch.int32), blocks.new_empty(order, dtype=torch.int32)


def _attend(
    q: Tensor, k: Tensor, v: Tensor, *, blocks: Blocks, score: ScoreMod | None, row: Tensor | None
) -> Tensor:
    if q.device.type == "cpu" and q.requires_grad and torch.is_grad_enabled():
        raise ValueError(
            "attention=flex has no gradients on a CPU: set attention=auto, or torch.no_grad()"
        )
    near = None
    if row is not None:
        near = near_blocks(q.detach(), k.detach(), row, tolerance=default_tolerance(q.dtype))
    return run(q, k, v, mask=blocks.mask(near), score=score)


def run(q: Tensor, k: Tensor, v: Tensor, *, mask: BlockMask, score: ScoreMod | None) -> Tensor:
    """Return what queries read; scores are scaled by the width of q."""
    # All three have one width: the decoder pads values where an encoding widens q and k.
    width, spare = v.shape[-1], max(0, _LEAST_WIDTH - q.shape[-1])
    scale = q.shape[-1] ** -0.5
    if spare:
        q, k, v = (F.pad(x, (0, spare)) for x in (q, k, v))
    output = flex_attention(
        *(q, k, v),
        score_mod=score,
        block_mask=mask,
        scale=scale,
        enable_gqa=q.shape[1] != k.shape[1],
    )
    assert isinstance(output, Tensor)
    return output[..., :width]


def score_mod(bias: Bias | None) -> ScoreMod | None:
    """Return what the kernel does to each score; raise ValueError for a bias it cannot take."""
    if bias is None:
        return None
    return functools.reduce(_both, map(_of_part, bias.leaves()))


def _of_part(part: Bias) -> ScoreMod:
    for kind, score in _SCORES.items():
        if isinstance(part, kind):
            return score(part)
    raise ValueError(f"attention path 'flex' supports linear and table biases, got {part!r}")


def _both(first: ScoreMod, second: ScoreMod) -> ScoreMod:
    return lambda score, b, h, q, k: second(first(score, b, h, q, k), b, h, q, k)


def _linear(bias: LinearBias) -> ScoreMod:
    slopes, q_ids, k_ids = bias.slopes.float(), bias.q_ids, bias.k_ids
    # The difference of integers is exact, however large the ids.
    return lambda score, b, h, q, k: score + slopes[h] * (k_ids[b, k] - q_ids[b, q]).float()


def _row(bias: RowBias) -> ScoreMod:
    middle = bias.k_row[..., bias.k_row.shape[-1] // 2, None]
    # Two tensors, since the kernel takes none with gradients twice. Those of queries are zero but
    # for rounding, which then cancels that of keys in the sums over gates (FoX in bfloat16).
    of_keys, of_query = (bias.k_row - middle).float(), (middle - bias.q_row).float()
    return lambda score, b, h, q, k: score + of_keys[b, h, k] + of_query[b, h, q]


def _by_distance(bias: DistanceBias) -> ScoreMod:
    table, q_ids, k_ids = bias.by_distance(torch.float32), bias.q_ids, bias.k_ids
    return lambda score, b, h, q, k: score + table[h, (q_ids[b, q] - k_ids[b, k]).clamp(min=0)]


def _by_pair(bias: TableBias) -> ScoreMod:
    pairs = bias.pairs(torch.float32)
    table, q_at, k_at = pairs.table, pairs.q_at, pairs.k_at
    return lambda score, b, h, q, k: score + table[b, h, q_at[b, q], k_at[b, k]]


_SCORES: dict[type[Bias], Callable[[Any], ScoreMod]] = {
    LinearBias: _linear,
    RowBias: _row,
    DistanceBias: _by_distance,
    TableBias: _by_pair,
}


@functools.cache
def compiled(function: Callable[..., Tensor]) -> Any:
    """Return a function compiled, on its first call, once for all who ask."""
    return torch.compile(function)
