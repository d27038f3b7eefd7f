"""Probes of retrieval, copying and long contexts: a heat map a model and probe, and the means."""

import math
from collections.abc import Mapping, Sequence

from train.report.figures import Series, heat_map, line_chart
from train.report.formats import DASH, count, percent, short
from train.report.markup import Markup, join, tag
from train.report.palette import Style
from train.report.probes import Curve, Grid, Probe, probe_mean
from train.report.records import Run
from train.report.spans import probe_span
from train.report.tables import name_cell, section, table, with_detail

_TITLE = "Probes of retrieval and copying"
_LEVELS = {"token": "place in the document, tokens", "inter": "segment of the document",
           "intra": "place in the segment, tokens"}  # fmt: skip


def probes(runs: Sequence[Run], looks: Mapping[str, Style]) -> Markup:
    """One part a probe; nothing where no run was probed."""
    names = list(dict.fromkeys(name for run in runs for name in run.probes))
    if not names:
        return join([])
    return section(
        "probes",
        _TITLE,
        tag("p", "Each cell is the share of what was asked for that was found, in percent, at one "
            "length and depth. Distances are from the farthest statement that is needed to the "
            "answer: a bilevel encoding counts them in segments, a flat one in tokens."),
        *(_part(name, [run for run in runs if name in run.probes], looks) for name in names),
    )  # fmt: skip


def _part(name: str, runs: Sequence[Run], looks: Mapping[str, Style]) -> Markup:
    first = runs[0].probes[name]
    parts = [tag("h3", name), tag("p", first.protocol)]
    if first.curves:
        drawn = (_curves(level, runs, looks) for level in first.curves)
        return join([*parts, tag("div", *drawn, class_="charts")])
    for grid, called in (("accuracy", "likeliest"), ("written", "written")):
        held = [run for run in runs if _known(run.probes[name].grids.get(grid, ()))]
        if held:
            maps = [_map(run, run.probes[name], name, grid, called) for run in held]
            parts.append(tag("div", *maps, class_="maps"))
    return join([*parts, _means(name, runs, looks)])


def _known(grid: Grid) -> bool:
    return any(math.isfinite(value) for row in grid for value in row)


def _map(run: Run, probe: Probe, name: str, grid: str, called: str) -> Markup:
    drawing = heat_map(
        title=f"{name} of {run.label}, {called}, by length and depth",
        values=probe.grids[grid],
        lengths=probe.lengths,
        depths=probe.depths or (math.nan,),
        trained=run.training.row_length,
    )
    return tag("figure", tag("figcaption", f"{run.label}, {called}", class_="map-name"), drawing)


def _means(name: str, runs: Sequence[Run], looks: Mapping[str, Style]) -> Markup:
    lengths = sorted({length for run in runs for length in run.probes[name].lengths})
    if not lengths:
        return tag("p", "No length had room for it.")
    rows = [[name_cell(run.label, looks[run.label]), *_cells(run, name, lengths)] for run in runs]
    probe = runs[0].probes[name]
    rows.append(["distance", *(_distance(probe, n) for n in lengths)])
    chance = f" Guessing finds {percent(probe.chance)}." if math.isfinite(probe.chance) else ""
    losses = "first" in probe.grids
    small = "loss of the first and second appearance, nats" if losses else "written by the model"
    if any(run.members for run in runs):
        small = f"the 95% interval over seeds by Student's t, then {small}"
    note = f"Means over depths. Small: {small}; distance in tokens, small in segments.{chance}"
    return table(head=["found", *map(count, lengths)], rows=rows, note=note)


def _cells(run: Run, name: str, lengths: Sequence[int]) -> list[str]:
    known = run.probes[name].lengths
    return [_cell(run, name, length) if length in known else DASH for length in lengths]


def _cell(run: Run, name: str, length: int) -> str:
    """What was found; under it its interval over seeds, losses, or what the model wrote."""
    probe = run.probes[name]
    shown = percent(probe_mean(probe, "accuracy", length))
    ends = probe_span(run, name, length)
    if ends is not None:
        shown = with_detail(shown, f"{percent(ends[0])}{DASH}{percent(ends[1])}")
    if "first" in probe.grids:
        first, second = (short(probe_mean(probe, grid, length)) for grid in ("first", "second"))
        return with_detail(shown, f"{first}, {second}")
    written = probe_mean(probe, "written", length)
    return shown if math.isnan(written) else with_detail(shown, percent(written))


def _distance(probe: Probe, length: int) -> str:
    if length not in probe.lengths:
        return DASH
    tokens, segments = (
        probe_mean(probe, f"distance_{unit}", length) for unit in ("tokens", "segments")
    )
    return with_detail(short(tokens), short(segments))


def _curves(level: str, runs: Sequence[Run], looks: Mapping[str, Style]) -> Markup:
    return line_chart(
        title=f"Loss by {_LEVELS.get(level, level)}",
        series=[
            Series(label=run.label, style=looks[run.label], points=_points(run, level))
            for run in runs
        ],
        x_name=f"{_LEVELS.get(level, level)} (log scale, counted from 1)",
        y_name=f"loss, nats a token, by {_LEVELS.get(level, level).partition(',')[0]}",
        x_scale="octaves",
    )


def _points(run: Run, level: str) -> tuple[tuple[float, float], ...]:
    curves = (probe.curves[level] for probe in run.probes.values() if level in probe.curves)
    curve = next(curves, Curve(edges=(0,), nll=()))
    places = zip(curve.edges, curve.nll, strict=False)  # the last edge ends the last bin
    return tuple((edge + 1.0, nll) for edge, nll in places if math.isfinite(nll))
