"""Sections that are a curve for each group of rows: what is drawn, and against what."""

import math
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import pandas as pd

from train.fit.checkpoints import tokens_at
from train.report.content import Block, Cell, Figure, Heading, Line, Table, Words, note
from train.report.formats import DASH, amount, change, count, duration, fixed, percent, spread
from train.report.sections.curves import MEASURES, Curves, each_measurement, guides, to_trained
from train.report.sections.published import published_perplexities
from train.report.table import Arm, Results, rows_at, values_at

# Measures that other sections show, besides those with a look of their own.
_SHOWN = {
    *MEASURES, "parameters", "clamped_share", "left_out", "nll", "documents", "tokens_scored",
    "tokens_by_position", "written", "first", "second", "distance_tokens", "distance_segments",
    "chance", "trials", "problems", "trained_operators",
}  # fmt: skip
_SHOWN_PREFIXES = ("training_", "scrolls_", "trial_", "document_", "nll_by_")


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
    alone = note("perplexity", "alone") if curves.alone else ""
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
        return Curves(cells, results.looks).table(source)

    return each_measurement(_plain(results, "bits_per_byte"), ["source"], draw)


def positions(results: Results) -> Iterator[Block]:
    cells = _plain(results, "nll_by_position")
    return each_measurement(cells, ["source"], partial(_positions, results))


def _positions(results: Results, cells: pd.DataFrame, source: str) -> Figure:
    keys = ["arm", "source", "length", "start", "stop"]
    tokens = _beside(results, cells, "tokens_by_position")[[*keys, "value"]]
    cells = cells.merge(tokens.rename(columns={"value": "tokens"}), on=keys, how="left")
    # Drop bins without a scored token: there was nothing to measure, so they are no gap.
    cells = cells[cells.tokens != 0]
    cells = cells.assign(middle=(cells.start + cells.stop) / 2, tokens=cells.tokens.fillna(1.0))
    longest = int(cells.length.max())
    arms = [arm for arm in results.arms if arm.label in set(cells.arm)]
    edges = octaves(
        min((arm.row_length for arm in arms if arm.row_length), default=longest), longest
    )
    chart = Curves(cells, results.looks, x="middle").draw(
        f"positions_{source}", f"loss, nats per token, {source}",
        "position in the context, tokens (log scale)", x_scale="octaves", guides=guides(arms),
    )  # fmt: skip
    table = Curves(window_means(cells, edges), results.looks, x="start")
    head = [
        source,
        *(f"{low}{DASH}{high}" for low, high in pairwise(edges) if low in table.columns),
    ]
    return Figure(chart, Table(head, table.rows(), note=note("positions")))


def octaves(trained: int, length: int) -> list[int]:
    """Return the edges of windows: the training length, then each twice as wide, to `length`."""
    edges = [0]
    while (end := edges[-1] * 2 or trained) < length:
        edges.append(end)
    return [*edges, length]


def window_means(cells: pd.DataFrame, edges: Sequence[int]) -> pd.DataFrame:
    """Return the token-weighted loss in windows; the middle of a bin decides its window."""
    starts = pd.cut(cells.middle, edges, right=False, labels=edges[:-1]).astype("float64")
    weighed = cells.assign(start=starts, total=cells.value * cells.tokens).dropna(subset=["start"])
    sums = weighed.groupby(["arm", "measure", "unit", "start"], sort=False).agg(
        total=("total", lambda values: values.sum(skipna=False)), tokens=("tokens", "sum")
    )
    return sums.assign(value=sums.total / sums.tokens, low=math.nan, high=math.nan).reset_index()


def training(results: Results) -> Iterator[Block]:
    """Show the loss against tokens seen, next to steps, time, memory and faults."""
    if not results.arms:
        return
    if names := ", ".join(results.unmeasured):
        yield Words(note("training", "missing", names=names))
    cells = results.cells("training_loss")
    chart = Curves(cells, results.looks, x="stop").draw(
        "training", "training loss, nats per token", "tokens seen", x_scale="linear"
    )
    last = values_at(cells.sort_values("stop"), "arm")
    head = ["model", "last loss", "steps", "tokens/s", "time", "GiB", "clamped", "skipped"]
    rows = [_cost(results, arm, last.get(arm.label)) for arm in results.arms]
    yield Figure(chart, Table(head, rows, note=note("training")))


def _cost(results: Results, arm: Arm, loss: float | None) -> Line:
    costs = ("training_tokens", "training_steps", "training_seconds", "training_memory",
             "clamped_share", "training_skipped_steps")  # fmt: skip
    at = values_at(results.cells(*costs, arm=arm.label), "measure")
    tokens, steps, seconds, memory, clamped, skipped = (at.get(name, math.nan) for name in costs)
    return [
        Cell(arm.label, style=arm.style),
        DASH if loss is None else fixed(loss, 2),
        count(steps),
        amount(tokens / seconds) if seconds > 0 and math.isfinite(tokens) else DASH,
        duration(seconds),
        fixed(memory, 2) if math.isfinite(memory) else DASH,
        percent(clamped, 1) if math.isfinite(clamped) else DASH,
        count(skipped),
    ]


def live(results: Results) -> Iterator[Block]:
    """Show what was measured at steps of the training, against the tokens seen until then."""
    cells = results.means[results.means.step.notna() & results.means.depth.isna()]
    cells = cells[cells.measure.isin(("perplexity", "accuracy"))]
    metrics = {arm.label: arm.runs[0].metrics for arm in results.arms}
    seen = [tokens_at(int(row.step), metrics[row.arm]) for row in cells.itertuples()]
    by = ["measure", "source", "task", "length"]
    return each_measurement(cells.assign(seen=seen), by, partial(_live, results))


def _live(
    results: Results, cells: pd.DataFrame, measure: str, source: str, task: str, length: float
) -> Figure:
    parts = [*filter(None, (measure, task, source))]
    curves = Curves(cells, results.looks, x="seen")
    name, words = "_".join(("live", *parts, f"{length:.0f}")), ", ".join(parts)
    words = f"{words}, {length:.0f} tokens"
    return curves.figure(name, words, "tokens seen", first=words, x_scale="linear")


def others(results: Results) -> Iterator[Block]:
    """Show what no other section knows."""
    cells = results.means[results.means.step.isna()]
    shown = cells.measure.isin(_SHOWN) | cells.measure.str.startswith(_SHOWN_PREFIXES)
    by = ["variant", "task", "measure", "source"]
    return each_measurement(cells[~shown], by, partial(_other, results))


def _other(results: Results, cells: pd.DataFrame, *names: str) -> Block:
    """Draw a measure against what varies in it; what does not vary is a table."""
    words = ", ".join(str(name).replace("_", " ") for name in names if name)
    unit = cells.unit.iloc[0]
    axes = [name for name in ("length", "depth", "operators", "start") if cells[name].nunique() > 1]
    if not axes:
        cells = cells.assign(length=cells.length.fillna(0.0))
        rows = Curves(cells, results.looks).rows()
        return Table([words, unit or "value"], rows)
    x = axes[0]
    if x == "length" and "depth" in axes:
        cells = cells[cells.depth.isna()]  # the means over depths
    x_name, scale = (f"{x} (log scale)", "lengths") if cells[x].min() > 0 else (x, "linear")
    curves = Curves(cells, results.looks, x=x)
    name, y_name = "_".join(("other", *filter(None, names))), f"{words}, {unit}".rstrip(", ")
    return curves.figure(name, y_name, x_name, first=words, x_scale=scale)


def _plain(results: Results, measure: str) -> pd.DataFrame:
    """Return the means of a measure of texts, compared or apart."""
    return rows_at(results.means, measure=measure, variant="", task="", step=None)
