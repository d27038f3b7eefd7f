"""Queries, keys and values by head: the types of all paths, and how they are made to fit."""

from collections.abc import Callable

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

Queries = Float[Tensor, "batch head query width"]
Keys = Float[Tensor, "batch kv_head key width"]
Attention = Callable[[Tensor, Tensor, Tensor], Tensor]  # of queries, keys and values


def repeat_heads(k: Tensor, v: Tensor, *, n_head: int) -> tuple[Tensor, Tensor]:
    """Give each query head its key and value head (grouped-query attention, 2305.13245)."""
    groups = n_head // k.shape[1]
    if groups == 1:
        return k, v
    return k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)


def padded(v: Tensor, *, to: Tensor) -> Tensor:
    """Return values as wide as queries and keys, which an encoding may widen (PoPE)."""
    spare = to.shape[-1] - v.shape[-1]
    return F.pad(v, (0, spare)) if spare else v
