"""Several seeds of each model: means with their intervals, and models compared seed by seed."""

import math
from collections.abc import Mapping, Sequence

from train.report.compare import lengths, measured, sources
from train.report.formats import DASH, change, count, short
from train.report.markup import Markup, join, tag
from train.report.palette import Style
from train.report.records import Run
from train.report.seeds import difference
from train.report.tables import emphasised, name_cell, section, table, with_detail


def seeds(runs: Sequence[Run], looks: Mapping[str, Style]) -> Markup:
    """Nothing, unless some model was trained with several seeds and measured on a source."""
    several = [run for run in runs if run.members]
    if not sources(several):
        return join([])
    first, *others = several
    parts = [_means(several, looks)]
    if others:
        parts += [
            tag("h3", f"Against {first.label}, seed by seed"),
            tag("p", "Perplexity in percent of that of the same seed, which had the same batches: "
                "the geometric mean, and under it its 95% interval. Bold: the interval leaves "
                "out equality."),
            _differences(first, others, looks),
        ]  # fmt: skip
    return section(
        "seeds",
        "Over seeds",
        tag("p", "Means over the seeds of each model, and the 95% interval of the mean by "
            "Student's t distribution: what other seeds would change."),
        *parts,
    )  # fmt: skip


def _means(several: Sequence[Run], looks: Mapping[str, Style]) -> Markup:
    columns = _columns(several)
    rows: list[Sequence[str]] = []
    for source in sources(several):
        rows.append([f"perplexity, {source}"])
        for run in several:
            cells = [_mean(run, source, n) for n in columns]
            rows.append([name_cell(run.label, looks[run.label]), count(len(run.members)), *cells])
    return table(head=["model", "seeds", *map(count, columns)], rows=rows)


def _mean(run: Run, source: str, length: int) -> str:
    value = measured(run, source, length)
    if value is None:
        return DASH
    half: float = measured(run, source, length, "half_widths")  # type: ignore[assignment]
    if not math.isfinite(half):
        return short(value)
    low, high = value * math.exp(-half), value * math.exp(half)
    return with_detail(short(value), f"{short(low)}{DASH}{short(high)}")


def _differences(first: Run, others: Sequence[Run], looks: Mapping[str, Style]) -> Markup:
    columns = _columns([first, *others])
    rows: list[Sequence[str]] = []
    for source in sources([first, *others]):
        rows.append([source])
        for run in others:
            cells = [_difference(run, first, source, n) for n in columns]
            rows.append([name_cell(run.label, looks[run.label]), *cells])
    return table(head=["model", *map(count, columns)], rows=rows)


def _difference(run: Run, first: Run, source: str, length: int) -> str:
    found = difference(run, first, source, length)
    if found is None:
        return DASH
    shown = change(found.ratio)
    low, high = (found.ratio * math.exp(side * found.half) for side in (-1, 1))
    return with_detail(
        emphasised(shown, shown if found.clear else None), f"{change(low)} to {change(high)}"
    )


def _columns(runs: Sequence[Run]) -> list[int]:
    return sorted({n for source in sources(runs) for n in lengths(runs, source)})
