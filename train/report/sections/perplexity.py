"""Perplexity and bits per byte against length, and loss against position."""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from train.report.compare import (
    lengths,
    lowest,
    measured,
    octaves,
    paired_ratio,
    pairs,
    placed,
    sources,
    to_trained,
    window_mean,
)
from train.report.figures import Guide, Series, line_chart
from train.report.formats import DASH, TIMES, change, count, fixed, short, spread, times
from train.report.markup import Markup, join, tag
from train.report.palette import Style
from train.report.records import ByPosition, Run, Scores
from train.report.sections.published import stated
from train.report.tables import beside, emphasised, name_cell, section, table, with_detail
from train.report.targets import published


def perplexity(runs: Sequence[Run], looks: Mapping[str, Style]) -> Markup:
    """One chart and table a source, then bilevel against flat; nothing without a source."""
    if not sources(runs):
        return join([])
    return section(
        "perplexity",
        "Perplexity against length",
        tag(
            "p",
            "Each point is the perplexity of a model that may look back over a context of that "
            "many tokens, on held-out text; how it was measured stands at the end of the page. "
            "Up to the line \u201ctrained at\u201d a model reads what it was trained to read; "
            "beyond it, it extrapolates. Flat encodings are dashed, bilevel ones solid; a family "
            "shares its colour.",
        ),
        *(_on_source(runs, looks, source) for source in sources(runs)),
        _bilevel_against_flat(runs),
    )


def bits(runs: Sequence[Run], looks: Mapping[str, Style]) -> Markup:
    """Bits per byte: the same measurement, comparable between tokenizers and sources."""
    if not sources(runs):
        return join([])
    columns = sorted({n for source in sources(runs) for n in lengths(runs, source)})
    rows: list[Sequence[str]] = []
    for source in sources(runs):
        rows.append([source])
        rows += _by_length(runs, looks, source, columns, field="bits_per_byte", write=fixed)
    head = ["model", *map(count, columns)]
    return section(
        "bits",
        "Bits per byte",
        tag("p", "The same losses divided by the bytes of the text that was predicted, which "
            "makes sources and tokenizers comparable. Columns are lengths in tokens."),
        table(head=head, rows=rows),
    )  # fmt: skip


def positions(runs: Sequence[Run], looks: Mapping[str, Style]) -> Markup:
    """Loss at each place of the longest documents."""
    if not sources(runs):
        return join([])
    drawn = [_positions_on(runs, looks, source) for source in sources(runs)]
    empty = tag("p", "These runs were evaluated without the loss at each position.")
    return section(
        "positions",
        "Loss at each position",
        tag("p", "The mean loss of the tokens at one place of the longest context. A model that "
            "uses what it has read keeps falling to the right; one that only tolerates length "
            "stays level; one that does not extrapolate turns up beyond its training length."),
        *([part for part in drawn if part] or [empty]),
    )  # fmt: skip


def guides(runs: Sequence[Run]) -> list[Guide]:
    """A line at each training length."""
    return [
        Guide(at=length, label=f"trained at {count(length)}")
        for length in sorted({run.training.row_length for run in runs})
    ]


def _on_source(runs: Sequence[Run], looks: Mapping[str, Style], source: str) -> Markup:
    series = [
        Series(
            label=run.label,
            style=looks[run.label],
            points=tuple(
                zip(run.scores[source].lengths, run.scores[source].perplexity, strict=True)
            ),
            bars=tuple(_bars(run.scores[source])),
        )
        for run in runs
        if source in run.scores
    ]
    chart = line_chart(
        title=f"Perplexity on {source} against context length",
        series=series,
        x_name="context, tokens (log scale)",
        y_name=f"perplexity, {source}",
        guides=guides(runs),
    )
    columns = lengths(runs, source)
    rows = _by_length(runs, looks, source, columns, field="perplexity", write=short)
    rows.append(["tokens scored", *(_scored(runs, source, n) for n in columns)])
    rows += _published(runs, looks, source, columns)
    numbers = table(
        head=[source, *map(count, columns)],
        rows=rows,
        note=f"{TIMES}: ratio to the model's own training length. Bold: the lowest.",
    )
    return beside(chart, table=numbers)


def _published(
    runs: Sequence[Run], looks: Mapping[str, Style], source: str, columns: Sequence[int]
) -> list[list[str]]:
    """A row a model of which something was published on this source, blank where nothing was."""
    rows: dict[str, list[str]] = {}
    for run in runs:
        found = published(data=source, model=run.model.name, trained_at=run.training.row_length)
        if run.model.name in rows or source not in run.scores or not {*found} & {*columns}:
            continue
        cells = [with_detail(stated(found[n]), found[n].provenance) if n in found else ""
                 for n in columns]  # fmt: skip
        rows[run.model.name] = [name_cell(run.model.name, looks[run.label]), *cells]
    return [["published (provenance below)"], *rows.values()] if rows else []


def _bars(scores: Scores) -> Iterator[tuple[float, float, float]]:
    """The intervals of the means over seeds."""
    for length, value, half in zip(
        scores.lengths[: len(scores.half_widths)],
        scores.perplexity,
        scores.half_widths,
        strict=False,
    ):
        yield length, value * math.exp(-half), value * math.exp(half)


def _by_length(runs, looks, source: str, columns, *, field: str, write) -> list[list[str]]:
    best = {n: lowest((measured(run, source, n, field) for run in runs), write) for n in columns}
    rows = []
    for run in runs:
        if source not in run.scores:
            continue
        cells: list[str] = [name_cell(run.label, looks[run.label])]
        for n in columns:
            value = measured(run, source, n, field)
            shown = DASH if value is None else emphasised(write(value), best[n])
            ratio = to_trained(run, source, n) if field == "perplexity" else None
            cells.append(shown if ratio is None else with_detail(shown, times(ratio)))
        rows.append(cells)
    return rows


def _scored(runs: Sequence[Run], source: str, length: int) -> str:
    scored = [measured(run, source, length, "tokens_scored") for run in runs]
    return spread(tokens for tokens in scored if tokens is not None)


def _bilevel_against_flat(runs: Sequence[Run]) -> Markup:
    found = pairs(runs)
    if not found:
        return join([])
    columns = sorted({n for source in sources(runs) for n in lengths(runs, source)})
    rows: list[Sequence[str]] = []
    for pair in found:
        rows.append([f"{pair.bilevel.label} against {pair.flat.label}"])
        for source in sources(runs):
            ratios = [paired_ratio(pair, source, n) for n in columns]
            rows.append([source, *(DASH if r is None else change(r) for r in ratios)])
    return join(
        [
            tag("h3", "Two levels against one"),
            tag("p", "Perplexity of the bilevel form minus that of the flat form of the same "
                "family and seed, in percent of the flat one. Negative: the bilevel form is "
                "lower."),
            table(head=["source", *map(count, columns)], rows=rows),
        ]
    )  # fmt: skip


def _positions_on(runs: Sequence[Run], looks: Mapping[str, Style], source: str) -> Markup | None:
    held = placed(runs, source)
    if not held:
        return None
    shown = [run for run in runs if run.label in held]
    longest = max(place.length for place in held.values())
    windows = octaves(min(run.training.row_length for run in shown), longest)
    means = {label: [window_mean(p, *window) for window in windows] for label, p in held.items()}
    best = [lowest(column, fixed) for column in zip(*means.values(), strict=True)]
    rows = [
        [
            name_cell(label, looks[label]),
            *(DASH if v is None else emphasised(fixed(v), b)
              for v, b in zip(values, best, strict=True)),
        ]
        for label, values in means.items()
    ]  # fmt: skip
    chart = line_chart(
        title=f"Loss on {source} against the position in a context of {count(longest)} tokens",
        series=[
            Series(label=label, style=looks[label], points=_points(place))
            for label, place in held.items()
        ],
        x_name="position in the context, tokens (log scale)",
        y_name=f"loss, nats a token, {source}",
        x_scale="octaves",
        guides=guides(shown),
    )
    head = [source, *(f"{low}{DASH}{high}" for low, high in windows)]
    note = "Mean loss of the tokens at these positions, every token weighing the same."
    return beside(chart, table=table(head=head, rows=rows, note=note))


def _points(place: ByPosition) -> tuple[tuple[float, float], ...]:
    middles = ((a + b) / 2 for a, b in pairwise(place.edges))
    # A bin in which no token was scored is no gap: there was nothing to measure.
    return tuple(
        (middle, nll)
        for middle, nll, tokens in zip(middles, place.nll, place.tokens, strict=True)
        if tokens
    )
