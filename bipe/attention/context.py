"""Attention over rows that several devices share, each with a part of the time.

With c devices a row is cut into 2c chunks; device r holds the chunks r and 2c - 1 - r, so that all
have equally many keys to see (Llama 3, 2407.21783, section 3.3.2):

    c = 2, 8 tokens      device 0: 0 1 . . . . 6 7      device 1: . . 2 3 4 5 . .

Each layer gathers the keys and values of all devices; the backward pass adds up their gradients.
Queries are the last of the keys that they see, as with a cache. Memory for scores stays small:
queries are taken in groups. Far methods and dynamic stretches do not work so.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from jaxtyping import Float, Shaped
from torch import Tensor

from bipe.attention import Path
from bipe.attention.chunked import checkpointed
from bipe.attention.dispatch import choose_attention, masked_attention, uncompiled
from bipe.attention.eager import allowed_pairs
from bipe.attention.heads import Attention
from bipe.bias import Bias
from bipe.encodings.base import Encoding, counts_length, far_of
from bipe.positions import Positions

QUERIES = 512  # whose scores are in memory at once
_PATHS = ("auto", "eager", "masked")
_ALL = slice(None)


@dataclass(frozen=True, slots=True)
class Context:
    """The part of this device in a batch of shared rows; takes the place of a cache.

    group: the devices that share rows. row: positions of the whole rows.
    """

    group: Any
    row: Positions

    @property
    def size(self) -> int:
        return dist.get_world_size(self.group)

    def own(self, x: Shaped[Tensor, "batch time"]) -> Shaped[Tensor, "batch part"]:
        """Return the part of this device of a tensor of whole rows."""
        chunks, rank = x.chunk(2 * self.size, 1), dist.get_rank(self.group)
        return torch.cat((chunks[rank], chunks[-1 - rank]), 1)

    def extend(self, at: Positions) -> Positions:
        return self.row

    def complete(self, at: Positions) -> Positions:
        raise ValueError(_NO_LENGTHS)

    # Not in compiled graphs, which cannot hold a group of devices.
    @uncompiled
    def append(
        self,
        layer: int,
        k: Float[Tensor, "batch kv_head part width"],
        v: Float[Tensor, "batch kv_head part v_width"],
    ) -> tuple[Tensor, Tensor]:
        gathered: Tensor = _Gathered.apply(torch.cat((k, v), -1), self.group)
        first, second = gathered.chunk(2, 3)  # [c, b, h, t / 2c, d]: chunks r and 2c - 1 - r
        chunks = torch.cat((first, second.flip(0)))
        whole = chunks.movedim(0, 2).flatten(2, 3)  # [b, h, t, d]
        keys, values = whole.split((k.shape[-1], v.shape[-1]), -1)
        return keys, values

    def attention(
        self, bias: Callable[[Positions, Positions], Bias | None], at: Positions, *, path: Path
    ) -> Attention:
        """Return ``attend(q, k, v)`` from own queries to whole rows.

        bias: from the positions of some queries and keys to their bias.
        """
        rank, half = dist.get_rank(self.group), at.document.shape[1] // 2
        parts = []
        for queries, chunk in ((slice(0, half), rank), (slice(half, None), -1 - rank)):
            stop = (chunk % (2 * self.size) + 1) * half  # where the chunk ends in the row
            q_at, k_at = at[queries], self.row[:stop]
            parts.append((queries, stop, _choose(bias(q_at, k_at), q_at, k_at, path)))
        return functools.partial(_in_parts, parts=parts)


_NO_LENGTHS = "a dynamic stretch does not work with context parallelism: set context_parallel=1"


def refuse_shared(scheme: Any, *, path: Path) -> None:
    """Raise ValueError for a scheme or a path that does not work on shared rows."""
    if path not in _PATHS:
        raise ValueError(
            f"attention must be one of {', '.join(_PATHS)} with context parallelism, was: {path}"
        )
    if far_of(scheme) is not None:
        raise ValueError(
            f"{type(far_of(scheme)).__name__} does not work with context parallelism: set "
            "context_parallel=1"
        )
    if counts_length(scheme):
        raise ValueError(_NO_LENGTHS)
    for part in scheme.modules():
        if isinstance(part, Encoding) and part.layered:
            raise ValueError(
                f"{type(part).__name__} depends on the hidden states of each layer, which is not "
                "supported with context parallelism: set context_parallel=1"
            )


def _choose(bias: Bias | None, q_at: Positions, k_at: Positions, path: Path) -> Attention:
    if path != "auto" or q_at.document.shape[1] <= QUERIES:
        return choose_attention(bias=bias, q_at=q_at, k_at=k_at, path=path)
    return functools.partial(_in_groups, bias=bias, q_at=q_at, k_at=k_at)


def _in_parts(
    q: Tensor, k: Tensor, v: Tensor, *, parts: list[tuple[slice, int, Attention]]
) -> Tensor:
    outs = [attend(q[:, :, at], k[:, :, :stop], v[:, :, :stop]) for at, stop, attend in parts]
    return torch.cat(outs, 2)


def _in_groups(
    q: Tensor, k: Tensor, v: Tensor, *, bias: Bias | None, q_at: Positions, k_at: Positions
) -> Tensor:
    outs, past = [], k.shape[2] - q.shape[2]
    for start in range(0, q.shape[2], QUERIES):
        queries = slice(start, min(start + QUERIES, q.shape[2]))
        keys = slice(0, past + queries.stop)
        part = None if bias is None else bias.part(rows=_ALL, queries=queries, keys=keys)
        allowed = allowed_pairs(q_at.document[:, queries], k_at.document[:, keys])
        attend = functools.partial(masked_attention, bias=part, allowed=allowed)
        outs.append(checkpointed(attend, q[:, :, queries], k[:, :, keys], v[:, :, keys]))
    return torch.cat(outs, 2)


class _Gathered(torch.autograd.Function):
    """x ``[...]`` of each device, as ``[device, ...]``."""

    @staticmethod
    def forward(ctx, x, group):  # type: ignore[no-untyped-def]
        ctx.group = group
        gathered = x.new_empty(dist.get_world_size(group) * len(x), *x.shape[1:])
        dist.all_gather_into_tensor(gathered, x.contiguous(), group=group)
        return gathered.unflatten(0, (-1, len(x)))

    @staticmethod
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        part = grad.new_empty(grad.shape[1:])
        dist.reduce_scatter_tensor(part, grad.contiguous().flatten(0, 1), group=ctx.group)
        return part, None
