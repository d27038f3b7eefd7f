"""Arithmetic by chains: right answers against the number of operators, and against the width."""

from collections.abc import Mapping, Sequence
from statistics import fmean

from train.report.figures import Guide, Series, line_chart
from train.report.formats import DASH, percent
from train.report.markup import Markup, join, tag
from train.report.palette import Style
from train.report.records import Arithmetic, Run
from train.report.tables import beside, emphasised, name_cell, section, table, with_detail
from train.report.targets import target_of, targets

_EXPERIMENT = "arithmetic"


def arithmetic(runs: Sequence[Run], looks: Mapping[str, Style]) -> Markup:
    """Nothing, unless some run was asked for answers."""
    held = {run.label: found for run in runs if (found := asked(run))}
    if not held:
        return join([])
    shown = [run for run in runs if run.label in held]
    protocols = dict.fromkeys(each.protocol for found in held.values() for each in found)
    return section(
        "arithmetic",
        "Arithmetic by chains",
        tag("p", "Each model writes a chain of reductions to its answer, modulo a prime. Problems "
            "with more operators than in training ask it to extrapolate."),
        *(tag("p", protocol, class_="note") for protocol in protocols),
        _by_operators(shown, held, looks),
        _by_width(shown, held, looks),
    )  # fmt: skip


def asked(run: Run) -> list[Arithmetic]:
    """What was found of a run, or of each of its seeds."""
    found = [each.arithmetic for each in (run.members or (run,))]
    return [each for each in found if each is not None]


def mean(found: Sequence[Arithmetic], measure: str, operators: int) -> float | None:
    """The mean share over seeds at a number of operators."""
    shares = [
        getattr(each, measure)[each.operators.index(operators)]
        for each in found
        if operators in each.operators
    ]
    return fmean(shares) if shares else None


def _by_operators(
    runs: Sequence[Run], held: Mapping[str, Sequence[Arithmetic]], looks: Mapping[str, Style]
) -> Markup:
    columns = sorted({n for found in held.values() for each in found for n in each.operators})
    chart = line_chart(
        title="Right answers against the number of operators",
        series=[_series(run, held[run.label], looks) for run in runs],
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
        means = {run.label: [mean(held[run.label], measure, n) for n in columns] for run in runs}
        best = [_best(values) for values in zip(*means.values(), strict=True)]
        for run in runs:
            cells = [
                _cell(held[run.label], value, n, measure=measure, best=top)
                for n, value, top in zip(columns, means[run.label], best, strict=True)
            ]
            stated = _stated(run) if measure == "answer" else DASH
            rows.append([name_cell(run.label, looks[run.label]), *cells, stated])
    numbers = table(head=["operators", *map(str, columns), "paper"], rows=rows, note=_note())
    return beside(chart, table=numbers)


def _series(run: Run, found: Sequence[Arithmetic], looks: Mapping[str, Style]) -> Series:
    counts = sorted({n for each in found for n in each.operators})
    points = [(n, mean(found, "answer", n)) for n in counts]
    return Series(
        label=run.label,
        style=looks[run.label],
        points=tuple((n, value) for n, value in points if value is not None),
        bars=tuple((n, *_range(found, n)) for n in counts),
    )


def _range(found: Sequence[Arithmetic], operators: int) -> tuple[float, float]:
    """The Wilson interval of one run; the lowest to the highest of several seeds."""
    places = [(each, each.operators.index(operators)) for each in found
              if operators in each.operators]  # fmt: skip
    if len(places) == 1:
        each, at = places[0]
        return each.interval[at]
    shares = [each.answer[at] for each, at in places]
    return min(shares), max(shares)


def _cell(
    found: Sequence[Arithmetic], value: float | None, operators: int, *, measure: str, best: str
) -> str:
    if value is None:
        return DASH
    shown = emphasised(percent(value, 1), best)
    if measure != "answer":
        return shown
    low, high = _range(found, operators)
    return with_detail(shown, f"{percent(low, 1)}{DASH}{percent(high, 1)}")


def _best(values: Sequence[float | None]) -> str:
    return percent(max((value for value in values if value is not None), default=0.0), 1)


def _trained(held: Mapping[str, Sequence[Arithmetic]]) -> list[Guide]:
    most = sorted({max(each.trained) for found in held.values() for each in found})
    return [Guide(at=count, label=f"trained up to {count}") for count in most]


def _stated(run: Run) -> str:
    target = target_of(_EXPERIMENT, run.model.name)
    if target is None:
        return DASH
    if target.value is not None:
        return percent(target.value)
    return f"below {percent(target.below)}" if target.below is not None else DASH


def _note() -> str:
    told = targets(_EXPERIMENT)
    sources = ", ".join(dict.fromkeys(f"{each.source} ({each.provenance})" for each in told))
    widths = ", ".join(dict.fromkeys(str(each.width) for each in told))
    return (
        "Small: the 95% interval of Wilson of a single run, or the lowest to the highest of its "
        f"seeds. Bold: the highest. Paper: final answers at width {widths}, {sources}, whose "
        "training is far longer than that of a small run; its numbers of operators are unread."
    )


def _in_distribution(found: Sequence[Arithmetic]) -> int:
    """The most operators that were trained on and asked for, or the fewest asked for."""
    first = found[0]
    known = [n for n in first.operators if n <= max(first.trained)]
    return known[-1] if known else first.operators[0]


def _by_width(
    runs: Sequence[Run], held: Mapping[str, Sequence[Arithmetic]], looks: Mapping[str, Style]
) -> Markup:
    """Answers at the most operators of training against the width, where widths differ."""
    by_model: dict[str, list[tuple[float, float]]] = {}
    styles: dict[str, Style] = {}
    for run in runs:
        value = mean(held[run.label], "answer", _in_distribution(held[run.label]))
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
