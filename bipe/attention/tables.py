"""A bias by tables of ids, in the fused kernel, a block of queries at a time; CPU only.

Queries of a segment have the same bias: a block has one row of it per segment, copied for each
query. In a flat encoding the rows of a block are windows of one vector, moved by one each; if the
queries are turned around, they are a view of it, without a copy:

    bias by distance           b5 b4 b3 b2 b1
    last query of the block    b5 b4 b3
    the one before                b4 b3 b2
    the one before that              b3 b2 b1

The reference is `eager_attention`. The gradient of a trained table needs the scores of a block; the
gradients of queries, keys and values are then computed from them as well.
"""

import functools
from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from bipe.attention.eager import Keys, Queries, chunked_attention, repeat_heads
from bipe.attention.fused import kernel_backward, kernel_dtype, kernel_forward, merged
from bipe.bias import Bias, DistanceBias, LinearBias, TableBias

CHUNK = 256  # queries


def table_attention(q: Queries, k: Keys, v: Keys, *, bias: Bias, chunk: int = CHUNK) -> Queries:
    """Attend causally to one document per row; bias: of tables and linear terms.

    A table of pairs of ids that has not far fewer pairs than there are of tokens is chunked.
    """
    pairs = [leaf for leaf in bias.leaves() if isinstance(leaf, TableBias)]
    if not all(leaf.has_few_pairs() for leaf in pairs):
        return chunked_attention(q, k, v, bias=bias)
    k, v = repeat_heads(k, v, n_head=q.shape[1])
    found = [each for leaf in bias.leaves() for each in _tables(leaf, kernel_dtype(q))]
    out = _Fused.apply(q, k, v, chunk, [each for each, _ in found], *(table for _, table in found))
    assert isinstance(out, Tensor)
    return out


@dataclass(frozen=True, slots=True)
class _Ids:
    """The ids by which a table is read: by distance, ``(head, distance)``, or by pairs of rows
    and columns, ``(batch, head, q_id, k_id)``.
    """

    by_distance: bool
    q_ids: Tensor
    k_ids: Tensor

    def index(self, row: int, ids: Tensor, keys: slice) -> Tensor:
        return (ids[:, None] - self.k_ids[row, None, keys]).clamp(min=0)

    def read(self, table: Tensor, row: int, ids: Tensor, keys: slice) -> Tensor:
        """Return the bias of queries of these ids: ``(head, id, key)``."""
        if self.by_distance:
            return table[:, self.index(row, ids, keys)]
        return table[row][:, ids].index_select(2, self.k_ids[row, keys])

    def add(self, grad: Tensor, row: int, ids: Tensor, keys: slice, found: Tensor) -> None:
        """Add the gradient of what `read` returned to that of the table."""
        if self.by_distance:
            grad.index_add_(1, self.index(row, ids, keys).flatten(), found.flatten(1))
            return
        columns = grad.new_zeros(*found.shape[:2], grad.shape[3])
        columns.index_add_(2, self.k_ids[row, keys], found)
        grad[row].index_add_(1, ids, columns)

    def in_order(self) -> bool:
        """Return whether ids are a distance, and neighbours differ by 1, alike in all rows."""
        if not self.by_distance:
            return False
        return all(bool((ids[:, 1:] - ids[:, :-1] == 1).all()) for ids in (self.q_ids, self.k_ids))


def _tables(bias: Bias, dtype: torch.dtype) -> list[tuple[_Ids, Tensor]]:
    if isinstance(bias, LinearBias):
        kernels = [
            DistanceBias(
                function=lambda d, slopes=term.slopes: -slopes[:, None] * d,  # type: ignore[misc]
                q_ids=term.q_ids,
                k_ids=term.k_ids,
            )
            for term in bias.terms
        ]
        return [found for kernel in kernels for found in _tables(kernel, dtype)]
    if isinstance(bias, DistanceBias):
        return [(_Ids(True, bias.q_ids, bias.k_ids), bias.by_distance(dtype))]
    assert isinstance(bias, TableBias)
    pairs = bias.pairs(dtype)
    return [(_Ids(False, pairs.q_at, pairs.k_at), pairs.table)]


class _Part:
    """A block of queries of some rows and some keys, its own or those before it, and their bias.

    turned: queries are turned around, see above.
    """

    def __init__(self, ids: list[_Ids], rows: slice, queries: slice, *, own: bool, turned: bool):
        self.ids, self.rows, self.queries, self.causal, self.turned = (
            ids,
            rows,
            queries,
            own,
            turned,
        )
        self.keys = queries if own else slice(0, queries.start)
        self.read = [
            torch.unique_consecutive(each.q_ids[rows.start, queries], return_inverse=True)
            for each in ids
        ]

    def of(self, *x: Tensor) -> list[Tensor]:
        """Return the block of tensors of all queries, ``(batch, head, query, ...)``."""
        found = [each[self.rows, :, self.queries] for each in x]
        return [each.flip(2) for each in found] if self.turned else found

    def bias(self, tables: list[Tensor]) -> Tensor:
        """Return the bias: ``(1, head, query, key)``."""
        if self.turned:
            (head, size), vector = tables[0].shape, tables[0].flip(1)
            shape = (1, head, self.queries.stop - self.queries.start, self.keys.stop)
            return vector.as_strided(shape, (0, size, 1, 1), self._first(size))
        found = [
            each.read(table, self.rows.start, ids, self.keys).index_select(1, place)
            for each, table, (ids, place) in zip(self.ids, tables, self.read, strict=True)
        ]
        return functools.reduce(torch.add, found)[None]

    def add(self, grads: list[Tensor], d_scores: Tensor) -> None:
        """Add the gradient of the scores, ``(batch, head, query, key)``, to those of the tables."""
        whole = d_scores.sum(0)
        head, query, key = whole.shape
        if self.turned:
            # Rows of one number more than they are apart, cut at the end: the sums of diagonals.
            moved = F.pad(whole, (0, query)).flatten(1)[:, : query * (query + key - 1)]
            size = grads[0].shape[1]
            at = size - 1 - self._first(size) - torch.arange(query + key - 1)
            grads[0].index_add_(1, at, moved.unflatten(1, (query, -1)).sum(1))
            return
        for each, grad, (ids, place) in zip(self.ids, grads, self.read, strict=True):
            found = whole.new_zeros(head, len(ids), key).index_add_(1, place, whole)
            each.add(grad, self.rows.start, ids, self.keys, found)

    def _first(self, size: int) -> int:
        """Return where the first window of the vector begins."""
        ids = self.ids[0]
        return size - 1 - int(ids.q_ids[0, self.queries.stop - 1] - ids.k_ids[0, 0])


def _blocks(ids: list[_Ids], chunk: int) -> Iterator[list[_Part]]:
    batch, time = ids[0].q_ids.shape
    in_order = len(ids) == 1 and ids[0].in_order()
    for rows in [slice(0, batch)] if in_order else [slice(row, row + 1) for row in range(batch)]:
        for start in range(0, time, chunk):
            queries = slice(start, min(start + chunk, time))
            parts = [_Part(ids, rows, queries, own=True, turned=False)]
            if start:
                parts.append(_Part(ids, rows, queries, own=False, turned=in_order))
            yield parts


class _Fused(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, chunk, ids, *tables):  # type: ignore[no-untyped-def]
        batch, head, time, _ = q.shape
        out = q.new_empty(batch, time, head, v.shape[-1]).transpose(1, 2)
        log_sum = q.new_empty(q.shape[:3], dtype=kernel_dtype(q))
        for parts in _blocks(ids, chunk):
            found: list[tuple[Tensor, Tensor]] = []
            for part in parts:
                here, bias = part.of(q)[0], part.bias(list(tables))
                keys, values = (x[part.rows, :, part.keys] for x in (k, v))
                some = kernel_forward(here, keys, values, _whole(bias, here), causal=part.causal)
                found.append((some[0].flip(2), some[1].flip(2)) if part.turned else some)
            at = part.rows, slice(None), part.queries
            out[at], log_sum[at] = functools.reduce(merged, found)
        ctx.ids, ctx.chunk = ids, chunk
        ctx.save_for_backward(q, k, v, out, log_sum, *tables)
        return out

    @staticmethod
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        q, k, v, out, log_sum, *tables = ctx.saved_tensors
        trained = any(ctx.needs_input_grad[5:])
        # Many blocks add to the gradient of a key: sum in float32 at least.
        d_q, d_k, d_v = (torch.zeros(x.shape, dtype=log_sum.dtype) for x in (q, k, v))
        d_tables = [torch.zeros_like(table) for table in tables]
        for parts in _blocks(ctx.ids, ctx.chunk):
            for part in parts:
                block, bias = part.of(q, grad, out, log_sum), part.bias(tables)
                there = part.rows, slice(None), part.keys
                if trained:
                    q_, d_out, own, total = block
                    *found, d_scores = _gradients(
                        (q_, k[there], v[there]), (d_out, own, total), bias, causal=part.causal
                    )
                    part.add(d_tables, d_scores)
                else:
                    here, d_out, own, total = (x.contiguous() for x in block)
                    qkv = here, k[there], v[there]
                    whole = _whole(bias, here)
                    found = kernel_backward(d_out, qkv, own, total, whole, causal=part.causal)
                d_here = found[0].flip(2) if part.turned else found[0]
                d_q[part.rows, :, part.queries] += d_here
                d_k[there] += found[1]
                d_v[there] += found[2]
        return (*(d.to(x.dtype) for d, x in zip((d_q, d_k, d_v), (q, k, v), strict=True)),
                None, None, *d_tables)  # fmt: skip


def _whole(bias: Tensor, q: Tensor) -> Tensor:
    return bias.expand(len(q), -1, -1, -1)


def _gradients(qkv, of_block, bias, *, causal):  # type: ignore[no-untyped-def]
    """Return the gradients of q, k, v and of the scores."""
    (q, k, v), (grad, out, log_sum) = qkv, of_block
    precise, scale = log_sum.dtype, q.shape[-1] ** -0.5
    # In place: passes over scores take longer than the products.
    weights = (q @ k.mT).to(precise).mul_(scale).add_(bias).sub_(log_sum[..., None]).exp_()
    if causal:
        weights.tril_()
    d_v = weights.to(v.dtype).mT @ grad
    inner = (grad.to(precise) * out.to(precise)).sum(-1, keepdim=True)
    d_scores = (grad @ v.mT).to(precise).sub_(inner).mul_(weights)
    low = d_scores.to(q.dtype)
    return (low @ k).mul_(scale), (low.mT @ q).mul_(scale), d_v, d_scores
