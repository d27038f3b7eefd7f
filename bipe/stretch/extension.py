"""A model's configuration with its rotation stretched, and an account of what that does.

    done = extended(model.config, {"_target_": "bipe.stretch.YaRN", "factor": 16.0}, notes=notes)
    print(done.report)
    longer = Decoder(done.config)
    longer.load_state_dict(model.state_dict())

The stretch stands in the configuration of the encoding, so that a checkpoint of the model knows
what was done to it. Weights are the same: a strategy changes none of their shapes.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from bipe.build import ALLOWED, PARTIAL, TARGET, build, find
from bipe.decoder import DecoderConfig
from bipe.encodings.base import Bilevel, Chain, Flat
from bipe.encodings.rope import RoPE, inverse_frequencies
from bipe.far.base import Far
from bipe.far.extension import FarReport, with_far
from bipe.stretch.base import Stretch
from bipe.stretch.original_length import OriginalLength, Unit, original_length

# A description in the form of plain dictionaries and lists, which may be changed.
_Node = dict[str, Any]
# Slowdowns this close to 1 or to the factor are that.
_SAME = 1e-9


@dataclass(frozen=True, kw_only=True)
class Report:
    """What a stretch does to the rotary pairs of a model.

    strategy: its description. original: the length that it starts from, None where the strategy
    asks for none. length: positions that the rest is told for. attention_factor: on cosines and
    sines. kept, blended, interpolated, stopped: indices of the pairs, fastest first, that turn as
    before, slower, slower by the whole factor, and not at all.
    """

    strategy: Mapping[str, Any]
    original: OriginalLength | None
    length: int | None
    attention_factor: float
    kept: tuple[int, ...]
    blended: tuple[int, ...]
    interpolated: tuple[int, ...]
    stopped: tuple[int, ...] = ()

    def __str__(self) -> str:
        given = {k: v for k, v in self.strategy.items() if k not in (TARGET, "original_length")}
        name = str(self.strategy[TARGET]).rpartition(".")[2]
        lines = [f"{name}({', '.join(f'{k}={v}' for k, v in given.items())})"]
        if self.original is not None:
            lines.append(f"  original length    {self.original}")
        if self.length is not None:
            lines.append(f"  told for           {self.length} positions")
        lines.append(f"  attention factor   {self.attention_factor:.6g}")
        kinds = ["kept", "blended", "interpolated"] + ["stopped"] * bool(self.stopped)
        pairs = sum(len(getattr(self, kind)) for kind in kinds)
        for kind in kinds:
            found = getattr(self, kind)
            lines.append(f"  {kind:18} {len(found)} of {pairs} rotary pairs{_ranges(found)}")
        return "\n".join(lines)

    def as_notes(self) -> dict[str, Any]:
        """The report as plain data, for the notes of a checkpoint."""
        return dataclasses.asdict(self)


@dataclass(frozen=True, kw_only=True)
class Extension:
    """A stretched configuration and what was done; a report for each rotation, mostly one."""

    config: DecoderConfig
    reports: tuple[Report | FarReport, ...]

    @property
    def report(self) -> str:
        return "\n".join(map(str, self.reports))


def extended(
    config: DecoderConfig,
    stretch: Mapping[str, Any],
    *,
    notes: Mapping[str, Any],
    unit: Unit | int | None = None,
    allowed: tuple[str, ...] = ALLOWED,
) -> Extension:
    """Stretch every rotation of a model that counts tokens of a document, or segments.

    stretch: the description of a strategy, whose `original_length` is filled in where it has none;
    or that of a method of bipe/far, with its windows filled in (far/extension.py).
    notes: of the checkpoint. unit: see `original_length`; None: what drives the rotation, segments
    under BiPE. Raises ValueError for a model without such a rotation, one that is stretched
    already, or a unit that does not drive it.
    """
    encoding = _plain(config.encoding)
    kind = find(stretch[TARGET], allowed=allowed)
    if isinstance(kind, type) and issubclass(kind, Far):
        encoding, told = with_far(
            encoding, _plain(stretch), notes=notes, unit=unit, allowed=allowed
        )
        return Extension(config=dataclasses.replace(config, encoding=encoding), reports=(told,))
    reports = []
    for rope, driven_by in _rotations(encoding, allowed=allowed):
        if rope.get("stretch") is not None:
            raise ValueError(
                f"the rotation is stretched already, by {rope['stretch'].get(TARGET)}: start from "
                "the checkpoint before that"
            )
        if unit == "segments" and driven_by == "tokens":
            raise ValueError(
                "unit must be tokens or a number: tokens drive the rotation of a flat encoding, "
                "was: segments"
            )
        original = None
        filled = {key: value for key, value in _plain(stretch).items() if key != PARTIAL}
        parameters = inspect.signature(kind).parameters
        if "original_length" in parameters:
            given = filled.get("original_length")
            counted = given if given is not None else unit if unit is not None else driven_by
            original = original_length(notes, unit=counted)
            filled["original_length"] = original.length
        _refuse_missing(filled, parameters)
        reports.append(_report(rope, filled, original, allowed=allowed))
        rope["stretch"] = filled
    if not reports:
        raise ValueError(
            f"{_names(encoding)} cannot be stretched: it has no rotation over the positions of a "
            "document, and what is stretched are rotary frequencies"
        )
    return Extension(config=dataclasses.replace(config, encoding=encoding), reports=tuple(reports))


def _refuse_missing(stretch: _Node, parameters: Mapping[str, inspect.Parameter]) -> None:
    missing = [
        name
        for name, each in parameters.items()
        if each.default is each.empty and each.kind is each.KEYWORD_ONLY and name not in stretch
    ]
    if missing:
        name = str(stretch[TARGET]).rpartition(".")[2]
        cure = " ".join(f"stretch.{each}=..." for each in missing)
        raise ValueError(f"{name} also needs {', '.join(missing)}; set {cure}")


def _rotations(node: _Node, *, allowed: tuple[str, ...]) -> Iterator[tuple[_Node, Unit]]:
    """The descriptions of RoPE in a scheme, each with what drives it.

    A rotation inside segments is left out: segments do not grow with documents.
    """
    kind = find(node[TARGET], allowed=allowed)
    if kind is Chain:
        for link in node["links"]:
            yield from _rotations(link, allowed=allowed)
    elif kind is Bilevel or kind is Flat:
        part, unit = ("inter", "segments") if kind is Bilevel else ("encoding", "tokens")
        if find(node[part][TARGET], allowed=allowed) is RoPE:
            yield node[part], unit  # type: ignore[misc]
    elif kind is RoPE:
        yield node, "tokens"


def _report(
    rope: _Node, stretch: _Node, original: OriginalLength | None, *, allowed: tuple[str, ...]
) -> Report:
    strategy: Stretch = build(stretch, allowed=allowed)
    theta = float(rope.get("theta", inspect.signature(RoPE).parameters["theta"].default))
    before = inverse_frequencies(width=rope["head_width"], theta=theta)
    factor = float(getattr(strategy, "factor", None) or 1.0)
    length = None
    if strategy.dynamic and original is not None:
        length = round(factor * original.length)
    at = None if length is None else torch.tensor(length)
    after, attention_factor = strategy.frequencies(before, theta=theta, length=at)
    slowdown, turns = before / after, after > 0
    return Report(
        strategy=stretch,
        original=original,
        length=length,
        attention_factor=float(attention_factor),
        kept=_indices((slowdown - 1).abs() <= _SAME),
        blended=_indices((slowdown > 1 + _SAME) & (slowdown < factor * (1 - _SAME))),
        interpolated=_indices(turns & (slowdown > 1 + _SAME) & (slowdown >= factor * (1 - _SAME))),
        stopped=_indices(~turns),
    )


def _indices(where: Tensor) -> tuple[int, ...]:
    return tuple(where.nonzero()[:, 0].tolist())


def _ranges(indices: tuple[int, ...]) -> str:
    """(0, 1, 2, 5) -> ": 0-2, 5"."""
    runs: list[list[int]] = []
    for index in indices:
        if runs and runs[-1][1] == index - 1:
            runs[-1][1] = index
        else:
            runs.append([index, index])
    told = ", ".join(f"{a}-{b}" if a < b else f"{a}" for a, b in runs)
    return f": {told}" if told else ""


def _names(node: _Node) -> str:
    """Bilevel(Learned, ALiBi), for an error."""
    inside = [part for value in node.values() for part in _parts(value)]
    name = str(node[TARGET]).rpartition(".")[2]
    return f"{name}({', '.join(map(_names, inside))})" if inside else name


def _parts(value: Any) -> list[_Node]:
    values = value if isinstance(value, list) else [value]
    return [part for part in values if isinstance(part, dict) and TARGET in part]


def _plain(value: Any) -> Any:
    """A deep copy in dictionaries and lists."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value
