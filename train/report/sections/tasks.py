"""Tasks: retrieval and other probes, arithmetic; and models whose length was extended."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pandas as pd

from segmenters.wording import counted
from train.report.content import Block, Cell, Figure, Grid, Heading, Html, Line, Table, Words, note
from train.report.figures.heatmaps import heat_map
from train.report.figures.lines import Guide
from train.report.formats import DASH, count, percent, short
from train.report.palette import Style, ordered_styles
from train.report.sections.exhibits import Curves, each_measurement, guides, protocols, tables_apart
from train.report.sections.published import sources_of, target_of
from train.report.table import Arm, Results, in_order, rows_at

_OPERATORS = "operators (log scale)"
OTHERS = ("", "arithmetic", "positions", "passkey")  # tasks that are not probes, or have a section
_LEVELS = {"token": "position in the document, tokens", "inter": "segment of the document",
           "intra": "position in the segment, tokens"}  # fmt: skip


def retrieval(results: Results) -> Iterator[Block]:
    """Show what a model can still find, which perplexity does not show."""
    if results.cells("accuracy", task="passkey").empty:
        return
    cells = results.cells("trials", task="passkey")
    deep = cells[cells.depth.notna()]
    yield Words(note("retrieval", "shown", trials=(deep if len(deep) else cells).value))
    yield Html("scale")
    yield from _probe(results, "passkey")


def probes(results: Results) -> Iterator[Block]:
    """Show one part for each probe, and the losses by position."""
    rows = rows_at(results.means, variant="", step=None, apart=False)
    for name in in_order(rows[rows.measure == "accuracy"], "task"):
        if name not in OTHERS:
            yield Heading(name)
            yield from _probe(results, name)
    curves = rows[(rows.task == "positions") & rows.measure.str.contains("nll_by_")]
    if len(curves):
        yield Heading("positions")
        yield from _protocol(curves)
        drawn = [_by_level(results, cells) for _, cells in curves.groupby("measure", sort=False)]
        yield Grid(drawn, look="charts")


def _protocol(cells: pd.DataFrame) -> list[Block]:
    """Return how the first of these values were measured."""
    return [Words(text, look="note") for text in protocols(cells)[:1]]


def _probe(results: Results, task: str) -> Iterator[Block]:
    shares = results.cells("accuracy", task=task)
    yield from _protocol(shares)
    for measure, label in (("accuracy", ""), ("written", ", written by the model")):
        grid = results.cells(measure, task=task)
        deep = grid[grid.depth.notna()]
        maps = [_map(arm, deep[deep.arm == arm.label], f"{task}_{measure}", label)
                for arm in results.arms if arm.label in set(deep.arm)]  # fmt: skip
        if maps:
            yield Grid(maps)
    missing = [arm.label for arm in results.arms if arm.label not in set(shares.arm)]
    if missing and task == "passkey":
        yield Words(f"Not measured for: {', '.join(missing)}.")
    written, first, second = (_at(results, name, task) for name in ("written", "first", "second"))

    def small(row: Any) -> list[str]:
        place = (row.arm, row.length)
        if math.isfinite(loss := first.get(place, math.nan)):
            return [f"{short(loss)}, {short(second.get(place, math.nan))}"]
        share = written.get(place, math.nan)
        return [percent(share)] if math.isfinite(share) else []

    curves = Curves(shares[shares.depth.isna()], results.looks, write=percent, pick=max,
                    small=small, title=f"Found: {task}")  # fmt: skip
    distances = (_distances(results, task, curves.columns, unit) for unit in ("tokens", "segments"))
    chances = results.cells("chance", task=task).value.dropna().unique()
    chance = float(chances[0]) if len(chances) == 1 else math.nan
    trials = results.cells("trials", task=task, depth=None).value.min()
    yield curves.figure(
        f"{task}_found", f"share found, {task}", first="found", guides=guides(results.arms),
        level=Guide(at=chance, label="chance") if math.isfinite(chance) else None,
        more=[*filter(None, distances)],
        note=note("probes", losses=bool(first), chance=chance, trials=trials),
    )  # fmt: skip
    yield from tables_apart(results, "accuracy", task, write=percent)


def _map(arm: Arm, cells: pd.DataFrame, name: str, label: str) -> tuple[str, Any]:
    ordered = cells.sort_values(["depth", "length"])
    keys = zip(ordered.length.astype(int), ordered.depth, strict=True)
    title = f"{name.replace('_', ' ')} of {arm.label} by length and depth"
    shares = dict(zip(keys, ordered.value, strict=True))
    drawing = heat_map(shares, name=f"{name}_{arm.label}", title=title, trained=arm.row_length)
    return arm.label + label, drawing


def _at(results: Results, measure: str, task: str) -> dict[tuple[str, float], float]:
    cells = results.cells(measure, task=task, depth=None)
    return {(row.arm, row.length): row.value for row in cells.itertuples()}


def _distances(results: Results, task: str, lengths: Sequence[float], unit: str) -> Line:
    at = {length: value for (_, length), value in _at(results, f"distance_{unit}", task).items()}
    cells = [Cell(short(at[length]) if length in at else DASH) for length in lengths]
    return [f"distance in {unit}", *cells] if at else []


def above_chance(results: Results, task: str, length: float) -> list[str]:
    """Return the arms whose share found exceeds guessing by more than two standard errors."""
    trials, chances = (_at(results, measure, task) for measure in ("trials", "chance"))

    def clear(arm: str, share: float) -> bool:
        chance, guesses = chances.get((arm, length), 0.0), trials.get((arm, length), 1.0)
        return share > chance + 2 * math.sqrt(max(0.0, chance * (1 - chance)) / max(1.0, guesses))

    shares = _at(results, "accuracy", task)
    return [arm for (arm, at), share in shares.items() if at == length and clear(arm, share)]


def _by_level(results: Results, cells: pd.DataFrame) -> tuple[str, Any]:
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
    trained = results.cells("trained_operators", task="arithmetic").operators.max()
    at = [Guide(at=trained, label=f"trained up to {count(trained)}")] if trained > 0 else []
    curves = Curves(answers, results.looks, x="operators", write=percent, pick=max, bars=True)
    chart = curves.draw("arithmetic", "share of correct answers", _OPERATORS, guides=at)
    papers = {arm.label: target_of("arithmetic", arm.model) for arm in results.arms}
    rows: list[Line] = [["correct answers"]]
    for row in curves.rows():
        paper = papers[row[0].text]
        rows.append([*row, paper.text if paper else ""])
    for measure in ("steps", "tokens"):
        cells = results.cells(measure, task="arithmetic")
        other = Curves(cells, results.looks, x="operators", pick=max,
                       write=partial(percent, decimals=1))  # fmt: skip
        if other.columns == curves.columns:
            rows.append([f"correct {measure}"])
            rows += [[*row, ""] for row in other.rows()]
    table = Table([*curves.table("operators").head, "paper"], rows, title="Arithmetic",
                  note=note("arithmetic", sources=sources_of("arithmetic")))  # fmt: skip
    yield from _protocol(answers)
    yield Figure(chart, table)
    yield from _by_width(results, answers, trained)
    yield from tables_apart(results, "answer", "arithmetic", x="operators", write=percent)


def in_distribution(operators: Sequence[float], trained: float) -> float:
    """Return the most operators asked for within training, or else the fewest asked for."""
    return max((number for number in operators if number <= trained), default=min(operators))


def _by_width(results: Results, answers: pd.DataFrame, trained: float) -> Iterator[Block]:
    """Yield answers against the width at the most trained operators, if widths differ."""
    widths = {arm.label: float(arm.runs[0].model.get("width", math.nan)) for arm in results.arms}
    if len({widths[name] for name in answers.arm}) < 2:
        return
    at = in_distribution(answers.operators.unique().tolist(), trained)
    models = {arm.label: arm.model for arm in results.arms}
    looks = {arm.model: arm.style for arm in reversed(results.arms)}  # of the first arm of each
    cells = answers[answers.operators == at]
    cells = cells.assign(width=cells.arm.map(widths), model=cells.arm.map(models))
    curves = Curves(cells, {model: looks[model] for model in dict.fromkeys(models.values())},
                    x="width", line="model", write=percent, pick=max)  # fmt: skip
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
    title = f"{note('stretch', 'title')}: {arm.label},"

    def perplexities(rows: pd.DataFrame, _: str, source: str) -> Figure:
        curves = Curves(rows, looks, line="variant", title=f"{title} perplexity, {source}")
        return curves.figure(
            f"extended_{arm.label}_{source}", f"perplexity, {source}, {arm.label}",
            first=f"{source}, perplexity", note=small, guides=guides([arm]),
        )  # fmt: skip

    def found(rows: pd.DataFrame, _: str, task: str) -> Table:
        curves = Curves(rows, looks, line="variant", write=percent, pick=max,
                        title=f"{title} {task} found")  # fmt: skip
        return curves.table(f"{task} found", note=small)

    values = cells[(cells.measure == "perplexity") & (cells.task == "")]
    yield from each_measurement(values, ["arm", "source"], perplexities)
    shares = cells[(cells.measure == "accuracy") & cells.depth.isna()]
    yield from each_measurement(shares, ["arm", "task"], found)


def variant_styles(names: Sequence[str]) -> dict[str, Style]:
    """Return a hue per method; dashed if it counts tokens, else solid."""
    methods = ordered_styles([name.partition(" (")[0] for name in names])
    return {
        name: replace(methods[name.partition(" (")[0]], dashed=name.endswith("(tokens)"))
        for name in names
    }
