"""Arithmetic by chains: right answers against the number of operators, and against the width."""

import math
from collections.abc import Mapping, Sequence

from train.report.compare import asked_operators, highest, in_distribution, right
from train.report.figures import Guide, Series, line_chart
from train.report.formats import DASH, percent
from train.report.markup import Markup, join, tag
from train.report.palette import Style
from train.report.records import Arithmetic, Run
from train.report.sections.published import stated
from train.report.tables import beside, emphasised, name_cell, section, table, with_detail
from train.report.targets import sources_of, target_of, targets

_EXPERIMENT = "arithmetic"


def arithmetic(runs: Sequence[Run], looks: Mapping[str, Style]) -> Markup:
    """Nothing, unless some run was asked for answers."""
    held = {run.label: run.arithmetic for run in runs if run.arithmetic}
    if not held:
        return join([])
    shown = [run for run in runs if run.label in held]
    protocols = dict.fromkeys(each.protocol for each in held.values())
    return section(
        "arithmetic",
        "Arithmetic by chains",
        tag("p", "Each model writes a chain of reductions to its answer, modulo a prime. Problems "
            "with more operators than in training ask it to extrapolate."),
        *(tag("p", protocol, class_="note") for protocol in protocols),
        _by_operators(shown, held, looks),
        _by_width(shown, held, looks),
    )  # fmt: skip


def _by_operators(
    runs: Sequence[Run], held: Mapping[str, Arithmetic], looks: Mapping[str, Style]
) -> Markup:
    columns = asked_operators(held.values())
    chart = line_chart(
        title="Right answers against the number of operators",
        series=[_series(run.label, held[run.label], looks) for run in runs],
        x_name="operators (log scale)",
        y_name="share of right answers",
        guides=_trained(held),
        limits=(0.0, 1.0),
        write=percent,
        write_tick=percent,
    )
    rows: list[Sequence[str]] = []
    for measure, name in (("answer", "right answers"), ("steps", "right steps"),
                          ("tokens", "right tokens")):  # fmt: skip
        rows.append([name])
        shares = {run.label: [right(held[run.label], measure, n) for n in columns] for run in runs}
        best = [highest(values, _percent) for values in zip(*shares.values(), strict=True)]
        for run in runs:
            cells = [
                _cell(held[run.label], value, n, measure=measure, best=top)
                for n, value, top in zip(columns, shares[run.label], best, strict=True)
            ]
            paper = _stated(run) if measure == "answer" else ""
            rows.append([name_cell(run.label, looks[run.label]), *cells, paper])
    numbers = table(head=["operators", *map(str, columns), "paper"], rows=rows, note=_note())
    return beside(chart, table=numbers)


def _percent(share: float) -> str:
    return percent(share, 1)


def _series(label: str, held: Arithmetic, looks: Mapping[str, Style]) -> Series:
    return Series(
        label=label,
        style=looks[label],
        points=tuple(zip(held.operators, held.answer, strict=True)),
        bars=tuple((n, *ends) for n, ends in zip(held.operators, held.interval, strict=True)),
    )


def _cell(
    held: Arithmetic, value: float | None, operators: int, *, measure: str, best: str | None
) -> str:
    if value is None:
        return DASH
    shown = emphasised(_percent(value), best)
    low, high = held.interval[held.operators.index(operators)]
    if measure != "answer" or not math.isfinite(low):
        return shown
    return with_detail(shown, f"{_percent(low)}{DASH}{_percent(high)}")


def _trained(held: Mapping[str, Arithmetic]) -> list[Guide]:
    most = sorted({max(each.trained) for each in held.values()})
    return [Guide(at=count, label=f"trained up to {count}") for count in most]


def _stated(run: Run) -> str:
    target = target_of(_EXPERIMENT, run.model.name)
    return "" if target is None else stated(target)


def _note() -> str:
    told = targets(_EXPERIMENT)
    widths = ", ".join(dict.fromkeys(str(each.width) for each in told))
    return (
        "Small: the 95% interval, of Wilson for a single run, by Student's t for the mean of "
        "seeds. Bold: the highest. Paper: final answers at width "
        f"{widths}, {sources_of(told)}, whose "
        "training is far longer than that of a small run; its numbers of operators are unread."
    )


def _by_width(
    runs: Sequence[Run], held: Mapping[str, Arithmetic], looks: Mapping[str, Style]
) -> Markup:
    """Answers at the most operators of training against the width, where widths differ."""
    by_model: dict[str, list[tuple[float, float]]] = {}
    styles: dict[str, Style] = {}
    for run in runs:
        value = right(held[run.label], "answer", in_distribution(held[run.label]))
        if value is not None:
            by_model.setdefault(run.model.name, []).append((run.model.config["width"], value))
            styles.setdefault(run.model.name, looks[run.label])
    if len({width for points in by_model.values() for width, _ in points}) < 2:
        return join([])
    chart = line_chart(
        title="Right answers in distribution against the width",
        series=[
            Series(label=name, style=styles[name], points=tuple(sorted(points)))
            for name, points in by_model.items()
        ],
        x_name="width (log scale)",
        y_name="share of right answers",
        limits=(0.0, 1.0),
        write=percent,
        write_tick=percent,
    )
    widths = sorted({width for points in by_model.values() for width, _ in points})
    rows = [
        [name_cell(name, styles[name])]
        + [percent(dict(points)[w], 1) if w in dict(points) else DASH for w in widths]
        for name, points in by_model.items()
    ]
    return beside(chart, table=table(head=["width", *map(str, widths)], rows=rows))
