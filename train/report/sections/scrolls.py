"""SCROLLS: scores by task with their spread over seeds, lengths of outputs, what was cut."""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from statistics import fmean

import numpy as np
import pandas as pd

from segmenters.wording import counted
from train.evals.rows import half_width
from train.evals.scoring import benchmark_means
from train.report.content import Block, Cell, Heading, Line, Table, best_of, note, span
from train.report.formats import DASH, count, fixed, percent, short
from train.report.sections.published import sources_of, targets
from train.report.table import Results, in_order, labelled
from train.tasks.scrolls.archives import TASKS

_OUTPUTS = ("outputs", "number", "words", "words of references", "tokens", "empty",
            "ended by length", "prompts cut", "tokens cut", "outputs cut")  # fmt: skip
_MEANS = {"mean": "mean", "mean_without_quality": "mean without QuALITY"}


def scrolls(results: Results) -> Iterator[Block]:
    """Show scores, by seed if there are several, and outputs of each split."""
    rows = scrolls_rows(results)
    for split in in_order(rows):
        cells = rows[rows.source == split]
        scores = cells[cells.measure == "scrolls_score"]
        yield Heading(f"{split} split")
        yield _scores(cells, split)
        if scores.duplicated(["scored", "task"]).any():
            seeds = sorted(scores.seed.dropna().unique().tolist())
            lines = _by_model(scores, partial(_of_seeds, seeds=seeds))
            yield Table(["seed", *map(count, seeds)], lines, note="The score of each seed.")
        yield Table(_OUTPUTS, _by_model(cells, _output), note=note("scrolls", "outputs"))


def _by_model(rows: pd.DataFrame, cells_of: Callable[[pd.DataFrame], Line]) -> list[Line]:
    """Return a heading per model, and a row per task."""
    lines: list[Line] = []
    for model, cells in rows.groupby("scored", sort=False):
        lines.append([str(model)])
        lines += [[task, *cells_of(cells[cells.task == task])] for task in _ordered_tasks(cells)]
    return lines


def _of_seeds(rows: pd.DataFrame, seeds: Sequence[float]) -> Line:
    at = dict(zip(rows.seed, rows.value, strict=True))
    return [_score(at[seed]) if seed in at else DASH for seed in seeds]


def scrolls_rows(results: Results) -> pd.DataFrame:
    """Return the rows of SCROLLS with the model in `scored`: its folder without task and seed."""
    rows = results.table[results.table.measure.str.startswith("scrolls_")]
    tasks = {row.label: row.task for row in rows.itertuples()}
    folders = {}
    for (_, label), run in zip(results.labels, results.runs, strict=True):
        if label in tasks:
            name = run.name.removesuffix(f"_seed{run.seed}").removesuffix(f"_{tasks[label]}")
            folders[label] = run.folder.resolve().with_name(name)
    different = list(dict.fromkeys(folders.values()))
    names = labelled([(folder.name, folder) for folder in different])
    named = dict(zip(different, names, strict=True))
    return rows.assign(scored=rows.label.map({k: named[f] for k, f in folders.items()}))


def _ordered_tasks(rows: pd.DataFrame) -> list[str]:
    tasks = in_order(rows, "task")
    return [task for task in TASKS if task in tasks] + [task for task in tasks if task not in TASKS]


def _scores(rows: pd.DataFrame, split: str) -> Table:
    """Return a row per task and a column per model, since there are up to seven tasks."""
    models = in_order(rows, "scored")
    scores = rows[rows.measure == "scrolls_score"]
    values_of = {key: group.value.tolist() for key, group in scores.groupby(["task", "scored"])}
    metrics = dict(zip(scores.task, scores.note.fillna(""), strict=True))
    averages = {key: float(np.mean(values)) for key, values in values_of.items()}
    lines: list[Line] = []
    for task in _ordered_tasks(rows):
        best = best_of((averages.get((task, model), math.nan) for model in models), max, _score)
        cells = [_task(values_of[task, model], best) if (task, model) in values_of else
                 _unscored(rows[(rows.task == task) & (rows.scored == model)])
                 for model in models]  # fmt: skip
        small = metrics.get(task, "").replace("_", " ")
        lines.append([Cell(task, small=(small,) if small else ()), *cells])
    whole = [benchmark_means({task: value for (task, named), value in averages.items()
                              if named == model}) for model in models]  # fmt: skip
    for kind, name in _MEANS.items():
        values = [math.nan if mean[kind] is None else mean[kind] for mean in whole]
        best = best_of(values, max, _score)  # type: ignore[arg-type]
        shown = [DASH if value is None or math.isnan(value) else _score(value) for value in values]
        lines.append([name, *(Cell(text, best=text == best) for text in shown)])
    published = {target.model.lower(): target.cell for target in targets()["scrolls"]}
    official = set(scores[scores.task.isin(TASKS)].scored)
    papers = [published.get(model.lower().replace("_", "-"), "") if model in official else ""
              for model in models]  # fmt: skip
    if any(papers):
        lines.append(["mean of the published model", *papers])
    text = note("scrolls", sources=sources_of("scrolls"))
    return Table(["task", *models], lines, note=text, title=f"SCROLLS, percent: {split}")


def _score(value: float) -> str:
    return fixed(value, 2)


def _unscored(rows: pd.DataFrame) -> Cell:
    """Return the cell of a task without an official score: what was decoded of it, if anything."""
    values = dict(zip(rows.measure, rows.value, strict=True))
    if "scrolls_part_score" not in values:
        return Cell("unscored" if len(rows) else DASH)
    decoded, whole = (count(values[f"scrolls_{name}"]) for name in ("predictions", "examples"))
    score = f"on these: {_score(values['scrolls_part_score'])}"
    return Cell(f"{decoded} of {whole} outputs", small=(score, "no official score"))


def _task(scores: Sequence[float], best: str | None) -> Cell:
    text, number = _score(float(np.mean(scores))), counted(len(scores), "seed")
    if len(scores) == 1:
        return Cell(text, small=(number,), best=text == best)
    deviation = f"\N{PLUS-MINUS SIGN}{_score(float(np.std(scores, ddof=1)))}, {number}"
    mean, half = fmean(scores), half_width(scores)
    between = span(mean - half, mean + half, _score)
    return Cell(text, small=(deviation, between), best=text == best)


def _output(rows: pd.DataFrame) -> Line:
    """Return the lengths of outputs of the first seed, and counts over all seeds."""
    values = {name.removeprefix("scrolls_"): group.value.to_numpy()
              for name, group in rows.groupby("measure")}  # fmt: skip
    nothing = np.zeros(0)

    def between(name: str) -> Cell:
        ranks = [values.get(f"{name}_p{rank}", nothing) for rank in (50, 10, 90)]
        if not all(map(len, ranks)):
            return Cell(DASH)
        middle, low, high = (float(rank[0]) for rank in ranks)
        return Cell(short(middle), small=(span(low, high, short),))

    def total(name: str) -> float:
        return float(values[name].sum()) if name in values else math.nan

    numbers, empty = (values.get(name, nothing) for name in ("predictions", "empty"))
    number = float(numbers.sum())
    blank = float(empty @ numbers) if len(empty) == len(numbers) else math.nan
    cut = [total(name) for name in ("prompts_cut", "prompt_tokens_cut", "outputs_cut")]
    return [
        count(number),
        *map(between, ("prediction_words", "reference_words", "prediction_tokens")),
        *(percent(share / number) if number and math.isfinite(share) else DASH
          for share in (blank, total("ended_by_length"))),
        *(count(value) if math.isfinite(value) else DASH for value in cut),
    ]  # fmt: skip
