"""Ways to stretch the trained models: perplexity and retrieval against length, one line a way."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

from train.report.compare import highest, lowest
from train.report.figures import Series, line_chart
from train.report.formats import DASH, count, percent, short
from train.report.intervals import Interval
from train.report.markup import Markup, join, tag
from train.report.palette import HUES, Style
from train.report.records import Run, Stretched
from train.report.sections.perplexity import guides
from train.report.spans import stretched_found_span, stretched_span
from train.report.tables import beside, emphasised, name_cell, section, table, with_detail

_TITLE = "Stretched beyond the training length"
_Cell = tuple[float, Interval | None]
Write = Callable[[float], str]
Best = Callable[[Iterable[float | None], Write], str | None]
_MOST_BARS = 6  # lines beyond which intervals would hide them; the table has them
_SHAPES = ("circle", "square", "diamond", "triangle")


def stretch(runs: Sequence[Run]) -> Markup:
    """A figure and table a run and source, then what was retrieved; nothing without a sweep."""
    held = [run for run in runs if run.stretched]
    if not held:
        return join([])
    return section(
        "stretch",
        _TITLE,
        tag(
            "p",
            "The trained models as they are (none), and with a method that changes their "
            "frequencies or distances without any training. Tokens and segments: what the "
            "original length of the method counts. At the training length every method leaves "
            "the model as it is.",
        ),
        tag("p", held[0].stretched[0].protocol, class_="note"),
        *(part for run in held for part in _of_run(run)),
    )


def _of_run(run: Run) -> list[Markup]:
    sources = dict.fromkeys(name for line in run.stretched for name in line.perplexity)
    drawn = [_on_source(run, source) for source in sources]
    return [tag("h3", run.label), *drawn, _retrieved(run)]


def line_styles(lines: Sequence[Stretched]) -> dict[str, Style]:
    """A hue a method; tokens are dashed, segments and methods without a unit solid."""
    methods = list(dict.fromkeys(line.method for line in lines))
    return {
        line.name: Style(
            hue=methods.index(line.method) % len(HUES),
            dashed=line.unit == "tokens",
            shape=_SHAPES[methods.index(line.method) // len(HUES) % len(_SHAPES)],
        )
        for line in lines
    }


def _on_source(run: Run, source: str) -> Markup:
    lines = [line for line in run.stretched if source in line.perplexity]
    looks = line_styles(run.stretched)
    chart = line_chart(
        title=f"Perplexity of {run.label} on {source}, stretched, against context length",
        series=[
            Series(
                label=line.name,
                style=looks[line.name],
                points=tuple(zip(line.lengths, line.perplexity[source], strict=True)),
                bars=_bars(run, line, source) if len(lines) <= _MOST_BARS else (),
            )
            for line in lines
        ],
        x_name="context, tokens (log scale)",
        y_name=f"perplexity, {source}, {run.label}",
        guides=guides([run]),
    )
    return beside(chart, table=_perplexities(run, source, lines))


def _bars(run: Run, line: Stretched, source: str) -> tuple[tuple[float, float, float], ...]:
    spans = ((n, stretched_span(run, line.name, source, n)) for n in line.lengths)
    return tuple((length, *ends) for length, ends in spans if ends is not None)


def _perplexities(run: Run, source: str, lines: Sequence[Stretched]) -> Markup:
    return _table(
        run,
        f"{source}, perplexity",
        {
            line.name: _at(line, line.perplexity[source], lambda name, length: stretched_span(
                run, name, source, length))
            for line in lines
        },
        best=lowest,
        write=short,
    )  # fmt: skip


def _retrieved(run: Run) -> Markup:
    if all(math.isnan(share) for line in run.stretched for share in line.passkey):
        return join([])
    shares = {
        line.name: _at(line, line.passkey, lambda name, n: stretched_found_span(run, name, n))
        for line in run.stretched
    }
    return _table(run, "passkey found", shares, best=highest, write=percent)


def _at(
    line: Stretched, values: Sequence[float], span: Callable[[str, int], Interval | None]
) -> dict[int, _Cell]:
    """Each length with its value and the interval of it."""
    return {n: (value, span(line.name, n)) for n, value in zip(line.lengths, values, strict=True)}


def _table(
    run: Run, title: str, cells: Mapping[str, Mapping[int, _Cell]], *, best: Best, write: Write
) -> Markup:
    looks = line_styles(run.stretched)
    columns = sorted({length for line in cells.values() for length in line})
    tops = {n: best([line[n][0] for line in cells.values() if n in line], write) for n in columns}
    rows = [
        [name_cell(name, looks[name])] + [_cell(line.get(n), tops[n], write) for n in columns]
        for name, line in cells.items()
    ]
    seeds = f"Small: 95% intervals over {len(run.members)} seeds." if run.members else ""
    return table(head=[title, *map(count, columns)], rows=rows, note=seeds)


def _cell(cell: _Cell | None, top: str | None, write: Write) -> str:
    if cell is None or math.isnan(cell[0]):
        return DASH
    value, ends = cell
    shown = emphasised(write(value), top)
    return with_detail(shown, f"{write(ends[0])}{DASH}{write(ends[1])}") if ends else shown
