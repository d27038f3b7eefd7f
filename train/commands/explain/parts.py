"""The parts of a composed encoding: where they are, what they are fed, and what they change.

What is said of a part is read off its docstrings and hooks.
"""

from __future__ import annotations

import inspect
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor, nn

from bipe.attention.dispatch import bias_kind
from bipe.encodings.base import Chain, Encoding, Layers, far_of, has_hook, levels_of
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
        return has_hook(type(of), "embed")
    return any(_embeds(encoding) for encoding in of.modules() if isinstance(encoding, Encoding))
