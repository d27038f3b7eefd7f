"""Passkey retrieval: a heat map a model, and the mean over depths against length."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from train.report.compare import found, highest, passkey_lengths, retrievals, sources
from train.report.figures import Guide, Series, heat_map, line_chart
from train.report.formats import DASH, count, percent, spread
from train.report.markup import Markup, join, tag
from train.report.palette import HEAT_STEPS, Style
from train.report.records import Passkey, Run
from train.report.sections.perplexity import guides
from train.report.spans import found_span
from train.report.tables import beside, emphasised, name_cell, section, table, with_detail

_TITLE = "Passkey retrieval"


def retrieval(runs: Sequence[Run], looks: Mapping[str, Style]) -> Markup:
    """What a model can still find, which perplexity alone does not show."""
    held = retrievals(runs)
    if not held and not sources(runs):
        return join([])
    if not held:
        return section("retrieval", _TITLE, tag("p", "These runs were evaluated without it."))
    trials = spread((passkey.trials for passkey in held.values()), count)
    chance = spread((passkey.chance for passkey in held.values()), percent)
    missing = [run.label for run in runs if run.label not in held]
    without = [tag("p", f"Not measured for: {', '.join(missing)}.")] if missing else []
    maps = [_map(run, held[run.label]) for run in runs if run.label in held]
    return section(
        "retrieval",
        _TITLE,
        tag(
            "p",
            "A low perplexity needs only the nearest sentences; finding a key that was hidden "
            "early in a long document needs the whole context. Each cell is the share of the key "
            f"found, in percent, over {trials} trials at one length and one depth (0% is the "
            f"start of the document). Guessing finds {chance}.",
        ),
        *without,
        _scale(),
        tag("div", *maps, class_="maps"),
        _means(runs, held, looks),
    )


def _map(run: Run, held: Passkey) -> Markup:
    drawing = heat_map(
        title=f"Passkey retrieval of {run.label} by length and depth",
        values=held.accuracy,
        lengths=held.lengths,
        depths=held.depths,
        trained=run.training.row_length,
    )
    return tag("figure", tag("figcaption", run.label, class_="map-name"), drawing)


def _scale() -> Markup:
    cells = [
        tag("span", str(100 * step // HEAT_STEPS),
            style=f"background:var(--heat-{step});color:var(--heat-ink-{step})")
        for step in range(HEAT_STEPS + 1)
    ]  # fmt: skip
    return tag("p", "found, %", tag("span", *cells, class_="scale"), class_="note scale-line")


def _means(runs: Sequence[Run], held: Mapping[str, Passkey], looks: Mapping[str, Style]) -> Markup:
    columns = passkey_lengths(runs)
    by_label = {run.label: run for run in runs}
    shares = {label: found(passkey) for label, passkey in held.items()}
    whole = {label: found(passkey, "exact") for label, passkey in held.items()}
    chart = line_chart(
        title="Passkey retrieval, mean over depths, against document length",
        series=[
            Series(
                label=label,
                style=looks[label],
                points=tuple(means.items()),
                bars=tuple(_bars(by_label[label], means)),
            )
            for label, means in shares.items()
        ],
        x_name="tokens (log scale)",
        y_name="share of the key found, mean over depths",
        guides=guides([run for run in runs if run.label in held]),
        level=_chance(held),
        limits=(0.0, 1.0),
        write=percent,
        write_tick=percent,
    )
    best = {n: highest((means.get(n) for means in shares.values()), percent) for n in columns}
    rows = [
        [name_cell(label, looks[label])]
        + [
            _cell(emphasised(percent(means[n]), best[n]), by_label[label], n, whole[label][n])
            if n in means
            else DASH
            for n in columns
        ]
        for label, means in shares.items()
    ]
    numbers = table(head=["found", *map(count, columns)], rows=rows, note=_uncertainty(runs, held))
    return beside(chart, table=numbers)


def _bars(run: Run, lengths: Iterable[int]) -> Iterator[tuple[float, float, float]]:
    """The intervals of the means over seeds."""
    for length in lengths:
        ends = found_span(run, length)
        if ends is not None:
            yield length, *ends


def _cell(shown: str, run: Run, length: int, whole: float) -> str:
    ends = found_span(run, length)
    if ends is not None:
        shown = with_detail(shown, f"{percent(ends[0])}{DASH}{percent(ends[1])}")
    return with_detail(shown, percent(whole))


def _chance(held: Mapping[str, Passkey]) -> Guide | None:
    levels = {passkey.chance for passkey in held.values()}
    level = levels.pop()
    if levels or not math.isfinite(level):
        return None
    return Guide(at=level, label="guessing")


def _uncertainty(runs: Sequence[Run], held: Mapping[str, Passkey]) -> str:
    trials = min(passkey.trials * len(passkey.depths) for passkey in held.values())
    error = percent(2 * math.sqrt(0.25 / trials))
    several = any(run.members for run in runs)
    spread = "the 95% interval over seeds by Student's t, then the " if several else ""
    return (
        f"Large: share of the key found. Small: {spread}share of trials with the whole key. Bold: "
        f"the highest. Each is a mean of {count(trials)} trials, so two standard errors are up to "
        f"{error.removesuffix('%')} points."
    )
