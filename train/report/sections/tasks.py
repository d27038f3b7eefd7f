"""Tasks: retrieval and other probes, arithmetic; and models whose length was extended."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from segmenters.wording import counted
from train.report.content import (
    Block,
    Cell,
    Figure,
    Grid,
    Heading,
    Line,
    Scale,
    Section,
    Table,
    Words,
)
from train.report.figures.cells import heat_map
from train.report.figures.lines import Guide
from train.report.formats import DASH, count, percent, short, spread
from train.report.palette import Style, ordered_styles
from train.report.sections.curves import Curves, guides, in_order, protocols
from train.report.sections.published import sources_of, target_of
from train.report.table import Arm, Results

OTHERS = ("", "arithmetic", "positions", "passkey")  # tasks that are not probes, or have a section
_STRETCHED = "Length extension without training"
_LEVELS = {"token": "position in the document, tokens", "inter": "segment of the document",
           "intra": "position in the segment, tokens"}  # fmt: skip


def retrieval(results: Results) -> Section | None:
    """Show what a model can still find, which perplexity does not show."""
    held = results.cells("accuracy", task="passkey")
    if held.empty:
        return None
    cells = results.cells("trials", task="passkey")
    deep = cells[cells.depth.notna()]
    trials = (deep if len(deep) else cells).value
    over = f"over {spread(trials, count)} trials " if len(trials) else ""
    text = (
        "A low perplexity needs only the nearest sentences; finding a passkey hidden early in a "
        "long document needs the whole context. Each cell is the percentage of passkeys found "
        f"{over}at one length and depth (0% is the start of the document)."
    )
    blocks = [Words(text), Scale(), *_probe(results, "passkey")]
    return Section("retrieval", "Passkey retrieval", blocks, nav="Retrieval")


def probes(results: Results) -> Section | None:
    """Show one part for each probe, and the losses by position."""
    held = results.means[(results.means.variant == "") & results.means.step.isna()]
    names = [name for name in in_order(held[held.measure == "accuracy"], "task")
             if name not in OTHERS]  # fmt: skip
    curves = held[(held.task == "positions") & held.measure.str.contains("nll_by_")]
    if not names and curves.empty:
        return None
    words = (
        "Each cell is the percentage of requested items found, at one length and depth. Distances "
        "are from the farthest statement needed to the answer: a bilevel encoding counts them in "
        "segments, a flat one in tokens."
    )
    blocks: list[Block] = [Words(words)]
    for name in names:
        blocks += [Heading(name), *_probe(results, name)]
    if len(curves):
        note = [Words(text, look="note") for text in protocols(curves)[:1]]
        drawn = [_by_level(results, curves[curves.measure == name])
                 for name in in_order(curves, "measure")]  # fmt: skip
        blocks += [Heading("positions"), *note, Grid(drawings=drawn, look="charts")]
    return Section("probes", "Probes of retrieval and copying", blocks, nav="Probes")


def _probe(results: Results, task: str) -> list[Block]:
    found = results.cells("accuracy", task=task)
    blocks: list[Block] = [Words(text, look="note") for text in protocols(found)[:1]]
    for measure, called in (("accuracy", ""), ("written", ", written by the model")):
        grid = results.cells(measure, task=task)
        deep = grid[grid.depth.notna()]
        maps = [_map(arm, deep[deep.arm == arm.label], f"{task}_{measure}", called)
                for arm in results.arms if arm.label in set(deep.arm)]  # fmt: skip
        blocks += [Grid(drawings=maps)] if maps else []
    missing = [arm.label for arm in results.arms if arm.label not in set(found.arm)]
    if missing and task == "passkey":
        blocks.append(Words(f"Not measured for: {', '.join(missing)}."))
    whole = found[found.depth.isna()]
    chances = results.cells("chance", task=task).value.dropna().unique()
    chance = float(chances[0]) if len(chances) == 1 else math.nan
    level = Guide(at=chance, label="chance") if math.isfinite(chance) else None
    below = {measure: _at(results, measure, task) for measure in ("written", "first", "second")}

    def small(row: Any) -> list[str]:
        values = {name: at.get((row.arm, row.length), math.nan) for name, at in below.items()}
        if math.isfinite(values["first"]):
            return [f"{short(values['first'])}, {short(values['second'])}"]
        return [percent(values["written"])] if math.isfinite(values["written"]) else []

    held = Curves(
        name=f"{task}_found", y_name=f"share found, {task}", cells=whole, styles=results.looks,
        guides=guides(results.arms), level=level, write=percent, pick=max, small=small,
        title=f"Found: {task}",
    )  # fmt: skip
    more = [_distances(results, task, held.columns, unit) for unit in ("tokens", "segments")]
    note = _uncertainty(results, task, chance=chance, losses=bool(below["first"]))
    return [*blocks, held.figure("found", more=[row for row in more if row], note=note)]


def _map(arm: Arm, cells: pd.DataFrame, name: str, called: str) -> tuple[str, Any]:
    ordered = cells.sort_values(["depth", "length"])
    keys = zip(ordered.length.astype(int), ordered.depth, strict=True)
    title = f"{name.replace('_', ' ')} of {arm.label} by length and depth"
    shares = dict(zip(keys, ordered.value, strict=True))
    drawing = heat_map(shares, name=f"{name}_{arm.label}", title=title, trained=arm.row_length)
    return arm.label + called, drawing


def _at(results: Results, measure: str, task: str) -> dict[tuple[str, float], float]:
    cells = results.cells(measure, task=task, depth=None)
    return {(row.arm, row.length): row.value for row in cells.itertuples()}


def _distances(results: Results, task: str, lengths: Sequence[float], unit: str) -> Line:
    measured = _at(results, f"distance_{unit}", task)
    found = {length: value for (_, length), value in measured.items()}
    cells = [Cell(short(found[n]) if n in found else DASH) for n in lengths]
    return [f"distance in {unit}", *cells] if found else []


def _uncertainty(results: Results, task: str, *, chance: float, losses: bool) -> str:
    then = ("the loss of the first and of the second occurrence, nats per token" if losses
            else "the share written correctly, if writing was measured")  # fmt: skip
    text = f"Small: the 95% interval over seeds by Student's t if there are several, then {then}"
    text += ". Bold: the highest."
    if math.isfinite(chance):
        text += f" Chance is {percent(chance)}."
    trials = results.cells("trials", task=task, depth=None).value.min()
    if trials > 0:
        error = percent(2 * math.sqrt(0.25 / trials)).removesuffix("%")
        text += (f" Each is a mean of at least {count(trials)} trials, so two standard errors are "
                 f"up to {error} points.")  # fmt: skip
    return text


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
    return "", Curves(
        name=f"loss_by_{level}", y_name=f"loss, nats per token, by {words.partition(',')[0]}",
        cells=cells[cells.value.notna()].assign(start=cells.start + 1), x="start",
        x_name=f"{words} (log scale, counted from 1)", x_scale="octaves", styles=results.looks,
    ).draw()  # fmt: skip


def arithmetic(results: Results) -> Section | None:
    """Show right answers against the number of operators, and against the width."""
    answers = results.cells("answer", task="arithmetic")
    if answers.empty:
        return None
    trained = results.cells("trained_operators", task="arithmetic").operators.max()
    at = [Guide(at=trained, label=f"trained up to {count(trained)}")] if trained > 0 else []
    held = Curves(
        name="arithmetic", y_name="share of correct answers", cells=answers, styles=results.looks,
        x="operators", x_name="operators (log scale)", write=percent, pick=max, guides=at,
        bars=True,
    )  # fmt: skip
    table = held.table("operators")
    papers = {arm.label: str(target_of("arithmetic", arm.model) or "") for arm in results.arms}
    rows: list[Line] = [["correct answers"]]
    rows += [[*row, papers[row[0].text]] for row in held.rows()]  # type: ignore[list-item, union-attr]
    for measure in ("steps", "tokens"):
        own = Curves(results.cells(measure, task="arithmetic"), results.looks, x="operators",
                     write=lambda share: percent(share, 1), pick=max)  # fmt: skip
        if own.columns == held.columns:
            rows += [[f"correct {measure}"], *([*row, ""] for row in own.rows())]  # type: ignore[list-item]
    note = (
        "Small: the 95% interval, by Wilson for a single run, by Student's t for a mean over "
        f"seeds. Bold: the highest. Paper: final answers, {sources_of('arithmetic')}, with far "
        "longer training than a small run; its numbers of operators are unread."
    )
    words = ("Each model writes a chain of reductions to its answer, modulo a prime. Problems with "
             "more operators than in training require extrapolation.")  # fmt: skip
    beside = Table([*table.head, "paper"], rows, note=note, title="Arithmetic")
    blocks: list[Block] = [Words(words)]
    blocks += [Words(text, look="note") for text in protocols(answers)]
    blocks += [Figure(held.draw(), beside), *_by_width(results, answers, trained)]
    return Section("arithmetic", "Arithmetic chains", blocks, nav="Arithmetic")


def in_distribution(operators: Sequence[float], trained: float) -> float:
    """Return the most operators asked for within training, or else the fewest asked for."""
    return max((each for each in operators if each <= trained), default=min(operators))


def _by_width(results: Results, answers: pd.DataFrame, trained: float) -> list[Block]:
    """Return answers against the width at the most trained operators, if widths differ."""
    widths = {arm.label: float(arm.runs[0].model.get("width", math.nan)) for arm in results.arms}
    models = {arm.label: arm.model for arm in results.arms}
    if len({widths[name] for name in answers.arm}) < 2:
        return []
    at = in_distribution(answers.operators.unique().tolist(), trained)
    cells = answers[answers.operators == at]
    cells = cells.assign(width=cells.arm.map(widths), model=cells.arm.map(models))
    looks: dict[str, Style] = {}
    for arm in results.arms:
        looks.setdefault(arm.model, arm.style)
    held = Curves(
        cells, looks, name="arithmetic_width", x="width", x_name="width (log scale)", line="model",
        y_name=f"share of correct answers, {counted(int(at), 'operator')}", write=percent, pick=max,
    )  # fmt: skip
    return [held.figure("width")]


def stretch(results: Results) -> Section | None:
    """Show a figure and table for each model and source, then the retrieval."""
    held = results.means[results.means.variant != ""]
    blocks: list[Block] = []
    for arm in results.arms:
        own = held[held.arm == arm.label]
        blocks += [Heading(arm.label)] if len(own) else []
        blocks += _stretched(results, arm, own)
    if not blocks:
        return None
    words = (
        "The unchanged trained models (none), and the same with a method that changes frequencies "
        "or distances without training. Tokens, segments: the unit of the method's original "
        "length. At the training length no method changes the model."
    )
    notes = [Words(text, look="note") for text in protocols(held[held.measure == "perplexity"])[:1]]
    return Section("stretch", _STRETCHED, [Words(words), *notes, *blocks], nav="Extended")


def _stretched(results: Results, arm: Arm, own: pd.DataFrame) -> list[Block]:
    looks = variant_styles(in_order(own, "variant"))
    note = f"Small: 95% intervals over {len(arm.runs)} seeds." if arm.several else ""
    perplexities = own[(own.measure == "perplexity") & (own.task == "")]
    blocks: list[Block] = []
    for source in in_order(perplexities):
        chart = Curves(
            name=f"extended_{arm.label}_{source}", y_name=f"perplexity, {source}, {arm.label}",
            cells=perplexities[perplexities.source == source], styles=looks, line="variant",
            guides=guides([arm]), title=f"{_STRETCHED}: {arm.label}, perplexity, {source}",
        )  # fmt: skip
        blocks.append(chart.figure(f"{source}, perplexity", note=note))
    found = own[(own.measure == "accuracy") & own.depth.isna()]
    for task in in_order(found, "task"):
        shares = Curves(found[found.task == task], looks, line="variant", write=percent, pick=max,
                        title=f"{_STRETCHED}: {arm.label}, {task} found")  # fmt: skip
        blocks.append(shares.table(f"{task} found", note=note))
    return blocks


def variant_styles(names: Sequence[str]) -> dict[str, Style]:
    """Return a hue per method; dashed if it counts tokens, else solid."""
    methods = ordered_styles([name.partition(" (")[0] for name in names])
    return {
        name: replace(methods[name.partition(" (")[0]], dashed=name.endswith("(tokens)"))
        for name in names
    }
