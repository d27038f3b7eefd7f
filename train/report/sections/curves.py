"""Perplexity against length, over seeds and in bits per byte; loss by position; while training."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import pandas as pd

from train.fit.checkpoints import tokens_at
from train.report.content import (
    Block,
    Cell,
    Figure,
    Heading,
    Line,
    Section,
    Table,
    Words,
    best_of,
    span,
)
from train.report.figures import Drawing
from train.report.figures.lines import Guide, Lines, Series
from train.report.formats import (
    DASH,
    TIMES,
    amount,
    change,
    count,
    fixed,
    percent,
    short,
    spread,
    times,
)
from train.report.palette import Style
from train.report.sections.published import published_perplexities
from train.report.table import Arm, Results

_MOST_BARS = 6  # with more lines, or twice as many points, intervals would hide the lines


@dataclass(frozen=True)
class Curves:
    """Values of lines against one quantity, as a chart and as a table.

    cells: rows of `Results.means`. x, line: the columns of the quantity and of the line. small:
    returns texts below a value in the table. bars: also draw the intervals of single runs.
    """

    cells: pd.DataFrame
    styles: Mapping[str, Style]
    name: str = ""
    y_name: str = ""
    title: str = ""
    x: str = "length"
    x_name: str = "context, tokens (log scale)"
    x_scale: Literal["lengths", "octaves", "linear"] = "lengths"
    line: str = "arm"
    write: Callable[[float], str] = short
    pick: Callable[..., float] | None = min
    guides: Sequence[Guide] = ()
    level: Guide | None = None
    small: Callable[[Any], Sequence[str]] | None = None
    bars: bool = False

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
        held = {name for name, _ in self.at}
        return [name for name in self.styles if name in held]

    def draw(self) -> Drawing:
        return Lines(
            name=self.name, title=f"{self.y_name} against {self.x_name}",
            series=[self._series(name) for name in self.names], x_name=self.x_name,
            y_name=self.y_name, x_scale=self.x_scale, guides=self.guides, level=self.level,
            write=self.write,
        ).draw()  # fmt: skip

    def _series(self, name: str) -> Series:
        own = [(x, self.at[name, x]) for x in self.columns if (name, x) in self.at]
        few = max(len(self.names), len(own) / 2) <= _MOST_BARS
        shown = [(x, row) for x, row in own if few and (self.bars or row.seeds > 1)]
        bars = tuple(
            (x, row.low, row.high) for x, row in shown if math.isfinite(row.low + row.high)
        )
        points = tuple((x, row.value) for x, row in own)
        return Series(label=name, style=self.styles[name], points=points, bars=bars)

    def rows(self) -> list[list[Cell]]:
        """Return a row per line with a cell per column; the best of a column is bold."""
        made = [[Cell(name, style=self.styles[name])] for name in self.names]
        for x in self.columns:
            values = [row.value for (_, at), row in self.at.items() if at == x]
            best = best_of(values, self.pick, self.write) if self.pick else None
            for name, cells in zip(self.names, made, strict=True):
                cells.append(self._cell(self.at.get((name, x)), best))
        return made

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

    def figure(self, first: str, **told: Any) -> Figure:
        return Figure(drawing=self.draw(), table=self.table(first, **told))


def guides(arms: Sequence[Arm]) -> list[Guide]:
    lengths = sorted({arm.row_length for arm in arms if arm.row_length})
    return [Guide(at=length, label=f"trained at {count(length)}") for length in lengths]


def to_trained(results: Results, cells: pd.DataFrame) -> Callable[[Any], list[str]]:
    """Return a function that writes a value over that at its arm's own training length."""
    trained = {arm.label: arm.row_length for arm in results.arms}
    at = {(row.arm, row.length): row.value for row in cells.itertuples()}
    base = {name: at.get((name, length), math.nan) for name, length in trained.items()}

    def small(row: Any) -> list[str]:
        known = math.isfinite(row.value) and base[row.arm] > 0 and row.length != trained[row.arm]
        return [times(row.value / base[row.arm])] if known else []

    return small


def in_order(cells: pd.DataFrame, column: str = "source") -> list[str]:
    """Return the values of a column in the order in which they first appear."""
    return cells[column].drop_duplicates().tolist()


def protocols(cells: pd.DataFrame) -> list[str]:
    """Return how values were measured, each text once."""
    notes = (str(note).partition(" (not finite:")[0] for note in cells.note.dropna())
    return [note for note in dict.fromkeys(notes) if note and not note.startswith("(not finite:")]


def perplexity(results: Results) -> Section | None:
    """Show one chart and table for each source, then bilevel against flat."""
    cells = results.cells("perplexity")
    if cells.empty:
        return None
    words = (
        "Each point is the perplexity of a model with a context of that many tokens of held-out "
        "text; lower is better. Beyond the line \u201ctrained at\u201d, the model extrapolates. "
        "Flat encodings are dashed, bilevel ones solid; a family shares its colour."
    )
    blocks: list[Block] = [Words(words)]
    blocks += [_perplexity(results, source) for source in in_order(cells)]
    table = _against(results, results.pairs())
    if table is not None:
        blocks += [
            Heading("Bilevel against flat"),
            Words("Perplexity of the bilevel form relative to the flat form of the same family and "
                  "seed, as a change in percent. Negative: the bilevel form is lower."),
            table,
        ]  # fmt: skip
    return Section("perplexity", "Perplexity against length", blocks, nav="Perplexity")


def _perplexity(results: Results, source: str) -> Figure:
    cells = results.cells("perplexity", source=source)
    held = Curves(
        cells, results.looks, name=f"perplexity_{source}", y_name=f"perplexity, {source}",
        small=to_trained(results, cells), guides=guides(results.arms),
        title=f"Perplexity: {source}",
    )  # fmt: skip
    more: list[Line] = []
    for measure, write in (("documents", count), ("tokens_scored", amount)):
        known = results.cells(measure, source=source)
        more.append([measure.replace("_", " "), *(spread(known[known.length == x].value, write)
                                                  for x in held.columns)])  # fmt: skip
    more += published_perplexities(results, source, held.columns)
    note = ("Small: the 95% interval over seeds if a model has several, otherwise over "
            f"documents; {TIMES} is the ratio to the value at the model's training length. Bold: "
            "the lowest.")  # fmt: skip
    return held.figure(source, more=more, note=note)


def _against(results: Results, pairs: Sequence[tuple[Arm, Arm]]) -> Table | None:
    columns = sorted(results.cells("perplexity").length.dropna().unique().tolist())
    rows: list[Line] = []
    for other, arm in pairs:
        found = results.ratios(arm, other)
        rows += [[f"{arm.label} against {other.label}"]] if len(found) else []
        for source, own in found.groupby("source", sort=False):
            at = {row.length: row for row in own.itertuples()}
            rows.append([str(source), *(_change(at.get(length)) for length in columns)])
    return Table(["source", *map(count, columns)], rows) if rows else None


def _change(ratio: Any) -> Cell:
    if ratio is None or not math.isfinite(ratio.low):
        return Cell(DASH if ratio is None else change(ratio.value))
    ends = f"{change(ratio.low)} to {change(ratio.high)}"
    return Cell(change(ratio.value), small=(ends,), best=ratio.low > 1 or ratio.high < 1)


def seeds(results: Results) -> Section | None:
    """Compare the models that have several seeds with the first of them."""
    several = [arm for arm in results.arms if arm.several]
    table = _against(results, [(several[0], arm) for arm in several[1:]]) if several else None
    if table is None:
        return None
    words = (
        "The change in perplexity from the same seed, with the same batches and initial weights: "
        "the geometric mean, and below it its 95% interval by Student's t distribution. Bold: the "
        "interval excludes equality."
    )
    title = f"Against {several[0].label}, seed by seed"
    return Section("seeds", title, [Words(words), table], nav="Seeds")


def bits(results: Results) -> Section | None:
    """Show bits per byte, which are comparable between tokenizers and sources."""
    cells = results.cells("bits_per_byte")
    tables = [Curves(own, results.looks, write=fixed).table(str(source))
              for source, own in cells.groupby("source", sort=False)]  # fmt: skip
    words = ("The same losses in bits, divided by the bytes of the predicted text, are comparable "
             "across sources and tokenizers. Columns are lengths in tokens.")  # fmt: skip
    return Section("bits", "Bits per byte", [Words(words), *tables]) if tables else None


def positions(results: Results) -> Section | None:
    """Show the loss at each position of the longest documents."""
    cells = results.cells("nll_by_position")
    if cells.empty:
        return None
    words = (
        "The mean loss of the tokens at each position of the longest context. It keeps falling if "
        "the model uses all of the context, stays level if the model merely tolerates the length, "
        "and rises beyond the training length if the model does not extrapolate."
    )
    figures = [_positions(results, source) for source in in_order(cells)]
    title = "Loss by position"
    return Section("positions", title, [Words(words), *figures], nav="Loss by position")


def _positions(results: Results, source: str) -> Figure:
    keys = ["arm", "source", "length", "start", "stop"]
    tokens = results.cells("tokens_by_position", source=source)[[*keys, "value"]]
    cells = results.cells("nll_by_position", source=source)
    cells = cells.merge(tokens.rename(columns={"value": "tokens"}), on=keys, how="left")
    # Drop bins without a scored token: there was nothing to measure, so they are no gap.
    cells = cells[cells.tokens != 0]
    cells = cells.assign(middle=(cells.start + cells.stop) / 2, tokens=cells.tokens.fillna(1.0))
    longest = int(cells.length.max())
    shown = [arm for arm in results.arms if arm.label in set(cells.arm)]
    first = min((arm.row_length for arm in shown if arm.row_length), default=longest)
    windows = octaves(first, longest)
    chart = Curves(
        cells, results.looks, name=f"positions_{source}",
        y_name=f"loss, nats per token, {source}", x="middle", x_scale="octaves", write=fixed,
        x_name="position in the context, tokens (log scale)", guides=guides(shown),
    )  # fmt: skip
    means = window_means(cells, windows)
    table = Curves(means, results.looks, x="start", write=fixed)
    head = [source, *(f"{low}{DASH}{high}" for low, high in windows if low in table.columns)]
    note = "Mean loss of the tokens at these positions, all weighted equally."
    return Figure(drawing=chart.draw(), table=Table(head, table.rows(), note=note))


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
    made = weighed.groupby(["arm", "start"], sort=False).agg(
        total=("total", lambda held: held.sum(skipna=False)), tokens=("tokens", "sum")
    )
    return made.assign(value=made.total / made.tokens, low=math.nan, high=math.nan).reset_index()


def live(results: Results) -> Section | None:
    """Show a chart for each measure, source, task and length that was followed over steps."""
    means = results.means
    held = means[
        means.step.notna() & means.measure.isin(("perplexity", "accuracy")) & means.depth.isna()
    ]
    metrics = {arm.label: arm.runs[0].metrics for arm in results.arms}
    seen = [tokens_at(int(row.step), metrics[row.arm]) for row in held.itertuples()]
    figures = []
    for (measure, source, task, length), cells in held.assign(seen=seen).groupby(
        ["measure", "source", "task", "length"], sort=False
    ):
        name = ", ".join(map(str, filter(None, (measure, task, source, f"{length:.0f} tokens"))))
        shares = measure == "accuracy"
        chart = Curves(
            name="_".join(map(str, filter(None, ("live", measure, task, source, int(length))))),
            y_name=name, cells=cells, x="seen", x_name="tokens seen", x_scale="linear",
            styles=results.looks, pick=max if shares else min, write=percent if shares else short,
        )  # fmt: skip
        figures.append(chart.figure(name))
    words = (
        "The measurements of bipe evaluate on the weights of earlier steps: during training, on "
        "the split set by callbacks.evaluation.split, or on checkpoints (evaluate.checkpoints)."
    )
    title = "Against the tokens seen"
    return Section("live", title, [Words(words), *figures]) if figures else None
