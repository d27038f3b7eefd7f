"""What the hooks of a part do to scores, by distance, at the values that training starts with.

    bias      what is added to the score; of gates the mean over random hidden states; where it
              depends on queries and keys, the root of its mean square over random ones
    rotation  the mean score of equal random q and k
    embed     the inner product of the vectors that are added; where none is added (products,
              rotations of embeddings), of random embeddings after the encoding

The query is the last of the ids 0, 1, ..., so that an encoding that is not relative is shown there.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from bipe.bias import Bias, ContentBias, GateBias
from bipe.decoder import DecoderConfig
from train.commands.explain.parts import ALL_IDS, SEGMENT, Part

SEED = 0
DRAWS = 32
_HEADS = 4  # at most, evenly over all
_MOST_TOKENS, _MOST_UNITS = 256, 64  # ids at most: of tokens, of any other level


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """Values at the distances 0, 1, ... of some heads. drawn: whether random numbers are in it."""

    part: Part
    what: str
    heads: dict[str, tuple[float, ...]]
    drawn: bool

    @property
    def title(self) -> str:
        seed = f", {DRAWS} draws, seed {SEED}" if self.drawn else ""
        cut = "" if len(self.part.ids) == 1 else f", in segments of {SEGMENT} tokens"
        return f"{self.part.path}, {self.part.name}: {self.what}{cut}{seed}"

    @property
    def unit(self) -> str:
        return f"distance in {self.part.counts if len(self.part.ids) == 1 else 'tokens'}"

    @property
    def farthest(self) -> int:
        return len(next(iter(self.heads.values()))) - 1

    @property
    def bounds(self) -> tuple[float, float]:
        values = [value for row in self.heads.values() for value in row if math.isfinite(value)]
        return (min(values), max(values)) if values else (0.0, 0.0)

    @property
    def flat(self) -> bool:
        low, high = self.bounds
        return high - low <= 1e-6 * max(abs(low), abs(high))


def curves(parts: Sequence[Part], decoder: DecoderConfig, row_length: int) -> Iterator[Curve]:
    """Yield a curve for each hook of each part that changes anything."""
    for part in parts:
        most = _MOST_TOKENS if part.ids in (ALL_IDS, ("token",)) else _MOST_UNITS
        for hook, values_of in _VALUES.items():
            if hook in (part.only or part.hooks):
                with torch.random.fork_rng(devices=()):
                    torch.manual_seed(SEED)
                    what, values, drawn = values_of(part, min(most, row_length), decoder)
                yield Curve(part=part, what=what, heads=_heads(values, hook), drawn=drawn)


Values = tuple[str, Tensor, bool]  # the name of a curve, its values, and whether they are random


def _embedded(part: Part, time: int, decoder: DecoderConfig) -> Values:
    of: Any = part.of
    added = of.embed(torch.zeros(1, time, decoder.width), part.at(time))
    if added.any():
        return "inner product of the added vectors", (added[:, -1:] * added).sum(-1), False
    same = torch.randn(DRAWS, 1, decoder.width).expand(-1, time, -1)
    turned = of.embed(same, part.at(time, batch=DRAWS))
    products = (turned[:, -1:] * turned).sum(-1).mean(0, keepdim=True)
    return "inner product of equal embeddings", products, True


def _rotated(part: Part, time: int, decoder: DecoderConfig) -> Values:
    rotation, width = part.rotation(time), decoder.head_width
    same = torch.randn(DRAWS, 1, 1, width).expand(-1, decoder.n_head, time, -1)
    q, k = rotation.query(same)[:, :, -1:], rotation.key(same)
    return "mean score of equal q and k", (q * k).sum(-1).mean(0) * width**-0.5, True


def _biased(part: Part, time: int, decoder: DecoderConfig) -> Values:
    leaves = [*part.bias(time, batch=DRAWS).leaves()]
    layer = part.layers[0] if part.layers else 0
    values: Any = sum(_leaf(leaf, time, layer, decoder) for leaf in leaves)
    if any(isinstance(leaf, ContentBias) for leaf in leaves):
        shown = values.square().mean(0).sqrt()
        return "size of the bias on random q and k", shown[:, 0], True
    drawn = any(isinstance(leaf, GateBias) for leaf in leaves)
    return "mean bias on random hidden states" if drawn else "bias", values.mean(0)[:, 0], drawn


_VALUES = {"embed": _embedded, "rotation": _rotated, "bias": _biased}


def _leaf(leaf: Bias, time: int, layer: int, decoder: DecoderConfig) -> Tensor:
    """Return the bias of the last query: ``(draw, head, 1, key)``."""
    heads, width = decoder.n_head, decoder.head_width
    if isinstance(leaf, GateBias):
        gates = leaf.gates(layer, torch.randn(DRAWS, time, decoder.width))
        return leaf.over(gates.transpose(1, 2)).dense(torch.float64)
    if isinstance(leaf, ContentBias):
        q, k = torch.randn(DRAWS, heads, 1, width), torch.randn(DRAWS, heads, time, width)
        allowed = torch.ones(DRAWS, 1, time, dtype=torch.bool)
        return leaf.in_layer(layer).added(q, k, q @ k.transpose(-1, -2), allowed).double()
    return leaf.dense(torch.float64)


def _heads(values: Tensor, hook: str) -> dict[str, tuple[float, ...]]:
    """Return some of the heads ``(head, key)`` by distance; one if they are equal."""
    rows: list[Any] = values.double().flip(-1).tolist()
    if torch.allclose(values, values[:1].expand_as(values), rtol=1e-5, atol=1e-7):
        return {"vectors" if hook == "embed" else "every head": tuple(rows[0])}
    last = len(rows) - 1
    chosen = sorted({round(at * last / (_HEADS - 1)) for at in range(_HEADS)})
    return {f"head {at + 1}": tuple(rows[at]) for at in chosen}
