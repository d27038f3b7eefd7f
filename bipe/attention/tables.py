"""A bias by tables of ids, in the fused kernel, a block of queries at a time; CPU only.

Queries of a segment have the same bias: a block has one row of it per segment, copied for each
query. In a flat encoding the rows of a block are windows of one vector, moved by one each; if the
queries are turned around, they are a view of it, without a copy:

    bias by distance           b5 b4 b3 b2 b1
    last query of the block    b5 b4 b3
    the one before                b4 b3 b2
    the one before that              b3 b2 b1

The reference is `eager_attention`. Keys come in blocks too, merged by their log-sum-exp, so that
the bias of a block stays in the cache: to write and read all of it took longer than the kernel's
own work. The gradient of a trained table needs the scores of a block; the gradients of queries,
keys and values are computed from them as well.
"""

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from bipe.attention.chunked import chunked_attention
from bipe.attention.fused import kernel_dtype, kernel_forward, merged, unfilled
from bipe.attention.heads import Keys, Queries, repeat_heads
from bipe.bias import Bias, DistanceBias, LinearBias, TableBias

CHUNK = 256  # queries
# Keys of a block, forward and backward: its scores stay in the cache.
KEYS, BACKWARD_KEYS = 1024, 512


def table_attention(
    q: Queries, k: Keys, v: Keys, *, bias: Bias, chunk: int | None = None
) -> Queries:
    """Attend causally to one document per row; bias: of tables and linear terms.

    A table of pairs of ids that has not far fewer pairs than there are of tokens is chunked.
    """
    pairs = [leaf for leaf in bias.leaves() if isinstance(leaf, TableBias)]
    if not all(leaf.has_few_pairs() for leaf in pairs):
        return chunked_attention(q, k, v, bias=bias)
    k, v = repeat_heads(k, v, n_head=q.shape[1])
    tables = [_table(leaf, kernel_dtype(q)) for leaf in bias.leaves()]
    out = _Fused.apply(
        q, k, v, chunk or CHUNK, [table for table, _ in tables], *(table for _, table in tables)
    )
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
            index = self.index(row, ids, keys)  # index_select: a third of table[:, index]'s time
            return table.index_select(1, index.flatten()).unflatten(1, index.shape)
        of_ids = table[row][:, ids]
        return of_ids.gather(2, self.k_ids[row, keys].expand(*of_ids.shape[:2], -1))

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


def _table(bias: Bias, dtype: torch.dtype) -> tuple[_Ids, Tensor]:
    if isinstance(bias, LinearBias):
        slopes, q_ids, k_ids = bias.slopes, bias.q_ids, bias.k_ids
        bias = DistanceBias(function=lambda d: -slopes[:, None] * d, q_ids=q_ids, k_ids=k_ids)
    if isinstance(bias, DistanceBias):
        # Contiguous, since windows of it are views by strides, and T5 transposes its table.
        return _Ids(True, bias.q_ids, bias.k_ids), bias.by_distance(dtype).contiguous()
    assert isinstance(bias, TableBias)
    pairs = bias.pairs(dtype)
    return _Ids(False, pairs.q_at, pairs.k_at), pairs.table


@dataclass(frozen=True, slots=True)
class _Part:
    """A block of queries of a row and a block of keys, its own or some before it, and their bias.

    turned: queries are turned around, see above.
    ids: of each table; read: the ids of its queries, once each, and which of them each query has.
    """

    ids: list[_Ids]
    read: list[tuple[Tensor, Tensor]]
    row: int
    queries: slice
    keys: slice
    turned: bool

    @property
    def causal(self) -> bool:
        return self.keys == self.queries

    def of(self, *x: Tensor) -> list[Tensor]:
        """Return the block of tensors of all queries, ``(batch, head, query, ...)``, of its row."""
        parts = [ids[self.row, :, self.queries] for ids in x]
        return [ids.flip(1) for ids in parts] if self.turned else parts

    def bias(self, tables: list[Tensor], buffer: Tensor) -> Tensor:
        """Return the bias, ``(head, query, key)``: in the buffer, or a view if turned."""
        if self.turned:
            (head, size), vector = tables[0].shape, tables[0].flip(1)
            shape = head, *self._shape()
            return vector.as_strided(shape, (size, 1, 1), self._first(size) + self.keys.start)
        whole = None
        for reader, table, (ids, place) in zip(self.ids, tables, self.read, strict=True):
            values = reader.read(table, self.row, ids, self.keys)
            if whole is None:
                shape = len(values), *self._shape()
                whole = buffer[: math.prod(shape)].view(shape)
                torch.index_select(values, 1, place, out=whole)
            else:
                whole += values.index_select(1, place)
        assert whole is not None
        return whole

    def add(self, grads: list[Tensor], d_scores: Tensor) -> None:
        """Add the gradient of the scores, ``(head, query, key)``, to those of the tables."""
        (query, key), head = self._shape(), len(d_scores)
        if self.turned:
            # Rows of one number more than they are apart, cut at the end: the sums of diagonals.
            moved = F.pad(d_scores, (0, query)).flatten(1)[:, : query * (query + key - 1)]
            size = grads[0].shape[1]
            at = size - 1 - self._first(size) - self.keys.start - torch.arange(query + key - 1)
            grads[0].index_add_(1, at, moved.unflatten(1, (query, -1)).sum(1))
            return
        for reader, grad, (ids, place) in zip(self.ids, grads, self.read, strict=True):
            found = d_scores.new_zeros(head, len(ids), key).index_add_(1, place, d_scores)
            reader.add(grad, self.row, ids, self.keys, found)

    def _shape(self) -> tuple[int, int]:
        return self.queries.stop - self.queries.start, self.keys.stop - self.keys.start

    def _first(self, size: int) -> int:
        """Return the place in the vector of the last query of the block and the row's first key."""
        ids = self.ids[0]
        return size - 1 - int(ids.q_ids[0, self.queries.stop - 1] - ids.k_ids[0, 0])


def _blocks(ids: list[_Ids], chunk: int, keys: int) -> Iterator[list[_Part]]:
    """Yield the parts of each block of queries, its own keys first."""
    batch, time = ids[0].q_ids.shape
    turned = len(ids) == 1 and ids[0].in_order()
    for row in range(batch):
        for start in range(0, time, chunk):
            queries = slice(start, min(start + chunk, time))
            read = [
                torch.unique_consecutive(end.q_ids[row, queries], return_inverse=True)
                for end in ids
            ]
            past = [slice(first, min(first + keys, start)) for first in range(0, start, keys)]
            last = _Part(ids, read, row, queries, queries, False)
            yield [last, *(_Part(ids, read, row, queries, part, turned) for part in past)]


class _Fused(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, chunk, ids, *tables):  # type: ignore[no-untyped-def]
        out, log_sum = unfilled(q, v)
        # One buffer: fresh memory for each block would have to be mapped and cleared.
        buffer = q.new_empty(q.shape[1] * chunk * max(chunk, KEYS), dtype=log_sum.dtype)
        for parts in _blocks(ids, chunk, KEYS):
            found: list[tuple[Tensor, Tensor]] = []
            for part in parts:
                inputs = part.of(q)[0], k[part.row, :, part.keys], v[part.row, :, part.keys]
                bias = part.bias(list(tables), buffer)
                some = kernel_forward(*(x[None] for x in (*inputs, bias)), causal=part.causal)
                found.append((some[0].flip(2), some[1].flip(2)) if part.turned else some)
            at = slice(part.row, part.row + 1), slice(None), part.queries
            out[at], log_sum[at] = functools.reduce(merged, found)
        ctx.ids, ctx.chunk = ids, chunk
        ctx.save_for_backward(q, k, v, out, log_sum, *tables)
        return out

    @staticmethod
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        q, k, v, out, log_sum, *tables = ctx.saved_tensors
        precise = log_sum.dtype
        inner = (grad.to(precise) * out.to(precise)).sum(-1)
        # Many blocks add to the gradient of a key: sum in float32 at least.
        into = [torch.zeros(x.shape, dtype=precise) for x in (q, k, v)]
        d_tables = [torch.zeros_like(table) for table in tables]
        size = q.shape[1] * ctx.chunk * max(ctx.chunk, BACKWARD_KEYS)
        buffer, spare = (q.new_empty(size, dtype=precise) for _ in range(2))
        for parts in _blocks(ctx.ids, ctx.chunk, BACKWARD_KEYS):
            for part in parts:
                queries, keys = (
                    (part.row, slice(None), part.queries),
                    (part.row, slice(None), part.keys),
                )
                bias = part.bias(tables, buffer)
                d_q = torch.zeros_like(into[0][queries]) if part.turned else into[0][queries]
                d_scores = _add_gradients(
                    (d_q, into[1][keys], into[2][keys]),
                    (part.of(q)[0], k[keys], v[keys]),
                    part.of(grad, inner, log_sum),
                    bias.contiguous() if part.turned else bias,
                    spare,
                    causal=part.causal,
                )
                if part.turned:
                    into[0][queries] += d_q.flip(1)
                if any(ctx.needs_input_grad[5:]):
                    part.add(d_tables, d_scores)
        return (*(d.to(x.dtype) for d, x in zip(into, (q, k, v), strict=True)),
                None, None, *d_tables)  # fmt: skip


def _add_gradients(into, qkv, of_block, bias, spare, *, causal):  # type: ignore[no-untyped-def]
    """Add to the gradients of q, k and v ``[h, t, d]``; return that of the scores.

    In place of `bias` and of `spare`: passes over scores that leave the cache take longer than the
    products.
    """
    (d_q, d_k, d_v), (q, k, v), (grad, inner, log_sum) = into, qkv, of_block
    scale = q.shape[-1] ** -0.5
    # Scores in full precision: they have been in the forward pass, of which log_sum is.
    precise = q.to(bias.dtype), k.to(bias.dtype).mT
    weights = _add_product(bias.sub_(log_sum[..., None]), *precise, scale).exp_()
    if causal:
        weights.tril_()
    _add_product(d_v, weights.to(q.dtype).mT, grad)
    d_scores = spare[: bias.numel()].view_as(bias).copy_(-inner[..., None])
    _add_product(d_scores, grad, v.mT).mul_(weights)
    low = d_scores.to(q.dtype)
    _add_product(d_q, low, k, scale)
    _add_product(d_k, low.mT, q, scale)
    return d_scores


def _add_product(to: Tensor, x: Tensor, y: Tensor, factor: float = 1.0) -> Tensor:
    """Add the product of matrices, which may be of a lower precision, to a tensor in place."""
    if x.dtype == to.dtype:
        return to.baddbmm_(x, y, alpha=factor)
    return to.add_(x @ y, alpha=factor)
