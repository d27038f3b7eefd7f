"""Random gaps and offsets of ids in training, so that a model meets positions beyond its rows.

    at = PoSE(reach=8192).drawn(at, row_keys(tokens, seed=0, step=7))

    ids            0 1 2 3 4 5 6 7
    PoSE           0 1 2 3 4 13 14 15            reach 20: cut at 5, skip 8
    Randomised     2 5 7 8 10 14 16 19           reach 20: a random subset
    Shifted        6 7 8 9 10 11 12 13           most 9: an offset of 6

A draw changes what is counted in documents: the token index of flat encodings, the segment index of
BiPE, the coarsest of several levels; per document and per level. It depends only on (seed, step,
tokens of the row), not on the rank, the size of micro-batches or a generator, so a run resumed on
other devices repeats its draws. The numbers are a counter passed through the finaliser of
SplitMix64 (Steele et al., 2014).
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from bipe.arguments import Bounded, at_least
from bipe.positions import Positions, document_runs

Ids = Int[Tensor, "batch time"]
_GOLDEN = 0x9E3779B97F4A7C15 - (1 << 64)  # the int64 with these bits
_MIX = (0xBF58476D1CE4E5B9 - (1 << 64), 0x94D049BB133111EB - (1 << 64))
_FRACTION_BITS = 53  # of a float64


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """What a draw is given per token: ``(batch, time)`` each.

    ids: counted from the first of its document in the row. count: ids of that document in the row.
    document: its index in the row, from 0. keys: one per document.
    """

    ids: Ids
    count: Ids
    document: Ids
    keys: Ids


class Draw(Bounded, ABC):
    """A method of drawing: a frozen, keyword-only dataclass that defines `new_ids`.

    Lengths are in tokens or segments. A document with more ids than `reach` keeps its own.
    """

    @abstractmethod
    def new_ids(self, of: Drawn) -> Ids:
        """Return new ids in the same order: equal where `of.ids` are, greater where they are."""

    def drawn(self, at: Positions, keys: Int[Tensor, " batch"]) -> Positions:
        """Return positions with drawn indices in the document. keys: see `row_keys`."""
        of_levels: list[Tensor] = []
        document = document_runs(at.document)
        for number, ids in enumerate((at.token, at.inter, *at.levels[-1:])):
            first = _of_document(ids, document, "amin")
            count = _of_document(ids, document, "amax") - first + 1
            keys_of_document = mixed(mixed(keys + number)[:, None] + document)
            of = Drawn(ids=ids - first, count=count, document=document, keys=keys_of_document)
            of_levels.append(torch.where(at.document < 0, ids, first + self.new_ids(of)))
        token, inter, *coarsest = of_levels
        return replace(at, token=token, inter=inter, levels=(*at.levels[:-1], *coarsest))


@dataclass(frozen=True, kw_only=True)
class PoSE(Draw):
    """Skip-wise positions (Zhu et al., 2309.10400, section 3.2).

    A document is cut at random into chunks (more give more gaps), and each but the first is shifted
    by a skip. Skips grow from chunk to chunk and the last id stays below `reach`, so rows of the
    training length meet every distance below it.
    """

    reach: int = field(metadata=at_least(1))
    chunks: int = field(default=2, metadata=at_least(2))

    def new_ids(self, of: Drawn) -> Ids:
        cuts = range(self.chunks - 1)
        # The first id of each chunk but the first: from 1 to count - 1, [b, t, cut].
        begins = torch.stack([uniform(of.keys, 2 * i) for i in cuts], -1)
        begins = 1 + (begins * (of.count[..., None] - 1)).long().sort(-1).values
        room = (self.reach - of.count).clamp(min=0)[..., None]
        skips = torch.stack([uniform(of.keys, 2 * i + 1) for i in cuts], -1)
        skips = (skips * (room + 1)).long().sort(-1).values
        # The skip of a chunk replaces that of the chunk before it.
        steps = torch.diff(skips, dim=-1, prepend=torch.zeros_like(skips[..., :1]))
        return of.ids + (steps * (of.ids[..., None] >= begins)).sum(-1)


@dataclass(frozen=True, kw_only=True)
class Randomised(Draw):
    """A random subset of ids, in order (Ruoss et al., 2305.16843, section 3).

    A document of n ids gets n of `reach`, all subsets equally likely. The model learns such gaps:
    evaluate it on documents whose ids fill `reach`. Work and memory grow with `reach`.
    """

    reach: int = field(metadata=at_least(1))

    def new_ids(self, of: Drawn) -> Ids:
        new_ids = of.ids
        for number in range(int(of.document.max()) + 1):  # waits for the device
            inside = of.document == number
            first = inside.byte().argmax(-1, keepdim=True)
            chosen = self._subset(of.keys.gather(-1, first), of.count.gather(-1, first))
            ids = chosen.gather(-1, of.ids.clamp(max=self.reach - 1))
            new_ids = torch.where(inside & (of.count <= self.reach), ids, new_ids)
        return new_ids

    def _subset(self, keys: Tensor, count: Tensor) -> Int[Tensor, "batch reach"]:
        """Return `count` random ids below `reach` in order, followed by the others."""
        place = torch.arange(self.reach, device=keys.device)
        rank = uniform(mixed(keys + place), 0).argsort(-1).argsort(-1)
        return (place + self.reach * (rank >= count)).argsort(-1)


@dataclass(frozen=True, kw_only=True)
class Shifted(Draw):
    """One random offset per document, 0 to `most` (SHAPE; Kiyono et al., 2109.05644, eq. 2).

    Evaluation uses real positions, an offset of 0. The release has the offset most + 1 there, which
    it never drew in training.
    """

    most: int = field(metadata=at_least(0))

    def new_ids(self, of: Drawn) -> Ids:
        return of.ids + (uniform(of.keys, 0) * (self.most + 1)).long()


def row_keys(tokens: Ids, *, seed: int, step: int) -> Int[Tensor, " batch"]:
    """Return a key per row, computed from all its tokens."""
    place = torch.arange(tokens.shape[1], device=tokens.device)
    key = mixed(mixed(tokens + 1) + place).sum(-1)
    # An odd factor keeps seeds different modulo 2^64, and the steps of two seeds from meeting.
    return mixed(key + _wrapped(seed * 0x632BE59BD9B4E019 + step))


def _of_document(ids: Tensor, document: Tensor, reduce: Literal["amin", "amax"]) -> Tensor:
    reduced = torch.zeros_like(ids).scatter_reduce(-1, document, ids, reduce, include_self=False)
    return reduced.gather(-1, document)


def uniform(keys: Int[Tensor, " ..."], number: int) -> Float[Tensor, " ..."]:
    """Return the `number`-th random number of each key: float64, from 0 to below 1."""
    # Likewise the numbers of neighbouring keys.
    bits = _shifted(mixed(keys + _wrapped(number * 0xD1342543DE82EF95)), 64 - _FRACTION_BITS)
    return bits.double() * 2.0**-_FRACTION_BITS


def mixed(x: Int[Tensor, " ..."]) -> Int[Tensor, " ..."]:
    """Scramble int64 numbers one to one (the finaliser of SplitMix64)."""
    x = x + _GOLDEN
    x = (x ^ _shifted(x, 30)) * _MIX[0]
    x = (x ^ _shifted(x, 27)) * _MIX[1]
    return x ^ _shifted(x, 31)


def _shifted(x: Tensor, bits: int) -> Tensor:
    """Shift right and fill with zeros; torch's own shift copies the sign."""
    return (x >> bits) & ((1 << (64 - bits)) - 1)


def _wrapped(x: int) -> int:
    return (x + (1 << 63)) % (1 << 64) - (1 << 63)
