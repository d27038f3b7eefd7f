"""The cells of a sweep over ways to stretch a model: method x unit x length.

A method that has a factor gets that of the length: length / training row. A method that measures
the length itself (dynamic) keeps its own. Nothing is stretched where the factor is 1: there every
method is the model as it is. Cells whose models are equal (a method that asks for no original
length has no unit) are measured once.
"""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from bipe.build import ALLOWED, PARTIAL, TARGET, find
from bipe.decoder import DecoderConfig
from bipe.encodings import Bilevel
from bipe.encodings.base import Chain
from bipe.extension import extend_config

NONE = "none"
_FACTOR = "factor"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One measurement: a model's configuration at a length of context, in tokens."""

    length: int
    factor: float
    config: DecoderConfig

    @property
    def model(self) -> str:
        """Equal for equal models."""
        text = json.dumps(asdict(self.config), sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A method with one unit, at all lengths. unit: None where the method has none."""

    method: str
    unit: str | None
    report: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The lines of a run, and the methods that it does not take, each with the reason."""

    lines: tuple[Line, ...]
    left_out: Mapping[str, str]


def plan(
    config: DecoderConfig,
    *,
    notes: Mapping[str, Any],
    methods: Mapping[str, Mapping[str, Any] | None],
    units: Sequence[str],
    factor: float | None,
    lengths: Sequence[int],
    row_length: int,
    allowed: tuple[str, ...] = ALLOWED,
) -> Plan:
    """The lines of the methods that a model takes.

    methods: descriptions by name; None for the model as it is. factor: None: of each length.
    A model that was stretched and trained so takes none but itself.
    """
    lines: list[Line] = []
    left_out: dict[str, str] = {}
    for name, description in methods.items():
        if description is None:
            cells = tuple(_cell(config, length, row_length) for length in lengths)
            lines.append(Line(method=name, unit=None, report="", cells=cells))
            continue
        if is_stretched(config.encoding):
            left_out[name] = "the model is stretched already"
            continue
        made = []
        for unit in units if _has_segments(config.encoding, allowed) else ["tokens"]:
            try:
                made.append(
                    _line(config, notes, name, description, unit, factor, lengths, row_length,
                          allowed)
                )  # fmt: skip
            except ValueError as reason:
                left_out[name if len(units) == 1 else f"{name}, {unit}"] = str(reason)
        lines += _merged(made)
    return Plan(lines=tuple(lines), left_out=left_out)


def is_stretched(encoding: Any) -> bool:
    """Whether a description holds a stretch or a far method."""
    if isinstance(encoding, Mapping):
        own = any(encoding.get(key) is not None for key in ("stretch", "far"))
        return own or any(map(is_stretched, encoding.values()))
    return isinstance(encoding, (list, tuple)) and any(map(is_stretched, encoding))


def _line(
    config: DecoderConfig,
    notes: Mapping[str, Any],
    name: str,
    description: Mapping[str, Any],
    unit: Any,
    factor: float | None,
    lengths: Sequence[int],
    row_length: int,
    allowed: tuple[str, ...],
) -> Line:
    cells, report = [], ""
    for length in lengths:
        own = factor if factor is not None else max(1.0, length / row_length)
        if length <= row_length:
            own = 1.0
        described = {key: value for key, value in description.items() if key != PARTIAL}
        if _scales(described, allowed):
            described[_FACTOR] = own
        # Also where nothing is stretched: what cannot be is refused at every length.
        done = extend_config(config, described, notes=notes, unit=unit, allowed=allowed)
        if own > 1:
            report = done.report
        cells.append(Cell(length=length, factor=own, config=done.config if own > 1 else config))
    return Line(method=name, unit=str(unit), report=report, cells=tuple(cells))


def _scales(description: Mapping[str, Any], allowed: tuple[str, ...]) -> bool:
    """Whether a method takes the factor of a length."""
    kind = find(description[TARGET], allowed=allowed)
    dynamic = bool(getattr(kind, "dynamic", False))
    return _FACTOR in inspect.signature(kind).parameters and not dynamic


def _merged(lines: Sequence[Line]) -> list[Line]:
    """Lines of one method whose models are all the same are one, without a unit."""
    models = {tuple(cell.model for cell in line.cells) for line in lines}
    if len(lines) < 2 or len(models) > 1:
        return list(lines)
    line = lines[0]
    return [Line(method=line.method, unit=None, report=line.report, cells=line.cells)]


def _cell(config: DecoderConfig, length: int, row_length: int) -> Cell:
    return Cell(length=length, factor=max(1.0, length / row_length), config=config)


def _has_segments(node: Any, allowed: tuple[str, ...]) -> bool:
    kind = find(node[TARGET], allowed=allowed)
    if kind is Chain:
        return any(_has_segments(link, allowed) for link in node["links"])
    return kind is Bilevel
