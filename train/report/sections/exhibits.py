"""Sections that are a curve for each group of rows: what is drawn, and against what."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import pandas as pd

from train.evals.perplexity.protocols import BipeBlocks
from train.fit.checkpoints import tokens_at
from train.report.content import (
    Block,
    Cell,
    Figure,
    Heading,
    Line,
    Table,
    Words,
    best_of,
    note,
    span,
)
from train.report.figures import Drawing
from train.report.figures.lines import Guide, Lines, Series
from train.report.formats import DASH, amount, change, count, fixed, percent, short, spread, times
from train.report.palette import Style
from train.report.sections.published import published_perplexities
from train.report.table import Arm, Results, rows_at

_MOST_BARS = 6  # with more lines, or twice as many points, intervals would hide the lines
CONTEXT = "context, tokens (log scale)"
_SHOWN = {
    "parameters", "clamped_share", "left_out", "perplexity", "nll", "bits_per_byte", "documents",
    "tokens_scored", "tokens_by_position", "accuracy", "written", "first", "second",
    "distance_tokens", "distance_segments", "chance", "trials", "answer", "steps", "tokens",
    "problems", "trained_operators",
}  # fmt: skip
_SHOWN_PREFIXES = ("training_", "scrolls_", "trial_", "document_", "nll_by_")


@dataclass(frozen=True)
class Curves:
    """Values of lines against one quantity, as a chart and as a table.

    cells: rows of `Results.means`. x, line: the columns of the quantity and of the line. small:
    returns texts below a value in the table. bars: also draw the intervals of single runs.
    """

    cells: pd.DataFrame
    styles: Mapping[str, Style]
    x: str = "length"
    line: str = "arm"
    write: Callable[[float], str] = short
    pick: Callable[..., float] | None = min
    small: Callable[[Any], Sequence[str]] | None = None
    bars: bool = False
    title: str = ""

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
            best = best_of(values, self.pick, self.write) if self.pick else None
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
    at = {(row.arm, row.length): row.value for row in cells.itertuples()}
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
    """Yield a block per group of rows of one measurement; of those that are apart this is said.

    by: the columns of a group, whose values `draw` gets after the rows.
    """
    for (*names, way), group in cells.groupby([*by, "measurement"], sort=False):
        if group.apart.any():
            title = ", ".join(str(name) for name in names if name)
            yield Words(note("summary", "apart", title=title, by=way), look="note")
        yield draw(group, *names)


def compared_first(
    cells: pd.DataFrame, by: Sequence[str], draw: Callable[..., Block]
) -> Iterator[Block]:
    """Yield the blocks of what is compared, then of what is apart."""
    for apart in (False, True):
        yield from each_measurement(cells[cells.apart == apart], by, draw)


def tables_apart(results: Results, measure: str, task: str, **look: Any) -> Iterator[Block]:
    """Yield a table of each measurement of a task that is not compared with the others."""

    def draw(group: pd.DataFrame, task: str, source: str) -> Table:
        title = f"{task}, {source}: {group.measurement.iloc[0]}"
        return Curves(group, results.looks, title=title, pick=max, **look).table(measure)

    cells = results.cells(measure, task=task, apart=True)
    yield from each_measurement(cells[cells.depth.isna()], ["task", "source"], draw)


def _beside(results: Results, cells: pd.DataFrame, measure: str) -> pd.DataFrame:
    """Return another measure of the same source and measurement."""
    first = cells.iloc[0]
    at = {"source": first.source, "measurement": first.measurement, "apart": bool(first.apart)}
    return results.cells(measure, **at)


def perplexity(results: Results) -> Iterator[Block]:
    cells, draw = results.cells("perplexity"), partial(_perplexity, results)
    yield from each_measurement(cells, ["source"], draw)
    if table := against(results, results.pairs()):
        yield Heading(note("perplexity", "heading"))
        yield Words(note("perplexity", "against"))
        yield table
    yield from each_measurement(results.cells("perplexity", apart=True), ["source"], draw)


def _perplexity(results: Results, cells: pd.DataFrame, source: str) -> Figure:
    title = f"Perplexity: {source}"
    title += f", by {cells.measurement.iloc[0]}" if cells.apart.any() else ""
    curves = Curves(cells, results.looks, small=to_trained(results, cells), title=title)
    more: list[Line] = []
    for measure, write in (("documents", count), ("tokens_scored", amount)):
        rows = _beside(results, cells, measure)
        numbers = (spread(rows[rows.length == x].value, write) for x in curves.columns)
        more.append([measure.replace("_", " "), *numbers])
    more += published_perplexities(results, source, curves.columns)
    alone = note("perplexity", "alone") if any(map(is_alone, cells.itertuples())) else ""
    return curves.figure(
        f"perplexity_{source}", f"perplexity, {source}", first=source, more=more,
        note=f"{note('perplexity')} {alone}".rstrip(), guides=guides(results.arms),
    )  # fmt: skip


def against(results: Results, pairs: Sequence[tuple[Arm, Arm]]) -> Table | None:
    """Return the change in perplexity from the first to the second of each pair, or None."""
    columns = sorted(results.cells("perplexity").length.dropna().unique().tolist())
    rows: list[Line] = []
    for other, arm in pairs:
        ratios = results.ratios(arm, other)
        rows += [[f"{arm.label} against {other.label}"]] if len(ratios) else []
        for source, cells in ratios.groupby("source", sort=False):
            at = {row.length: row for row in cells.itertuples()}
            rows.append([str(source), *(_change(at.get(length)) for length in columns)])
    return Table(["source", *map(count, columns)], rows) if rows else None


def _change(ratio: Any) -> Cell:
    if ratio is None or not math.isfinite(ratio.low):
        return Cell(DASH if ratio is None else change(ratio.value))
    ends = f"{change(ratio.low)} to {change(ratio.high)}"
    return Cell(change(ratio.value), small=(ends,), best=ratio.low > 1 or ratio.high < 1)


def seeds(results: Results) -> Iterator[Block]:
    """Compare the models that have several seeds with the first of them."""
    several = [arm for arm in results.arms if arm.several]
    if table := against(results, [(several[0], arm) for arm in several[1:]]):
        yield table


def bits(results: Results) -> Iterator[Block]:
    def draw(cells: pd.DataFrame, source: str) -> Table:
        return Curves(cells, results.looks, write=fixed).table(source)

    return compared_first(_plain(results, "bits_per_byte"), ["source"], draw)


def positions(results: Results) -> Iterator[Block]:
    cells = _plain(results, "nll_by_position")
    return compared_first(cells, ["source"], partial(_positions, results))


def _positions(results: Results, cells: pd.DataFrame, source: str) -> Figure:
    keys = ["arm", "source", "length", "start", "stop"]
    tokens = _beside(results, cells, "tokens_by_position")[[*keys, "value"]]
    cells = cells.merge(tokens.rename(columns={"value": "tokens"}), on=keys, how="left")
    # Drop bins without a scored token: there was nothing to measure, so they are no gap.
    cells = cells[cells.tokens != 0]
    cells = cells.assign(middle=(cells.start + cells.stop) / 2, tokens=cells.tokens.fillna(1.0))
    longest = int(cells.length.max())
    arms = [arm for arm in results.arms if arm.label in set(cells.arm)]
    first = min((arm.row_length for arm in arms if arm.row_length), default=longest)
    windows = octaves(first, longest)
    chart = Curves(cells, results.looks, x="middle", write=fixed).draw(
        f"positions_{source}", f"loss, nats per token, {source}",
        "position in the context, tokens (log scale)", x_scale="octaves", guides=guides(arms),
    )  # fmt: skip
    table = Curves(window_means(cells, windows), results.looks, x="start", write=fixed)
    head = [source, *(f"{low}{DASH}{high}" for low, high in windows if low in table.columns)]
    return Figure(chart, Table(head, table.rows(), note=note("positions")))


def octaves(trained: int, length: int) -> list[tuple[int, int]]:
    """Return windows of positions: the training length, then each twice as wide, to `length`."""
    windows, low, high = [], 0, trained
    while low < length:
        windows.append((low, min(high, length)))
        low, high = high, 2 * high
    return windows


def window_means(cells: pd.DataFrame, windows: Sequence[tuple[int, int]]) -> pd.DataFrame:
    """Return the token-weighted loss in windows; the middle of a bin decides its window."""
    starts = pd.cut(cells.middle, [low for low, _ in windows] + [windows[-1][1]], right=False,
                    labels=[low for low, _ in windows]).astype("float64")  # fmt: skip
    weighed = cells.assign(start=starts, total=cells.value * cells.tokens).dropna(subset=["start"])
    sums = weighed.groupby(["arm", "start"], sort=False).agg(
        total=("total", lambda values: values.sum(skipna=False)), tokens=("tokens", "sum")
    )
    return sums.assign(value=sums.total / sums.tokens, low=math.nan, high=math.nan).reset_index()


def live(results: Results) -> Iterator[Block]:
    """Show what was measured at steps of the training, against the tokens seen until then."""
    cells = results.means[results.means.step.notna() & results.means.depth.isna()]
    cells = cells[cells.measure.isin(("perplexity", "accuracy"))]
    metrics = {arm.label: arm.runs[0].metrics for arm in results.arms}
    seen = [tokens_at(int(row.step), metrics[row.arm]) for row in cells.itertuples()]
    by = ["measure", "source", "task", "length"]
    return compared_first(cells.assign(seen=seen), by, partial(_live, results))


def _live(
    results: Results, cells: pd.DataFrame, measure: str, source: str, task: str, length: float
) -> Figure:
    parts = [*filter(None, (measure, task, source))]
    pick, write = (max, percent) if measure == "accuracy" else (min, short)
    curves = Curves(cells, results.looks, x="seen", pick=pick, write=write)
    name, words = "_".join(("live", *parts, f"{length:.0f}")), ", ".join(parts)
    words = f"{words}, {length:.0f} tokens"
    return curves.figure(name, words, "tokens seen", first=words, x_scale="linear")


def others(results: Results) -> Iterator[Block]:
    """Show what no other section knows."""
    cells = results.means[results.means.step.isna()]
    shown = cells.measure.isin(_SHOWN) | cells.measure.str.startswith(_SHOWN_PREFIXES)
    by = ["variant", "task", "measure", "source"]
    return compared_first(cells[~shown], by, partial(_other, results))


def _other(results: Results, cells: pd.DataFrame, *names: str) -> Block:
    """Draw a measure against what varies in it; what does not vary is a table."""
    words = ", ".join(str(name).replace("_", " ") for name in names if name)
    unit = cells.unit.iloc[0]
    write = percent if unit == "share" else short
    axes = [name for name in ("length", "depth", "operators", "start") if cells[name].nunique() > 1]
    if not axes:
        cells = cells.assign(length=cells.length.fillna(0.0))
        rows = Curves(cells, results.looks, pick=None, write=write).rows()
        return Table([words, unit or "value"], rows)
    x = axes[0]
    if x == "length" and "depth" in axes:
        cells = cells[cells.depth.isna()]  # the means over depths
    x_name, scale = (f"{x} (log scale)", "lengths") if cells[x].min() > 0 else (x, "linear")
    curves = Curves(cells, results.looks, x=x, pick=None, write=write)
    name, y_name = "_".join(("other", *filter(None, names))), f"{words}, {unit}".rstrip(", ")
    return curves.figure(name, y_name, x_name, first=words, x_scale=scale)


def _plain(results: Results, measure: str) -> pd.DataFrame:
    """Return the means of a measure of texts, compared or apart."""
    return rows_at(results.means, measure=measure, variant="", task="", step=None)
