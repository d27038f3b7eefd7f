"""How far a linear bias lets a query look: keys below a certain bias cannot matter to it.

A slope lowers the score of a far key without bound, while |q||k| / sqrt(width) bounds what the
content can add. For query i and a key j before it, with r the bias row:

    score(i, i) - score(i, j) >= r_i - r_j - (max_j |q_i||k_j| - q_i.k_i) / sqrt(width)

Keys whose right side exceeds ln(keys / tolerance) hold less than `tolerance` of the weight of the
query, all together. Under BiPE-ALiBi with the paper's slopes (2401.16421) 8 of 12 heads reach about
ten segments. banded.py and flex.py skip by this rule, by chunks and by blocks.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor

_TOLERANCE = 1 / 8  # in units of the rounding of the dtype
_ROUNDING = 1.001  # room for that of the norms below


def default_tolerance(dtype: torch.dtype) -> float:
    """The most weight that skipped keys may hold: less than the rounding of the dtype."""
    return torch.finfo(dtype).eps * _TOLERANCE


def least_bias(
    q: Float[Tensor, "batch head query width"],
    k: Float[Tensor, "batch kv_head key width"],
    row: Float[Tensor, "batch head key"],
    *,
    tolerance: float,
) -> Float[Tensor, "batch head query"]:
    """The bias below which a key cannot matter to each query; queries are the last of the keys.

    row: float64, the bias of each key up to a constant a query. NaN where q or k are.
    """
    past, groups = k.shape[2] - q.shape[2], q.shape[1] // k.shape[1]
    precise = torch.promote_types(q.dtype, torch.float32)
    norms = torch.linalg.vector_norm(k, dim=-1, dtype=precise)
    largest = norms.cummax(-1).values[..., past:]  # of the keys up to each query
    own = k[:, :, past:]
    if groups > 1:
        largest, own = (x.repeat_interleave(groups, 1) for x in (largest, own))
    bound = torch.linalg.vector_norm(q, dim=-1, dtype=precise) * largest * _ROUNDING
    lift = (bound - (q.to(precise) * own.to(precise)).sum(-1)) * q.shape[-1] ** -0.5
    return row[..., past:] - lift - math.log(k.shape[2] / tolerance)
