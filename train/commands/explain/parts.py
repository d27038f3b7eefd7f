"""The parts of a composed encoding: what their docstrings say, and what they do to scores.

Curves are at the values that training starts with:

    bias      what is added to the score; of gates the mean over random hidden states; where it
              depends on queries and keys, the root of its mean square over random ones
    rotation  the mean score of equal random q and k
    embed     the inner product of the vectors that are added; where none is added (products,
              rotations of embeddings), of random embeddings after the encoding

The query is the last of the ids 0, 1, ..., so that an encoding that is not relative is shown there.
"""

from __future__ import annotations

import inspect
import math
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor, nn

from bipe.attention.dispatch import bias_kind
from bipe.bias import Bias, ContentBias, GateBias
from bipe.decoder import DecoderConfig
from bipe.encodings.base import Chain, Encoding, Layers, far_of, levels_of
from bipe.encodings.multilevel import Multilevel
from bipe.positions import SEGMENT_BIT, Positions

ALL_IDS = ("token", "inter", "intra")
COUNTS = {"token": "tokens of the document", "intra": "tokens of the segment", "inter": "segments"}
_UNITS = "units in the next coarser one"
_BIASES = {
    "linear": "linear in ids",
    "gates": "gates, read off hidden states",
    "table": "a table of ids",
    "content": "depends on queries and keys",
    "other": "a sum that needs a dense bias",
}
SEGMENT = 16  # tokens of each segment that a scheme of its own kind is asked with


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """An encoding inside a composed one, or a scheme of its own kind.

    path: its key below `encoding`. ids: what it is fed. layers: where it acts; None: in all.
    only: the hooks that are drawn; empty: all.
    """

    path: str
    of: nn.Module
    ids: tuple[str, ...]
    layers: tuple[int, ...] | None = None
    only: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return type(self.of).__name__

    @property
    def counts(self) -> str:
        return ", ".join(COUNTS.get(name, _UNITS) for name in self.ids)

    @property
    def parameters(self) -> dict[str, int]:
        return {name: parameter.numel() for name, parameter in self.of.named_parameters()}

    @property
    def nature(self) -> list[str]:
        """Return what the encodings inside declare; what changes embeddings sees all ids."""
        inside = [encoding for encoding in self.of.modules() if isinstance(encoding, Encoding)]
        relative = all(encoding.relative and not _embeds(encoding) for encoding in inside)
        rules = {
            "relative: scores stay when all ids are shifted": relative,
            "not relative: scores depend on where ids start": not relative,
            "random: draws in training": any(encoding.random for encoding in inside),
            "layered: its bias is made in each layer": any(one.layered for one in inside),
        }
        return [rule for rule, holds in rules.items() if holds]

    @property
    def hooks(self) -> dict[str, str]:
        """Return the hooks that change anything, each with what it gives."""
        hooks = {"embed": "changes embeddings"} if _embeds(self.of) else {}
        if (rotation := self.rotation(2)) is not None:
            hooks["rotation"] = f"of queries and keys ({type(rotation).__name__})"
        if (bias := self.bias(2)) is not None:
            hooks["bias"] = f"on scores, {_BIASES[bias_kind(bias)]}"
        return hooks

    def rotation(self, time: int) -> Any:
        of: Any = self.of
        return of.rotation(self.at(time))

    def bias(self, time: int, *, batch: int = 1) -> Any:
        """Return the bias of the last query over all keys."""
        at = self.at(time, batch=batch)
        of: Any = self.of
        return of.bias(at[:, -1:] if isinstance(at, Tensor) else at[-1:], at)

    def at(self, time: int, *, batch: int = 1) -> Any:
        """Return the ids 0, 1, ...; of a scheme, positions in segments of 16 tokens.

        Of further levels, a unit holds four of the finer one.
        """
        if isinstance(self.of, Encoding):
            return torch.arange(time).expand(batch, -1)
        marks, levels = torch.zeros(1, time, dtype=torch.uint8), levels_of(self.of)
        for level in range(levels):
            marks[:, :: SEGMENT * 4**level] |= 1 << SEGMENT_BIT + level
        at = Positions.from_marks(marks, packed=False, levels=levels)
        return at.map(lambda ids: ids.expand(batch, -1))


def ids_read(parts: Sequence[Part]) -> tuple[str, ...]:
    """Return the names of the ids to show: of two levels, and of coarser ones if they are fed."""
    fed = [name for part in parts for name in part.ids if name not in ALL_IDS]
    count = 1 + max((int(name.removeprefix("level")) for name in fed), default=-1)
    return (*ALL_IDS, *(f"level{level}" for level in range(count)))


def parts_of(
    scheme: Any, n_layer: int, path: str = "", layers: tuple[int, ...] | None = None
) -> Iterator[Part]:
    """Yield the encodings of a scheme, in the order in which they are applied."""
    if isinstance(scheme, Layers):
        for name, inner in scheme.schemes.items():
            indices = tuple(at for at in range(n_layer) if scheme.of_layer(at) is inner)
            yield from parts_of(inner, n_layer, f"{path}schemes.{name}.", indices)
    elif isinstance(scheme, Chain):
        for place, link in enumerate(scheme.links):
            yield from parts_of(link, n_layer, f"{path}links.{place}.", layers)
    elif hasattr(scheme, "fed"):
        for place, (level, encoding) in enumerate(scheme.fed().items()):
            name = {"token": "encoding"}.get(level, level)
            if isinstance(scheme, Multilevel):
                name = f"encodings.{[*scheme.encodings][place]}"
            yield Part(path=f"{path}{name}", of=encoding, ids=(level,), layers=layers)
    else:
        name = path.rstrip(".") or "encoding"
        yield Part(path=name, of=scheme, ids=ALL_IDS, layers=layers)


def together(scheme: Any, parts: Sequence[Part]) -> list[Part]:
    """Return the whole scheme as a part, to draw the hooks in which several parts have a share."""
    if isinstance(scheme, Layers):
        return []
    shares = Counter(hook for part in parts for hook in part.hooks)
    only = tuple(hook for hook, count in shares.items() if count > 1)
    return [Part(path="together", of=scheme, ids=ALL_IDS, only=only)] if only else []


def about_far(scheme: Any) -> list[tuple[str, Any]]:
    """Return the far methods and stretches inside, each with where it is."""
    methods = []
    for name, module in scheme.named_modules():
        where = name or "the whole"
        if isinstance(module, Chain):
            continue  # it has that of a link
        if (far := far_of(module)) is not None:
            methods.append((f"far of {where}", far))
        if (stretch := getattr(module, "stretch", None)) is not None:
            methods.append((f"stretch of {where}", stretch))
    return methods


def settings(of: Any) -> str:
    """Return the fields of a far method or stretch as they are written in a configuration."""
    return ", ".join(f"{field.name}={getattr(of, field.name)}" for field in fields(of))


def source_of(kind: type) -> tuple[str, list[str]]:
    """Return the first sentence of a docstring, and its first formulas.

    A class of bipe is described by its module; one of the user's own by itself, if it is.
    """
    module = sys.modules.get(kind.__module__)
    docs = [kind.__doc__, getattr(module, "__doc__", None)]
    ours = kind.__module__.startswith("bipe.")
    doc = inspect.cleandoc(next(filter(None, docs[::-1] if ours else docs), ""))
    blocks = [block.splitlines() for block in doc.split("\n\n")]
    inside = (block for block in blocks if block and all(line.startswith("    ") for line in block))
    return " ".join(blocks[0]), next(inside, [])


def _embeds(of: nn.Module) -> bool:
    if isinstance(of, Encoding):
        return type(of).embed is not Encoding.embed
    return any(_embeds(encoding) for encoding in of.modules() if isinstance(encoding, Encoding))


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
