"""Extend the configuration of a model to longer texts, and report the effect.

    done = extend_config(model.config, {"_target_": "bipe.extension.YaRN", "factor": 16.0},
                         notes=notes)
    print(done.report)
    longer = Decoder(done.config)
    longer.load_state_dict(model.state_dict())

The original length is the number of positions in training in the unit of the rotation: under BiPE a
number of segments, far below the tokens of a row. With a number of tokens instead, slow pairs that
never completed a turn would be treated as fast ones. Training records the positions in the notes:

    positions: {token: {counted, maximum, p99, p99.9}, segment: {...}}
"""

import dataclasses
import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import torch

from bipe.arguments import require
from bipe.build import ALLOWED, PARTIAL, TARGET, build, find
from bipe.decoder import DecoderConfig
from bipe.encodings.base import Bilevel, Chain, Encoding, Fed, Flat, Layers, Scheme, has_hook
from bipe.encodings.far import Far
from bipe.encodings.rope import RoPE, Stretch
from bipe.extension.retrofit import Retrofit

Unit = Literal["segments", "tokens"]
_PERCENTILE = "p99.9"
# A description as plain dictionaries and lists, copied so that it may be changed.
_Node = dict[str, Any]
# What distances count where that changes in training.
_MOVING = {
    "Gated": "tokens while the gates are 0, then between tokens and segments",
    "Homotopy": "tokens at first in training, segments at its end",
}
# Slowdowns this close to 1 or to the factor count as equal to it.
_SAME = 1e-9
_ANY = Encoding | Scheme
STRATEGY = Stretch | Far | Retrofit
_KINDS = ("kept", "blended", "interpolated", "stopped")


class Unrecorded(ValueError):
    """The notes of a model lack the positions of its training, which a strategy needs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OriginalLength:
    """A length in positions, its unit, and the source of the number."""

    length: int
    unit: str
    source: str

    def __str__(self) -> str:
        return f"{self.length} {self.unit} ({self.source})"


def original_length(notes: Mapping[str, Any], *, unit: Unit | int) -> OriginalLength:
    """Return the original length of a model with these notes, or raise ValueError if they lack it.

    unit: `segments` uses the 99.9th percentile of the segment index of training tokens, `tokens`
    the length of a training row, as is usual; a number is the length itself.
    """
    if isinstance(unit, int) and not isinstance(unit, bool):
        require(unit >= 1, "at least 1 position", unit=unit)
        return OriginalLength(length=unit, unit="positions", source="given")
    if unit == "tokens":
        if (row := notes.get("row_length")) is None:
            raise ValueError("the notes of the model have no row_length; set unit to a number")
        return OriginalLength(length=int(row), unit="tokens", source="a training row")
    require(unit == "segments", "segments, tokens or a number", unit=unit)
    try:
        seen = notes["positions"]["segment"]
        last, maximum = int(seen[_PERCENTILE]), int(seen["maximum"])
    except (KeyError, TypeError):
        raise Unrecorded(
            f"the notes of the model have no positions.segment.{_PERCENTILE}: it was trained "
            "elsewhere, or by an older version; set unit to a number of segments, or to tokens"
        ) from None
    if last < 0:
        raise ValueError("the notes of the model count no tokens; set unit to a number of segments")
    return OriginalLength(
        length=last + 1,
        unit="segments",
        source=f"{_PERCENTILE} of the indices in {seen.get('rows', 'training')}, the largest was "
        f"{maximum}",
    )


@dataclass(frozen=True, kw_only=True)
class Report:
    """The effect of a strategy on a model.

    unit: of positions. length: the length that the rest is computed for (a dynamic stretch), or up
    to which no distance exceeds training. attention_factor: on cosines and sines. kept, blended,
    interpolated, stopped: rotary pairs, fastest first, that rotate as before, slower, slower by the
    whole factor, and not at all; none for a method that changes distances.
    """

    strategy: Mapping[str, Any]
    original: OriginalLength | None
    unit: Unit
    length: int | None
    attention_factor: float | None = None
    kept: tuple[int, ...] = ()
    blended: tuple[int, ...] = ()
    interpolated: tuple[int, ...] = ()
    stopped: tuple[int, ...] = ()

    def __str__(self) -> str:
        options = {k: v for k, v in self.strategy.items() if k not in (TARGET, "original_length")}
        lines = [f"{_name(self.strategy)}({', '.join(f'{k}={v}' for k, v in options.items())})"]
        if self.original is not None:
            lines.append(f"  original length    {self.original}")
        if self.attention_factor is None:
            unit = _MOVING.get(_name(self.strategy), self.unit)
            lines.append(f"  distances count    {unit}")
            if self.length is not None:
                lines.append(f"  reads up to        {self.length} {self.unit}")
            return "\n".join(lines)
        if self.length is not None:
            lines.append(f"  computed for       {self.length} positions")
        lines.append(f"  attention factor   {self.attention_factor:.6g}")
        kinds = {kind: getattr(self, kind) for kind in _KINDS}
        pairs = sum(map(len, kinds.values()))
        for kind, name in kinds.items():
            if name or kind != "stopped":
                lines.append(f"  {kind:18} {len(name)} of {pairs} rotary pairs{_ranges(name)}")
        return "\n".join(lines)

    def as_notes(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


@dataclass(frozen=True, kw_only=True)
class Extension:
    """An extended configuration, with a report per changed rotation or scheme, mostly one."""

    config: DecoderConfig
    reports: tuple[Report, ...]

    @property
    def report(self) -> str:
        return "\n".join(map(str, self.reports))


def extend_config(
    config: DecoderConfig,
    strategy: Mapping[str, Any],
    *,
    notes: Mapping[str, Any],
    unit: Unit | int | None = None,
    allowed: tuple[str, ...] = ALLOWED,
) -> Extension:
    """Extend the encodings of a model that count tokens or segments of documents.

    strategy: the description of a stretch, applied to every such rotation, of a method that changes
    distances, applied to one scheme, or of a `Retrofit`, which replaces a flat RoPE; missing
    lengths and windows are filled in.
    unit: see `original_length`; None: the unit of the encoding. Raises ValueError if the strategy
    has no effect, if the model is already extended, or if the unit does not fit the encoding.
    """
    encoding, options = _plain(config.encoding), _plain(strategy)
    options.pop(PARTIAL, None)
    kind = find(options[TARGET], STRATEGY, allowed=allowed)
    if issubclass(kind, Retrofit):
        done = _retrofitted(config, kind, options, notes, unit, allowed)
        build(done.config.encoding, _ANY, allowed=allowed)  # its arguments are checked there
        return done
    far = issubclass(kind, Far)
    levels = list(_levels(encoding, allowed=allowed))
    key, report_on = ("far", _report_far) if far else ("stretch", _report_stretch)
    for level in levels:
        taken = (level.scheme if far else level.encoding).get(key)
        if taken is not None:
            raise ValueError(
                f"the model already has a stretch, {taken.get(TARGET)}: start from the "
                "checkpoint that it was extended from"
            )
    if far:
        served = [level for level in levels if not kind.serves or any(map(level.has, kind.serves))]
        # In a chain that counts both tokens and segments, take the segments.
        served = sorted(served, key=lambda each: each.unit != "segments")[:1]
    else:
        served = [level for level in levels if level.kind is RoPE]
    if not served:
        hooks = (" or ".join(kind.serves) or "level") if far else "rotation"
        raise ValueError(
            f"{_names(encoding)} cannot be stretched: it has no {hooks} over the positions of a "
            f"document, which {_name(options)} changes"
        )
    reports = []
    for level in served:
        if unit == "segments" and level.unit == "tokens":
            raise ValueError(
                "unit must be tokens or a number, since a flat encoding has no segments, was: "
                "segments"
            )
        report = report_on(kind, options, level, notes, unit)
        holder = level.scheme if far else level.encoding
        if far and holder is level.encoding:  # a bare encoding, which holds no method
            inner = holder.copy()
            holder.clear()
            holder |= {TARGET: "bipe.encodings.Flat", "encoding": inner}
        holder[key] = dict(report.strategy)
        reports.append(report)
    return Extension(config=dataclasses.replace(config, encoding=encoding), reports=tuple(reports))


def _retrofitted(
    config: DecoderConfig,
    kind: type[Retrofit],
    given: _Node,
    notes: Mapping[str, Any],
    unit: Unit | int | None,
    allowed: tuple[str, ...],
) -> Extension:
    """Replace a flat RoPE; a window is a training row, a step the tokens per segment in training.

    Raises ValueError for any other encoding, and for notes that lack what is left open.
    """
    encoding, original = _plain(config.encoding), None
    rope = encoding.get("encoding", encoding)
    if find(rope[TARGET], _ANY, allowed=allowed) is not RoPE or encoding.get("far") is not None:
        raise ValueError(f"{_name(given)} needs flat RoPE, was: {_names(encoding)}")
    arguments = {k: v for k, v in given.items() if k != TARGET and v is not None}
    parameters = inspect.signature(kind).parameters
    if "window" in parameters and "window" not in arguments:
        original = original_length(notes, unit="tokens" if unit is None else unit)
        arguments["window"] = original.length
    if "step" in parameters and "step" not in arguments:
        arguments["step"] = _tokens_per_segment(notes)
    scheme = kind(**arguments).encoding(rope, width=config.width, n_layer=config.n_layer)
    strategy = {TARGET: given[TARGET], **arguments}
    report = Report(strategy=strategy, original=original, unit="segments", length=None)
    return Extension(config=dataclasses.replace(config, encoding=scheme), reports=(report,))


def _tokens_per_segment(notes: Mapping[str, Any]) -> float:
    try:
        tokens, segments = (
            int(notes["positions"][name][_PERCENTILE]) + 1 for name in ("token", "segment")
        )
        return round(tokens / segments, 1)
    except (KeyError, TypeError, ZeroDivisionError):
        raise Unrecorded(
            "the notes of the model have no positions: it was trained elsewhere; set stretch.step, "
            "the tokens per segment (bipe evaluate statistics counts them)"
        ) from None


class _Level(NamedTuple):
    """A scheme that counts positions of a document, its encoding, and that encoding's class."""

    scheme: _Node
    encoding: _Node
    kind: Any
    unit: Unit

    def has(self, hook: str) -> bool:
        return has_hook(self.kind, hook)


def _levels(node: _Node, *, allowed: tuple[str, ...]) -> Iterator[_Level]:
    """Yield the levels that grow with documents; a bare encoding is its own scheme."""
    kind = find(node[TARGET], _ANY, allowed=allowed)
    if kind is Chain:
        for link in node["links"]:
            yield from _levels(link, allowed=allowed)
    elif kind is Layers:
        for scheme in node["schemes"].values():
            yield from _levels(scheme, allowed=allowed)
    elif kind is Bilevel:
        inter = node["inter"]
        yield _Level(node, inter, find(inter[TARGET], Encoding, allowed=allowed), "segments")
    elif kind is Flat:
        inner = node["encoding"]
        yield _Level(node, inner, find(inner[TARGET], Encoding, allowed=allowed), "tokens")
    elif issubclass(kind, Fed):
        raise ValueError(
            f"{kind.__name__} cannot be stretched: training counts tokens and segments, not "
            "coarser units, so the original length is unknown; set a stretch of its RoPE before "
            "training (encodings.NAME.stretch)"
        )
    elif issubclass(kind, Encoding):
        yield _Level(node, node, kind, "tokens")


def _report_far(
    kind: Any, given: _Node, level: _Level, notes: Mapping[str, Any], unit: Unit | int | None
) -> Report:
    """Return the report of a method, with the arguments it leaves open filled in."""
    target, arguments = given[TARGET], {k: v for k, v in given.items() if v is not None}
    del arguments[TARGET]
    counts = level.unit
    if (asked := inspect.signature(kind).parameters.get("unit")) is not None:
        # A mask or a factor may count tokens whatever drives the encoding.
        if unit == "tokens" != level.unit:
            arguments.setdefault("unit", unit)
        counts = given.get("unit", arguments.get("unit", asked.default)) or level.unit
    original = length = None
    if any(name not in arguments for name in kind.fitted(2)):  # the names, for whatever length
        original = original_length(notes, unit=counts if unit is None else unit)
        arguments = {**kind.fitted(original.length), **arguments}
    method: Far = kind(**arguments)
    if original is not None:
        length = method.longest(original.length)
    strategy = {TARGET: target, **arguments}
    return Report(strategy=strategy, original=original, unit=counts, length=length)


def _report_stretch(
    kind: Any, given: _Node, level: _Level, notes: Mapping[str, Any], unit: Unit | int | None
) -> Report:
    original, strategy = None, dict(given)
    parameters = inspect.signature(kind).parameters
    if "original_length" in parameters:
        asked = given.get("original_length")
        require(not isinstance(asked, int) or asked >= 1, "at least 1", original_length=asked)
        units = (given.get("original_length"), unit, level.unit)
        original = original_length(notes, unit=next(value for value in units if value is not None))
        strategy["original_length"] = original.length
    missing = [
        name
        for name, unit in parameters.items()
        if unit.default is unit.empty and unit.kind is unit.KEYWORD_ONLY and name not in strategy
    ]
    if missing:
        cure = " ".join(f"stretch.{name}=..." for name in missing)
        raise ValueError(f"{_name(given)} also needs {', '.join(missing)}; set {cure}")
    stretch: Stretch = kind(**{k: v for k, v in strategy.items() if k != TARGET})
    theta = float(level.encoding.get("theta", inspect.signature(RoPE).parameters["theta"].default))
    options = {
        key: value for key, value in level.encoding.items() if key not in (TARGET, "stretch")
    }
    plain = RoPE(**options)
    before = plain.frequencies
    factor = float(getattr(stretch, "factor", None) or 1.0)
    length = at = None
    if stretch.dynamic and original is not None:
        length = round(factor * original.length)
        at = torch.tensor(length)
    after, attention_factor = stretch.frequencies(before, theta=theta, length=at)
    slowdown, turns = before / after, after * plain.moves > 0
    slower, by_all = slowdown > 1 + _SAME, slowdown >= factor * (1 - _SAME)
    same = (slowdown - 1).abs() <= _SAME
    kinds = (turns & same, turns & slower & ~by_all, turns & slower & by_all, ~turns)
    return Report(
        strategy=strategy,
        original=original,
        unit=level.unit,
        length=length,
        attention_factor=float(attention_factor),
        **{
            kind: tuple(where.nonzero()[:, 0].tolist())
            for kind, where in zip(_KINDS, kinds, strict=True)
        },
    )


def _ranges(indices: tuple[int, ...]) -> str:
    """Return (0, 1, 2, 5) as ": 0-2, 5"."""
    starts = [index for index in indices if index - 1 not in indices]
    stops = [index for index in indices if index + 1 not in indices]
    runs = (f"{a}-{b}" if a < b else f"{a}" for a, b in zip(starts, stops, strict=True))
    return f": {', '.join(runs)}" if indices else ""


def _name(node: Mapping[str, Any]) -> str:
    return str(node[TARGET]).rpartition(".")[2]


def _names(node: _Node) -> str:
    """Return a name such as Bilevel(Learned, ALiBi), for errors."""
    values = (value if isinstance(value, list) else [value] for value in node.values())
    inside = ", ".join(
        _names(inner) for value in values for inner in value if isinstance(inner, dict)
    )
    if TARGET not in node:  # parts by name
        return inside
    return f"{_name(node)}({inside})" if inside else _name(node)


def _plain(value: Any) -> Any:
    """Return a deep copy in dictionaries and lists: of sections of a configuration, too."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value
