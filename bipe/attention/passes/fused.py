"""Passes by fused kernels: that of the CPU, and FlexAttention for passes that keep the ids.

On the CPU, a block of queries at a time meets the keys of each pass, merged by log-sum-exp.

The queries of a block meet the same keys in a pass, except at the edges of its range, which are
masked; the keys of the block itself are causal. The gradient of each part takes the log-sum-exp of
all of them.

FlexAttention takes the keys of all passes side by side, and skips blocks outside of the ranges:

    keys       those near some query | those gathered for the far pass
    query      . . . x x x x x         x x x . . .         a range in each

On a CPU it is for tests, as bipe/attention/flex.py is. The reference of both is `eager_passes`.
"""

import functools
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask

from bipe.attention.flex import BLOCK, by_block, compiled, ordered, run, score_mod
from bipe.attention.fused import kernel_backward, kernel_dtype, kernel_forward, merged, unfilled
from bipe.attention.heads import Attention, Keys, Queries
from bipe.attention.passes.views import Range, View
from bipe.bias import SeparableBias
from bipe.positions import IDS

CHUNK = 256  # queries
_WORTH = 128  # fewest keys met by all queries of a block that are made a part of their own
# Added to pairs outside a part. Finite, so that a query without keys in a part weighs nothing in
# the merge: over nothing but -inf, the kernel's log-sum-exp is not -inf.
_OUTSIDE = -1e30
# (batch, head, query, key) -> whether the pair attends
MaskMod = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


@dataclass(frozen=True, slots=True)
class Part:
    """Keys of a pass for a block of queries; `edge`: not every query meets each of them."""

    view: int
    keys: slice
    kind: Literal["all", "causal", "edge"]


@dataclass(frozen=True, slots=True)
class Block:
    """Queries of some rows with the same ranges, and the parts of the keys that they meet."""

    rows: slice
    queries: slice
    parts: tuple[Part, ...]


def fused_passes(
    q: Queries,
    k: Keys,
    v: Keys,
    *,
    views: list[View],
    blocks: list[Block],
    bias: SeparableBias | None = None,
) -> Queries:
    """Attend to the keys that the views give each query; CPU only.

    bias: only where passes keep the ids: its row leaves out what a query adds to all its scores,
        which else differs between passes.
    """
    row = None if bias is None else bias.row(dtype=torch.float64)
    rows = () if row is None else tuple(view.own(row) for view in views)
    plan = _Plan(views=views, blocks=blocks, row=row, rows=rows)
    # No query looks past the ends of a view: only its own keys and values are needed.
    output = _Fused.apply(plan, *(x for view in views for x in view.turned(q, k, v)))
    assert isinstance(output, Tensor)
    return output[..., : v.shape[-1]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """row: the bias of all keys. rows: that of the keys of each view."""

    views: list[View]
    blocks: list[Block]
    row: Tensor | None
    rows: tuple[Tensor, ...]

    def mask(self, block: Block, part: Part, like: Tensor) -> Tensor | None:
        """Return what a part adds to scores: ``[b, h, key]``, ``[b, h, query, key]`` or None."""
        dtype = kernel_dtype(like)
        row = None
        if self.row is not None:
            past = self.row.shape[-1] - like.shape[2]
            centre = self.row[block.rows, :, block.queries.stop - 1 + past, None]
            row = (self.rows[part.view][self.places(block, part)[1]] - centre).to(dtype)
        if part.kind != "edge":
            return row
        first = slice(block.rows.start, block.rows.start + 1)  # all rows have the same ranges
        holds = self.views[part.view].met.holds(rows=first, queries=block.queries, keys=part.keys)
        outside = torch.where(holds, 0.0, _OUTSIDE).to(dtype)[:, None]
        whole = outside if row is None else outside + row[:, :, None]
        return whole.expand(len(like[block.rows]), like.shape[1], -1, -1)

    def places(self, block: Block, part: Part) -> tuple[Any, Any]:
        everything, begin = slice(None), self.views[part.view].keys.start
        keys = slice(part.keys.start - begin, part.keys.stop - begin)
        return (block.rows, everything, block.queries), (block.rows, everything, keys)


class _Fused(torch.autograd.Function):
    """Runs the kernel per part and merges; tensors: queries, keys and values of each view."""

    @staticmethod
    def forward(ctx, plan, *tensors):  # type: ignore[no-untyped-def]
        out, log_sum = unfilled(tensors[0], tensors[2])
        for block in plan.blocks:
            outputs = []
            for part in block.parts:  # at least one: a query sees itself
                here, there = plan.places(block, part)
                q, k, v = tensors[3 * part.view : 3 * part.view + 3]
                mask, causal = plan.mask(block, part, q), part.kind == "causal"
                outputs.append(kernel_forward(q[here], k[there], v[there], mask, causal=causal))
            out[here], log_sum[here] = functools.reduce(merged, outputs)
        ctx.plan = plan
        ctx.save_for_backward(out, log_sum, *tensors)
        return out

    @staticmethod
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        plan = ctx.plan
        out, log_sum, *tensors = ctx.saved_tensors
        # Many blocks add to the gradient of a key: sum in float32 at least.
        grads = [torch.zeros(x.shape, dtype=log_sum.dtype) for x in tensors]
        for block in plan.blocks:
            for part in block.parts:
                here, there = plan.places(block, part)
                q, k, v = tensors[3 * part.view : 3 * part.view + 3]
                whole = out[here], log_sum[here].contiguous()
                mask, causal = plan.mask(block, part, q), part.kind == "causal"
                qkv = q[here], k[there], v[there]
                found = kernel_backward(grad[here], qkv, *whole, mask, causal=causal)
                for index, place, each in zip(range(3), (here, there, there), found, strict=True):
                    grads[3 * part.view + index][place] += each
        return None, *(g.to(x.dtype) for g, x in zip(grads, tensors, strict=True))


def blocks_of(views: list[View], *, chunk: int = CHUNK) -> list[Block]:
    """Return the blocks that the kernel runs on; rows with the same ranges run together."""
    starts, stops = ([view.met[end].tolist() for view in views] for end in (0, 1))
    batch, n_query = views[0].met.start.shape
    same = all(row == ids[0] for ids in (*starts, *stops) for row in ids[1:])
    groups = [slice(0, batch)] if same else [slice(row, row + 1) for row in range(batch)]
    blocks = []
    for rows, begin in itertools.product(groups, range(0, n_query, chunk)):
        queries = slice(begin, min(begin + chunk, n_query))
        parts: list[Part] = []
        for index, (view, start, stop) in enumerate(zip(views, starts, stops, strict=True)):
            parts += _parts(index, view, start[rows.start][queries], stop[rows.start][queries])
        blocks.append(Block(rows, queries, tuple(parts)))
    return blocks


def _parts(index: int, view: View, starts: list[int], stops: list[int]) -> Iterator[Part]:
    """Yield the parts of a block of queries in a pass, given the range of each query.

    ranges   . x x x x .        left edge | all | right edge
             . . x x x x
             . . x x x x x
    """
    # A query without keys in the pass has an empty range that may lie outside the view.
    first, last = max(starts[0], view.keys.start), min(stops[-1], view.keys.stop)
    if first >= last:
        return
    if starts[0] == starts[-1] and stops[0] == stops[-1]:
        yield Part(index, slice(first, last), "all")
        return
    inner, end = max(first, starts[-1]), min(last, stops[0])
    # The nearest pass of a block ends with each query itself: its right edge is causal.
    causal = index == 0 and stops == list(range(stops[0], stops[0] + len(stops)))
    end = stops[0] - 1 if causal else end
    if inner > end or (end - inner < _WORTH and not causal):
        yield Part(index, slice(first, last), "edge")
        return
    if first < inner:
        yield Part(index, slice(first, inner), "edge")
    if inner < end:
        yield Part(index, slice(inner, end), "all")
    if end < last:
        yield Part(index, slice(end, last), "causal" if causal else "edge")


def flex_passes(views: list[View]) -> Attention:
    """Return ``attend(q, k, v)`` over the keys that the views give each query."""
    first = views[0]
    at = [view.k_at[view.keys] for view in views]
    ids: dict[str, Any] = {name: torch.cat([getattr(x, name) for x in at], 1) for name in IDS}
    levels = (torch.cat(ids, 1) for ids in zip(*(x.levels for x in at), strict=True))
    k_at = replace(at[0], **ids, levels=tuple(levels))
    score = score_mod(first.scheme.bias(first.q_at, k_at))
    ranges, keys = [], 0
    for view in views:
        start, stop = (
            end.clamp(view.keys.start, view.keys.stop) - view.keys.start + keys for end in view.met
        )
        ranges.append(Range(start, stop))
        keys += view.keys.stop - view.keys.start
    mask = _mask(ranges, keys=keys)
    kernel = compiled(run) if mask.kv_indices.is_cuda else run

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        qs, *rest = zip(*(view.turned(q, k, v) for view in views), strict=True)
        output: Tensor = kernel(qs[0], *(torch.cat(x, 2) for x in rest), mask=mask, score=score)
        return output[..., : v.shape[-1]]

    return attend


def _mask(ranges: list[Range], *, keys: int) -> BlockMask:
    """Return the kernel's mask: the pairs in any of the ranges."""
    begin = torch.arange(0, keys, BLOCK, device=ranges[0].start.device)
    masks = []
    for start, stop in ranges:
        least, most = by_block(start, amount=keys).amin(-1), by_block(stop, amount=0).amax(-1)
        masks.append((least[..., None] < begin + BLOCK) & (most[..., None] > begin))
    seen = torch.stack(masks).any(0)

    lengths = (ranges[0].start.shape[1], keys)
    blocks = ordered(seen[:, None])
    return BlockMask.from_kv_blocks(
        *blocks,
        BLOCK_SIZE=BLOCK,
        mask_mod=functools.reduce(_either, map(_within, ranges)),
        seq_lengths=lengths,
    )


# Lambdas, as what checks types in tests cannot be traced.
def _within(met: Range) -> MaskMod:
    start, stop = met
    return lambda b, h, q, k: (k >= start[b, q]) & (k < stop[b, q])


def _either(first: MaskMod, second: MaskMod) -> MaskMod:
    return lambda b, h, q, k: first(b, h, q, k) | second(b, h, q, k)
