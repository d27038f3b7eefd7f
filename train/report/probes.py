"""Probes of evaluation.json, read into records: what a run still finds, by length and depth."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from train.report.entry import Entry

Grid = tuple[tuple[float, ...], ...]
GRIDS = ("accuracy", "written", "distance_tokens", "distance_segments", "first", "second")


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """Loss in nats in bins of an id: nll[i] over edges[i] to below edges[i + 1]."""

    edges: tuple[int, ...]
    nll: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """Grids run along lengths (tokens), then depths; one column where a probe has no depths."""

    protocol: str
    lengths: tuple[int, ...]
    depths: tuple[float, ...]
    chance: float  # not a number where guessing finds nothing
    grids: Mapping[str, Grid]
    curves: Mapping[str, Curve]


def load_probes(root: Entry) -> dict[str, Probe]:
    """The probes of a run by name; none where it was evaluated without."""
    held = root.optional("probes")
    return {name: _probe(entry) for name, entry in held.items()} if held else {}


def _probe(entry: Entry) -> Probe:
    curves = entry.optional("curves")
    if curves:
        read = {name: _curve(curve) for name, curve in curves.items()}
        return Probe(protocol=entry["protocol"].text(), lengths=(), depths=(), chance=float("nan"),
                     grids={}, curves=read)  # fmt: skip
    depths = entry.optional("depths")
    shares = depths.numbers() if depths else ()
    lengths = tuple(length.count(least=1) for length in entry["lengths"].entries())
    grids = {
        name: _grid(grid, rows=len(lengths), columns=len(shares) or 1)
        for name in GRIDS
        if (grid := entry.optional(name))
    }
    return Probe(
        protocol=entry["protocol"].text(),
        lengths=lengths,
        depths=shares,
        chance=entry["chance"].number(),
        grids=grids,
        curves={},
    )


def _curve(entry: Entry) -> Curve:
    edges = entry["edges"].rising()
    return Curve(edges=edges, nll=entry["nll"].numbers(length=len(edges) - 1))


def _grid(entry: Entry, *, rows: int, columns: int) -> Grid:
    lines = entry.entries()
    if len(lines) != rows:
        raise entry.fault(f"a list of {rows} rows, one a length ({len(lines)} given)")
    return tuple(line.numbers(length=columns) for line in lines)


def probe_mean(probe: Probe, grid: str, length: int) -> float:
    """The mean over depths of a grid at a length; not a number where it has nothing there."""
    if grid not in probe.grids or length not in probe.lengths:
        return math.nan
    row = probe.grids[grid][probe.lengths.index(length)]
    known = [value for value in row if math.isfinite(value)]
    return fmean(known) if known else math.nan


def mean_probe(probes: Sequence[Probe]) -> Probe:
    """The mean of several seeds, over what all of them have: lengths, grids, curves."""
    first = probes[0]
    lengths = [n for n in first.lengths if all(n in probe.lengths for probe in probes)]
    alike = all(probe.depths == first.depths for probe in probes)
    grids = {
        name: tuple(_mean_row([p.grids[name][p.lengths.index(n)] for p in probes]) for n in lengths)
        for name in first.grids
        if alike and all(name in probe.grids for probe in probes)
    }
    curves = {name: _mean_curve([p.curves.get(name) for p in probes]) for name in first.curves}
    return replace(
        first,
        lengths=tuple(lengths),
        grids=grids,
        curves={name: curve for name, curve in curves.items() if curve is not None},
    )


def _mean_row(rows: Sequence[Sequence[float]]) -> tuple[float, ...]:
    return tuple(map(fmean, zip(*rows, strict=True)))


def _mean_curve(held: Sequence[Curve | None]) -> Curve | None:
    first = held[0]
    alike = [curve for curve in held if curve and first and curve.edges == first.edges]
    if first is None or len(alike) < len(held):
        return None
    return replace(first, nll=_mean_row([curve.nll for curve in alike]))
