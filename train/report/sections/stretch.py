"""Ways to stretch the trained models: perplexity and retrieval against length, one line a way."""

import math
from collections.abc import Sequence

from train.report.compare import highest, lowest
from train.report.figures import Series, line_chart
from train.report.formats import DASH, count, percent, short
from train.report.markup import Markup, join, tag
from train.report.palette import HUES, Style
from train.report.records import Run, Stretched
from train.report.sections.perplexity import guides
from train.report.tables import beside, emphasised, name_cell, section, table

_TITLE = "Stretched beyond the training length"
_SHAPES = ("circle", "square", "diamond", "triangle")


def stretch(runs: Sequence[Run]) -> Markup:
    """A figure and table a run and source, then what was retrieved."""
    held = [run for run in runs if run.stretched]
    if not held:
        told = "These runs were not stretched: bipe evaluate sweep=stretch compares ways to."
        return section("stretch", _TITLE, tag("p", told))
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
        *(_on_source(run, source) for run in held for source in run.stretched[0].perplexity),
        *(_retrieved(run) for run in held),
    )


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
            )
            for line in lines
        ],
        x_name="context, tokens (log scale)",
        y_name=f"perplexity, {source}, {run.label}",
        guides=guides([run]),
    )
    values = {line.name: line.perplexity[source] for line in lines}
    numbers = _table(run, f"{run.label}, {source}", values, best=lowest, write=short)
    return beside(chart, table=numbers)


def _retrieved(run: Run) -> Markup:
    values = {line.name: line.passkey for line in run.stretched}
    if all(math.isnan(share) for shares in values.values() for share in shares):
        return join([])
    return _table(run, f"{run.label}, passkey found", values, best=highest, write=percent)


def _table(run: Run, title: str, values, *, best, write) -> Markup:
    looks = line_styles(run.stretched)
    bests = [best(column, write) for column in zip(*values.values(), strict=True)]
    rows = [
        [name_cell(name, looks[name])]
        + [
            DASH if math.isnan(number) else emphasised(write(number), top)
            for number, top in zip(numbers, bests, strict=True)
        ]
        for name, numbers in values.items()
    ]
    return table(head=[title, *map(count, run.stretched[0].lengths)], rows=rows)
