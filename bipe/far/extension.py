"""A far method in the description of a scheme, fitted to what the model has seen.

`bipe.stretch.extension.extended` is the door; this is its part for the methods of bipe/far.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from bipe.build import PARTIAL, TARGET, build, find
from bipe.encodings.base import Bilevel, Chain, Flat, has_hook
from bipe.far.base import Far
from bipe.stretch.original_length import OriginalLength, Unit, original_length

# A description in the form of plain dictionaries and lists, which may be changed.
_Node = dict[str, Any]
_FLAT = "bipe.encodings.Flat"


@dataclass(frozen=True, kw_only=True)
class FarReport:
    """What a far method was given.

    strategy: its description. original: the length that its arguments follow from, None where all
    were given. unit: what its distances count. length: positions up to which no distance is beyond
    those of training, None: any number, or not known.
    """

    strategy: Mapping[str, Any]
    original: OriginalLength | None
    unit: str
    length: int | None

    def __str__(self) -> str:
        given = {key: value for key, value in self.strategy.items() if key != TARGET}
        name = str(self.strategy[TARGET]).rpartition(".")[2]
        lines = [f"{name}({', '.join(f'{k}={v}' for k, v in given.items())})"]
        if self.original is not None:
            lines.append(f"  original length    {self.original}")
        lines.append(f"  distances count    {self.unit}")
        if self.length is not None:
            lines.append(f"  reads up to        {self.length} {self.unit}")
        return "\n".join(lines)

    def as_notes(self) -> dict[str, Any]:
        """The report as plain data, for the notes of a checkpoint."""
        return dataclasses.asdict(self)


def with_far(
    encoding: _Node,
    description: _Node,
    *,
    notes: Mapping[str, Any],
    unit: Unit | int | None,
    allowed: tuple[str, ...],
) -> tuple[_Node, FarReport]:
    """The encoding with the method; arguments that it does not have are filled in.

    Raises ValueError for an encoding that the method does not act on, or that has one already.
    """
    method: type[Far] = find(description[TARGET], allowed=allowed)
    encoding, node, driven_by = _place(encoding, method, allowed=allowed)
    if unit == "segments" and driven_by == "tokens":
        raise ValueError(
            "unit must be tokens or a number: tokens drive a flat encoding, was: segments"
        )
    filled = {k: v for k, v in description.items() if k != PARTIAL and v is not None}
    counts = driven_by
    if "unit" in inspect.signature(method).parameters:
        # A mask or a factor may count tokens whatever drives the encoding.
        if unit == "tokens" != driven_by:
            filled.setdefault("unit", unit)
        counts = filled.get("unit", driven_by)
    original = None
    if any(name not in filled for name in method.fitted(2)):
        original = original_length(notes, unit=counts if unit is None else unit)
        filled = {TARGET: filled.pop(TARGET), **method.fitted(original.length), **filled}
    built: Far = build(filled, allowed=allowed)
    node["far"] = filled
    length = None if original is None else built.reach(original.length)
    return encoding, FarReport(strategy=filled, original=original, unit=counts, length=length)


def _place(
    encoding: _Node, method: type[Far], *, allowed: tuple[str, ...]
) -> tuple[_Node, _Node, Unit]:
    """The encoding, the scheme in it that the method goes to, and what drives that."""
    kind = find(encoding[TARGET], allowed=allowed)
    if kind not in (Chain, Bilevel, Flat):
        encoding = {TARGET: _FLAT, "encoding": encoding}
    found = list(_schemes(encoding, allowed=allowed))
    for node, _, _ in found:
        if node.get("far") is not None:
            raise ValueError(
                f"the model has a far method already, {node['far'].get(TARGET)}: start from the "
                "checkpoint before that"
            )
    served = [
        (node, driven_by)
        for node, inner, driven_by in found
        if not method.serves or any(has_hook(inner, hook) for hook in method.serves)
    ]
    if not served:
        inside = ", ".join(inner.__name__ for _, inner, _ in found)
        raise ValueError(
            f"{inside or kind.__name__} cannot be stretched by {method.__name__}: it has no "
            f"{' or '.join(method.serves) or 'level'} over the positions of a document"
        )
    if len(served) > 1:
        served = [each for each in served if each[1] == "segments"][:1] or served[:1]
    return encoding, *served[0]


def _schemes(node: _Node, *, allowed: tuple[str, ...]) -> Iterator[tuple[_Node, Any, Unit]]:
    """The schemes with a level of their own: description, class of its encoding, what drives it."""
    kind = find(node[TARGET], allowed=allowed)
    if kind is Chain:
        for link in node["links"]:
            yield from _schemes(link, allowed=allowed)
    elif kind is Bilevel:
        yield node, find(node["inter"][TARGET], allowed=allowed), "segments"
    elif kind is Flat:
        yield node, find(node["encoding"][TARGET], allowed=allowed), "tokens"
