"""SCROLLS: scores by task with their spread over seeds, lengths of outputs, what was cut."""

import math
from collections.abc import Sequence
from statistics import fmean

import numpy as np
import pandas as pd

from segmenters.wording import counted
from train.evals.rows import half_width
from train.evals.scoring.benchmark import benchmark_means
from train.report.content import Block, Cell, Heading, Line, Section, Table, Words, best_of, span
from train.report.formats import DASH, count, fixed, percent, short
from train.report.sections.curves import in_order
from train.report.sections.published import published_mean, sources_of
from train.report.table import Results, labelled
from train.tasks.scrolls.archives import TASKS

_MEANS = {"mean": "mean", "mean_without_quality": "mean without QuALITY"}


def scrolls(results: Results) -> Section | None:
    rows = scrolls_rows(results)
    if rows.empty:
        return None
    words = (
        "Trained runs fine-tuned on long-document tasks, with the official scores in percent: "
        "the geometric mean of ROUGE for summaries, F1 or exact match for answers. Small models "
        "stay near chance on QuALITY, so a mean without it is shown as well."
    )
    blocks: list[Block] = [Words(words)]
    for split in in_order(rows):
        own = rows[rows.source == split]
        scores = own[own.measure == "scrolls_score"]
        several = scores.duplicated(["scored", "task"]).any()
        blocks += [Heading(f"{split} split"), _scores(own, split)]
        blocks += [*([_by_seed(scores)] if several else []), _outputs(own)]
    return Section("scrolls", "SCROLLS", blocks)


def scrolls_rows(results: Results) -> pd.DataFrame:
    """Return the rows of SCROLLS with the model in `scored`: its folder without task and seed."""
    rows = results.table[results.table.measure.str.startswith("scrolls_")]
    tasks = {row.label: row.task for row in rows.itertuples()}
    folders = {}
    for label, run in zip(results.labels, results.runs, strict=True):
        if label in tasks:
            name = run.name.removesuffix(f"_seed{run.seed}").removesuffix(f"_{tasks[label]}")
            folders[label] = run.folder.resolve().with_name(name)
    different = list(dict.fromkeys(folders.values()))
    names = labelled([(folder.name, folder) for folder in different])
    named = dict(zip(different, names, strict=True))
    return rows.assign(scored=rows.label.map({k: named[f] for k, f in folders.items()}))


def _ordered_tasks(rows: pd.DataFrame) -> list[str]:
    held = in_order(rows, "task")
    return [task for task in TASKS if task in held] + [task for task in held if task not in TASKS]


def _scores(rows: pd.DataFrame, split: str) -> Table:
    """Return a row per task and a column per model, since there are up to seven tasks."""
    models = in_order(rows, "scored")
    scores = rows[rows.measure == "scrolls_score"]
    held = {key: group.value.tolist() for key, group in scores.groupby(["task", "scored"])}
    metrics = dict(zip(scores.task, scores.note.fillna(""), strict=True))
    averages = {key: float(np.mean(values)) for key, values in held.items()}
    lines: list[Line] = []
    for task in _ordered_tasks(rows):
        best = best_of((averages.get((task, model), math.nan) for model in models), max, _score)
        cells = [_task(held[task, model], best) if (task, model) in held else
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
    papers = [published_mean(model) if set(scores[scores.scored == model].task) & {*TASKS} else ""
              for model in models]  # fmt: skip
    if any(papers):
        lines.append(["mean of the published model", *papers])
    note = (
        "Small: the standard deviation over seeds and their number, then the 95% interval of the "
        "mean by Student's t. Bold: the highest. A mean needs the scores of all its tasks. "
        f"Published: {sources_of('scrolls')}; scores of single tasks and the split are unread."
    )
    return Table(["task", *models], lines, note=note, title=f"SCROLLS, percent: {split}")


def _score(value: float) -> str:
    return fixed(value, 2)


def _unscored(rows: pd.DataFrame) -> Cell:
    """Return the cell of a task without an official score: what was decoded of it, if anything."""
    held = dict(zip(rows.measure, rows.value, strict=True))
    if "scrolls_part_score" not in held:
        return Cell("unscored" if len(rows) else DASH)
    made, whole = (count(held[f"scrolls_{name}"]) for name in ("predictions", "examples"))
    score = f"on these: {_score(held['scrolls_part_score'])}"
    return Cell(f"{made} of {whole} outputs", small=(score, "no official score"))


def _task(scores: Sequence[float], best: str | None) -> Cell:
    text, number = _score(float(np.mean(scores))), counted(len(scores), "seed")
    if len(scores) == 1:
        return Cell(text, small=(number,), best=text == best)
    deviation = f"\N{PLUS-MINUS SIGN}{_score(float(np.std(scores, ddof=1)))}, {number}"
    mean, half = fmean(scores), half_width(scores)
    between = span(mean - half, mean + half, _score)
    return Cell(text, small=(deviation, between), best=text == best)


def _by_seed(scores: pd.DataFrame) -> Table:
    seeds = sorted(scores.seed.dropna().unique().tolist())
    rows: list[Line] = []
    for model, own in scores.groupby("scored", sort=False):
        rows.append([str(model)])
        for task in _ordered_tasks(own):
            at = dict(zip(own[own.task == task].seed, own[own.task == task].value, strict=True))
            rows.append([task, *(_score(at[seed]) if seed in at else DASH for seed in seeds)])
    return Table(["seed", *map(count, seeds)], rows, note="The score of each seed.")


def _outputs(rows: pd.DataFrame) -> Table:
    """Return the lengths of outputs of the first seed, and counts over all seeds."""
    lines: list[Line] = []
    for model, own in rows.groupby("scored", sort=False):
        lines += [[str(model)], *([task, *_output(own[own.task == task])]
                                  for task in _ordered_tasks(own))]  # fmt: skip
    head = ["outputs", "number", "words", "words of references", "tokens", "empty",
            "ended by length", "prompts cut", "tokens cut", "outputs cut"]  # fmt: skip
    note = (
        "Over all seeds. Words and tokens: the median, and below it the 10th and 90th percentiles, "
        "of the first seed. Ended by length: the share stopped by the length limit. Cut: to fit "
        "row_length; prompts lose their middle."
    )
    return Table(head, lines, note=note)


def _output(rows: pd.DataFrame) -> list[Cell | str]:
    held = {name: group.value for name, group in rows.groupby("measure")}

    def total(name: str) -> float:
        return float(held[name].sum()) if name in held else math.nan

    def between(name: str) -> Cell:
        ranks = [held.get(f"scrolls_{name}_p{rank}") for rank in (50, 10, 90)]
        if any(rank is None for rank in ranks):
            return Cell(DASH)
        middle, low, high = (float(rank.iloc[0]) for rank in ranks)  # type: ignore[union-attr]
        return Cell(short(middle), small=(span(low, high, short),))

    made, empty = (held.get(f"scrolls_{name}", pd.Series(dtype=float))
                   for name in ("predictions", "empty"))  # fmt: skip
    number = float(made.sum())
    shares = [float(empty.to_numpy() @ made.to_numpy()) if len(empty) == len(made) else math.nan,
              total("scrolls_ended_by_length")]  # fmt: skip
    cut = [total(f"scrolls_{name}") for name in ("prompts_cut", "prompt_tokens_cut", "outputs_cut")]
    return [
        count(number),
        *map(between, ("prediction_words", "reference_words", "prediction_tokens")),
        *(percent(share / number) if number and math.isfinite(share) else DASH for share in shares),
        *(count(value) if math.isfinite(value) else DASH for value in cut),
    ]
