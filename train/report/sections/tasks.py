"""Tasks: retrieval and other probes, arithmetic; and models whose length was extended."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from segmenters.wording import counted
from train.report.content import Block, Figure, Grid, Heading, Html, Line, Table, Words, note
from train.report.figures import Drawing
from train.report.figures.heatmaps import heat_map
from train.report.figures.lines import Guide
from train.report.formats import DASH, count, percent, short
from train.report.palette import Style, ordered_styles
from train.report.sections.curves import (
    Curves,
    each_measurement,
    guides,
    protocols,
    tables_apart,
)
from train.report.sections.published import sources_of, target_of
from train.report.table import Arm, Results, in_order, rows_at, values_at

_OPERATORS = "operators (log scale)"
OTHERS = ("", "arithmetic", "positions", "passkey")  # tasks that are not probes, or have a section
_LEVELS = {"token": "position in the document, tokens", "inter": "segment of the document",
           "intra": "position in the segment, tokens"}  # fmt: skip


def retrieval(results: Results) -> Iterator[Block]:
    """Show what a model can still find, which perplexity does not show."""
    shares = results.cells("accuracy", task="passkey")
    if shares.empty:
        return
    cells = results.cells("trials", task="passkey")
    deep = cells[cells.depth.notna()]
    yield Words(note("retrieval", "shown", trials=(deep if len(deep) else cells).value))
    yield Html("scale")
    yield from _maps(results, "passkey")
    missing = [arm.label for arm in results.arms if arm.label not in set(shares.arm)]
    if missing:
        yield Words(f"Not measured in this way: {', '.join(missing)}.")
    yield from _means(results, "passkey")


def probes(results: Results) -> Iterator[Block]:
    """Show one part for each probe, and the losses by position."""
    rows = rows_at(results.means, variant="", step=None, apart=False)
    for task in in_order(rows[rows.measure == "accuracy"], "task"):
        if task not in OTHERS:
            yield Heading(task)
            yield from _maps(results, task)
            yield from _means(results, task)
    curves = rows[(rows.task == "positions") & rows.measure.str.contains("nll_by_")]
    if len(curves):
        yield Heading("positions")
        yield from _protocol(curves)
        drawn = [_by_level(results, cells) for _, cells in curves.groupby("measure", sort=False)]
        yield Grid(drawn, look="charts")


def _protocol(cells: pd.DataFrame) -> list[Block]:
    """Return how the first of these values were measured."""
    return [Words(text, look="note") for text in protocols(cells)[:1]]


def _maps(results: Results, task: str) -> Iterator[Block]:
    """Yield how a task was measured, and maps of what each model chose and wrote."""
    yield from _protocol(results.cells("accuracy", task=task))
    for measure, label in (("accuracy", ""), ("written", ", written by the model")):
        cells = results.cells(measure, task=task)
        deep = cells[cells.depth.notna()].sort_values(["depth", "length"])
        maps = [(f"{arm.label}{label}", _map(arm, f"{task}_{measure}", deep[deep.arm == arm.label]))
                for arm in results.arms if arm.label in set(deep.arm)]  # fmt: skip
        if maps:
            yield Grid(maps)


def _map(arm: Arm, name: str, cells: pd.DataFrame) -> Drawing:
    shares = values_at(cells.astype({"length": int}), "length", "depth")
    title = f"{name.replace('_', ' ')} of {arm.label} by length and depth"
    return heat_map(shares, name=f"{name}_{arm.label}", title=title, trained=arm.row_length)


def _means(results: Results, task: str) -> Iterator[Block]:
    """Yield the mean over depths against length."""
    written, first, second = (
        values_at(results.cells(measure, task=task, depth=None), "arm", "length")
        for measure in ("written", "first", "second")
    )

    def small(row: Any) -> list[str]:
        place = (row.arm, row.length)
        if math.isfinite(loss := first.get(place, math.nan)):
            return [f"{short(loss)}, {short(second.get(place, math.nan))}"]
        share = written.get(place, math.nan)
        return [percent(share)] if math.isfinite(share) else []

    shares = results.cells("accuracy", task=task, depth=None)
    curves = Curves(shares, results.looks, small=small,
                    title=f"Found: {task}")  # fmt: skip
    more: list[Line] = []
    for unit in ("tokens", "segments"):
        cells = results.cells(f"distance_{unit}", task=task, depth=None)
        at = values_at(cells, "length")
        numbers = [short(at[length]) if length in at else DASH for length in curves.columns]
        more += [[f"distance in {unit}", *numbers]] if at else []
    chances = results.cells("chance", task=task).value.dropna().unique()
    chance = float(chances[0]) if len(chances) == 1 else math.nan
    trials = results.cells("trials", task=task, depth=None).value.min()
    yield curves.figure(
        f"{task}_found", f"share found, {task}", first="found", guides=guides(results.arms),
        level=Guide(at=chance, label="chance") if math.isfinite(chance) else None, more=more,
        note=note("probes", losses=bool(first), chance=chance, trials=trials),
    )  # fmt: skip
    yield from tables_apart(results, "accuracy", task)


def above_chance(results: Results, task: str, length: float) -> list[str]:
    """Return the arms whose share found exceeds guessing by more than two standard errors."""
    shares, chances, trials = (
        values_at(results.cells(measure, task=task, length=length, depth=None), "arm")
        for measure in ("accuracy", "chance", "trials")
    )

    def clear(arm: str) -> bool:
        chance, guesses = chances.get(arm, 0.0), max(1.0, trials.get(arm, 1.0))
        return shares[arm] > chance + 2 * math.sqrt(max(0.0, chance * (1 - chance)) / guesses)

    return [*filter(clear, shares)]


def _by_level(results: Results, cells: pd.DataFrame) -> tuple[str, Drawing]:
    level = cells.measure.iloc[0].rpartition("nll_by_")[2]
    words = _LEVELS.get(level, level)
    cells = cells[cells.value.notna()].assign(start=cells.start + 1)
    return "", Curves(cells, results.looks, x="start").draw(
        f"loss_by_{level}", f"loss, nats per token, by {words.partition(',')[0]}",
        f"{words} (log scale, counted from 1)", x_scale="octaves",
    )  # fmt: skip


def arithmetic(results: Results) -> Iterator[Block]:
    """Show right answers against the number of operators, and against the width."""
    answers = results.cells("answer", task="arithmetic")
    if answers.empty:
        return
    yield from _protocol(answers)
    yield _by_operators(results, answers)
    yield from _by_width(results, answers)
    yield from tables_apart(results, "answer", "arithmetic", x="operators")


def _by_operators(results: Results, answers: pd.DataFrame) -> Figure:
    trained = _trained_operators(results)
    at = [Guide(at=trained, label=f"trained up to {count(trained)}")] if trained > 0 else []
    curves = Curves(answers, results.looks, x="operators", bars=True)
    chart = curves.draw("arithmetic", "share of correct answers", _OPERATORS, guides=at)
    papers = {arm.label: target_of("arithmetic", arm.model) for arm in results.arms}
    rows: list[Line] = [["correct answers"]]
    rows += [[name, *cells, papers[name.text]] for name, *cells in curves.rows()]
    for measure in ("steps", "tokens"):
        cells = results.cells(measure, task="arithmetic")
        other = Curves(cells, results.looks, x="operators")
        if other.columns == curves.columns:
            rows.append([f"correct {measure}"])
            rows += [[*row, ""] for row in other.rows()]
    table = Table(["operators", *map(count, curves.columns), "paper"], rows, title="Arithmetic",
                  note=note("arithmetic", sources=sources_of("arithmetic")))  # fmt: skip
    return Figure(chart, table)


def _trained_operators(results: Results) -> float:
    return float(results.cells("trained_operators", task="arithmetic").operators.max())


def in_distribution(results: Results, answers: pd.DataFrame) -> float:
    """Return the most operators asked for within training, or else the fewest asked for."""
    within = answers.operators[answers.operators <= _trained_operators(results)]
    return float(within.max() if len(within) else answers.operators.min())


def _by_width(results: Results, answers: pd.DataFrame) -> Iterator[Block]:
    """Yield answers against the width at the most trained operators, if widths differ."""
    widths = {arm.label: float(arm.runs[0].model.get("width", math.nan)) for arm in results.arms}
    if len({widths[name] for name in answers.arm}) < 2:
        return
    at = in_distribution(results, answers)
    models = {arm.label: arm.model for arm in results.arms}
    looks = {arm.model: arm.style for arm in reversed(results.arms)}  # of the first arm of each
    cells = answers[answers.operators == at]
    cells = cells.assign(width=cells.arm.map(widths), model=cells.arm.map(models))
    curves = Curves(cells, {model: looks[model] for model in dict.fromkeys(models.values())},
                    x="width", line="model")  # fmt: skip
    y_name = f"share of correct answers, {counted(int(at), 'operator')}"
    yield curves.figure("arithmetic_width", y_name, "width (log scale)", first="width")


def stretch(results: Results) -> Iterator[Block]:
    """Show a figure and table for each model and source, then the retrieval."""
    cells = results.means[results.means.variant != ""].sort_values("apart", kind="stable")
    yield from _protocol(cells[(cells.measure == "perplexity") & ~cells.apart])
    for arm in results.arms:
        rows = cells[cells.arm == arm.label]
        if len(rows):
            yield Heading(arm.label)
            yield from _stretched(arm, rows)


def _stretched(arm: Arm, cells: pd.DataFrame) -> Iterator[Block]:
    looks = variant_styles(in_order(cells, "variant"))
    small = f"Small: 95% intervals over {len(arm.runs)} seeds." if arm.several else ""

    def draw(rows: pd.DataFrame, _: str, task: str, source: str) -> Block:
        words = f"{task} found" if task else f"perplexity, {source}"
        curves = Curves(rows, looks, line="variant",
                        title=f"{note('stretch', 'title')}: {arm.label}, {words}")  # fmt: skip
        if task:
            return curves.table(words, note=small)
        return curves.figure(
            f"extended_{arm.label}_{source}", f"perplexity, {source}, {arm.label}",
            first=f"{source}, perplexity", note=small, guides=guides([arm]),
        )  # fmt: skip

    texts = cells[(cells.measure == "perplexity") & (cells.task == "")]
    tasks = cells[(cells.measure == "accuracy") & cells.depth.isna()].assign(source="")
    for rows in (texts, tasks):
        yield from each_measurement(rows, ["arm", "task", "source"], draw)


def variant_styles(names: Sequence[str]) -> dict[str, Style]:
    """Return a hue per method; dashed if it counts tokens, else solid."""
    methods = ordered_styles([name.partition(" (")[0] for name in names])
    return {
        name: replace(methods[name.partition(" (")[0]], dashed=name.endswith("(tokens)"))
        for name in names
    }
