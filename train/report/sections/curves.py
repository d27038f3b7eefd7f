"""Values of lines against one quantity, as a chart and as a table; what they have in common.

The measure decides how its values are written, and which is the best.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import pandas as pd

from train.evals.perplexity.protocols import BipeBlocks
from train.report.content import Block, Cell, Figure, Line, Table, Words, Write, best_of, note, span
from train.report.figures import Drawing
from train.report.figures.lines import Guide, Lines, Series
from train.report.formats import DASH, count, fixed, percent, short, times
from train.report.palette import Style
from train.report.table import Arm, Results, values_at

_MOST_BARS = 6  # with more lines, or twice as many points, intervals would hide the lines
CONTEXT = "context, tokens (log scale)"
_tenths = partial(percent, decimals=1)
# How a measure is written, and which value is the best; of others none is.
MEASURES: dict[str, tuple[Write, Callable[..., float]]] = {
    "perplexity": (short, min), "bits_per_byte": (fixed, min), "nll_by_position": (fixed, min),
    "accuracy": (percent, max), "answer": (percent, max), "steps": (_tenths, max),
    "tokens": (_tenths, max),
}  # fmt: skip


@dataclass(frozen=True)
class Curves:
    """Values of lines against one quantity, as a chart and as a table.

    cells: rows of `Results.means`, of one measure. x, line: the columns of the quantity and of the
    line. small: returns texts below a value in the table. bars: also draw the intervals of single
    runs.
    """

    cells: pd.DataFrame
    styles: Mapping[str, Style]
    x: str = "length"
    line: str = "arm"
    small: Callable[[Any], Sequence[str]] | None = None
    bars: bool = False
    title: str = ""

    @property
    def _measure(self) -> tuple[Write, Callable[..., float] | None]:
        measure, unit = next(zip(self.cells.measure, self.cells.unit, strict=True), ("", ""))
        return MEASURES.get(measure, (percent if unit == "share" else short, None))

    @property
    def write(self) -> Write:
        return self._measure[0]

    @cached_property
    def at(self) -> dict[tuple[str, float], Any]:
        """Return the rows by line and x."""
        rows = self.cells.dropna(subset=[self.x]).itertuples()
        return {(getattr(row, self.line), float(getattr(row, self.x))): row for row in rows}

    @property
    def columns(self) -> list[float]:
        return sorted({x for _, x in self.at})

    @property
    def names(self) -> list[str]:
        """Return the measured lines, in the order of `styles`."""
        measured = {name for name, _ in self.at}
        return [name for name in self.styles if name in measured]

    @property
    def alone(self) -> bool:
        """Return whether the lengths of any of the lines are not to be compared."""
        return any(map(is_alone, self.at.values()))

    def draw(self, name: str, y_name: str, x_name: str = CONTEXT, **look: Any) -> Drawing:
        """Draw the lines; look: scale of x, guides and level of a chart."""
        return Lines(
            name=name, title=f"{y_name} against {x_name}", x_name=x_name, y_name=y_name,
            series=[self._series(line) for line in self.names], write=self.write, **look,
        ).draw()  # fmt: skip

    def figure(
        self, name: str, y_name: str, x_name: str = CONTEXT, *, first: str,
        more: Sequence[Line] = (), note: str = "", **look: Any,
    ) -> Figure:  # fmt: skip
        """Return the drawing next to the table."""
        drawing = self.draw(name, y_name, x_name, **look)
        return Figure(drawing, self.table(first, more=more, note=note))

    def _series(self, name: str) -> Series:
        rows = [(x, self.at[name, x]) for x in self.columns if (name, x) in self.at]
        few = max(len(self.names), len(rows) / 2) <= _MOST_BARS
        shown = [(x, row) for x, row in rows if few and (self.bars or row.seeds > 1)]
        bars = ((x, row.low, row.high) for x, row in shown if math.isfinite(row.low + row.high))
        return Series(
            label=name, style=self.styles[name], bars=tuple(bars),
            points=tuple((x, row.value) for x, row in rows),
            joined=not any(is_alone(row) for _, row in rows),
        )  # fmt: skip

    def rows(self) -> list[list[Cell]]:
        """Return a row per line with a cell per column; the best of a column is bold."""
        lines = [[Cell(name, style=self.styles[name])] for name in self.names]
        for x in self.columns:
            values = [row.value for (_, at), row in self.at.items() if at == x]
            best = best_of(values, self._measure[1], self.write)
            for name, cells in zip(self.names, lines, strict=True):
                cells.append(self._cell(self.at.get((name, x)), best))
        return lines

    def _cell(self, row: Any, best: str | None) -> Cell:
        if row is None:
            return Cell(DASH)
        text = self.write(row.value)
        below = [span(row.low, row.high, self.write), *(self.small(row) if self.small else ())]
        return Cell(text, small=tuple(filter(None, below)), best=text == best)

    def table(self, first: str, *, more: Sequence[Line] = (), note: str = "") -> Table:
        """Return the table. first: the heading of the line names. more: rows below."""
        head = [first, *(count(x) if x.is_integer() else short(x) for x in self.columns)]
        return Table(head, [*self.rows(), *more], note=note, title=self.title)


def is_alone(row: Any) -> bool:
    """Return whether each length of a row's protocol scores other tokens than the others."""
    return str(getattr(row, "measurement", "")).startswith(BipeBlocks.name)


def guides(arms: Sequence[Arm]) -> list[Guide]:
    lengths = sorted({arm.row_length for arm in arms if arm.row_length})
    return [Guide(at=length, label=f"trained at {count(length)}") for length in lengths]


def to_trained(results: Results, cells: pd.DataFrame) -> Callable[[Any], list[str]]:
    """Return a function that writes a value over that at its arm's own training length."""
    trained = {arm.label: arm.row_length for arm in results.arms}
    at = values_at(cells, "arm", "length")
    base = {name: at.get((name, length), math.nan) for name, length in trained.items()}

    def small(row: Any) -> list[str]:
        apart = math.isfinite(row.value) and base[row.arm] > 0 and row.length != trained[row.arm]
        return [times(row.value / base[row.arm])] if apart and not is_alone(row) else []

    return small


def protocols(cells: pd.DataFrame) -> list[str]:
    """Return how values were measured, each text once."""
    notes = (str(text).partition(" (not finite:")[0] for text in cells.note.dropna())
    return [text for text in dict.fromkeys(notes) if text and not text.startswith("(not finite:")]


def each_measurement(
    cells: pd.DataFrame, by: Sequence[str], draw: Callable[..., Block]
) -> Iterator[Block]:
    """Yield a block per group of rows of one measurement: of what is compared, then of the others.

    by: the columns of a group, whose values `draw` gets after the rows.
    """
    ordered = cells.sort_values("apart", kind="stable")
    for (*names, way), group in ordered.groupby([*by, "measurement"], sort=False):
        if group.apart.any():
            title = ", ".join(str(name) for name in names if name)
            yield Words(note("summary", "apart", title=title, by=way), look="note")
        yield draw(group, *names)


def tables_apart(results: Results, measure: str, task: str, **look: Any) -> Iterator[Block]:
    """Yield a table of each measurement of a task that is not compared with the others."""

    def draw(group: pd.DataFrame, task: str, source: str) -> Table:
        title = f"{task}, {source}: {group.measurement.iloc[0]}"
        return Curves(group, results.looks, title=title, **look).table(measure)

    cells = results.cells(measure, task=task, apart=True)
    yield from each_measurement(cells[cells.depth.isna()], ["task", "source"], draw)
