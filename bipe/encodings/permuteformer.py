"""Permuted features with a decay (PermuteFormer; Chen, 2109.02377), in softmax attention.

    weight(i, j) ~ r_h^(i - j) exp((P_h^i q) . (P_h^j k) / sqrt(d)),   r_h = sigmoid(2 + 3h / H)

P_h is a fixed random permutation of the features of a head, so scores depend on i - j alone. In the
paper's linear attention r multiplies weights, through q r^i and k r^-i. In a softmax that factor is
log(r_h) (i - j) on scores: a linear bias, which cannot overflow and needs no centre.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from bipe.arguments import require, require_at_least
from bipe.bias import KeyIds, LinearBias, QueryIds
from bipe.encodings.base import Encoding
from bipe.encodings.far import Ids
from bipe.rotation import Turn


@dataclass(frozen=True, slots=True, kw_only=True)
class Permutation(Turn):
    """A permutation of features; with several heads per group, all of a group have the same."""

    source: Int[Tensor, "batch group time width"]

    def query(self, x: Tensor) -> Tensor:
        groups = x.shape[1] // self.source.shape[1]
        return x.gather(-1, self.source.repeat_interleave(groups, 1).expand_as(x))

    key = query


class PermuteFormer(Encoding):
    """Permutes features once per id. n_kv_head: key heads, by default n_head; seed: of the draw."""

    members: Tensor
    start: Tensor
    place: Tensor
    length: Tensor
    slopes: Tensor

    def __init__(
        self,
        *,
        head_width: int,
        n_head: int,
        n_kv_head: int | None = None,
        decays: bool = True,
        seed: int = 0,
    ) -> None:
        super().__init__()
        groups = n_head if n_kv_head is None else n_kv_head
        require_at_least(1, head_width=head_width, n_head=n_head, n_kv_head=groups)
        require(n_head % groups == 0, f"a multiple of n_kv_head ({groups})", n_head=n_head)
        generator = torch.Generator(device="cpu").manual_seed(seed)
        drawn = (
            torch.randperm(head_width, generator=generator, device="cpu") for _ in range(groups)
        )
        tables = map(_cycles, drawn)
        names = ("members", "start", "place", "length")
        for name, rows in zip(names, zip(*tables, strict=True), strict=True):
            self.constant(name, torch.tensor(rows))
        self.decays = decays
        ratios = torch.sigmoid(2 + 3 * torch.arange(n_head, dtype=torch.float64) / n_head)
        self.constant("slopes", -ratios.log())

    def rotation(self, ids: Ids) -> Permutation:
        if ids.is_floating_point():
            raise ValueError(
                "PermuteFormer needs whole ids, but this far method makes fractions: use another"
            )
        turned = (self.place[:, None] + ids[:, None, :, None]) % self.length[:, None]
        at = self.start[:, None] + turned  # [b, group, t, d]
        members = self.members[:, None].expand_as(at)
        return Permutation(source=members.gather(-1, at))

    def bias(self, q_ids: QueryIds, k_ids: KeyIds) -> LinearBias | None:
        if not self.decays:
            return None
        return LinearBias(slopes=self.slopes, q_ids=q_ids, k_ids=k_ids)


def _cycles(permutation: Tensor) -> tuple[list[int], list[int], list[int], list[int]]:
    """Return the features cycle by cycle, and of each feature its cycle's start, place and length.

    So its source after n permutations is ``members[start + (place + n) % length]``.
    """
    source = permutation.tolist()
    members: list[int] = []
    start, place, length = ([0] * len(source) for _ in range(3))
    for first in range(len(source)):
        if first in members:
            continue
        cycle = [first]
        while source[cycle[-1]] != first:
            cycle.append(source[cycle[-1]])
        for index, feature in enumerate(cycle):
            start[feature], place[feature], length[feature] = len(members), index, len(cycle)
        members += cycle
    return members, start, place, length
