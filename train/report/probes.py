"""Probes of evaluation.json, read into records: what a run still finds, by length and depth."""

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


def mean_probe(probes: Sequence[Probe]) -> Probe:
    """The mean of several seeds, over what the first of them has at all lengths."""
    first = probes[0]
    alike = [probe for probe in probes if probe.lengths == first.lengths]
    grids = {
        name: tuple(
            tuple(map(fmean, zip(*rows, strict=True)))
            for rows in zip(*(probe.grids[name] for probe in alike), strict=True)
        )
        for name in first.grids
    }
    return replace(first, grids=grids)
