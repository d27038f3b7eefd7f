"""SCROLLS: scores by task with their spread over seeds, lengths of outputs, what was cut."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import pandas as pd

from segmenters.wording import counted
from train.evals.rows import half_width
from train.evals.scoring import Spread, benchmark_means
from train.report.content import Block, Cell, Heading, Line, Table, best_of, note, span
from train.report.formats import DASH, count, fixed, percent, short
from train.report.labels import labelled
from train.report.sections.published import as_cell, sources_of, targets_of
from train.report.table import Results, in_order, values_at
from train.tasks.scrolls.archives import TASKS

_OUTPUTS = ("outputs", "number", "words", "words of references", "tokens", "empty",
            "ended by length", "prompts cut", "tokens cut", "outputs cut")  # fmt: skip
_MEANS = {"mean": "mean", "mean_without_quality": "mean without QuALITY"}
_Spreads = Mapping[tuple[str, str], Spread]  # of the scores, by model and task


def scrolls(results: Results) -> Iterator[Block]:
    """Show scores, by seed if there are several, and outputs of each split."""
    rows = scrolls_rows(results)
    for split in in_order(rows):
        cells = rows[rows.source == split]
        scores = cells[cells.measure == "scrolls_score"]
        spreads = {key: Spread.of(values_at(group, "seed"))
                   for key, group in scores.groupby(["scored", "task"])}  # fmt: skip
        seeds = sorted({seed for spread in spreads.values() for seed in spread.scores})
        yield Heading(f"{split} split")
        yield _scores(cells, split, spreads)
        if any(spread.deviation is not None for spread in spreads.values()):
            lines = _by_model(scores, partial(_of_seeds, seeds=seeds))
            yield Table(["seed", *map(count, seeds)], lines, note="The score of each seed.")
        yield Table(_OUTPUTS, _by_model(cells, _output), note=note("scrolls", "outputs"))


def scrolls_rows(results: Results) -> pd.DataFrame:
    """Return the rows of SCROLLS with the model in `scored`: its folder without task and seed."""
    rows = results.table[results.table.measure.str.startswith("scrolls_")]
    tasks = dict(zip(rows.label, rows.task, strict=True))
    folders = {}
    for label, run in ((shown.label, shown.run) for shown in results.runs if shown.label in tasks):
        name = run.name.removesuffix(f"_seed{run.seed}").removesuffix(f"_{tasks[label]}")
        folders[label] = run.folder.resolve().with_name(name)
    different = list(dict.fromkeys(folders.values()))
    names = labelled([(folder.name, folder) for folder in different])
    named = dict(zip(different, names, strict=True))
    return rows.assign(scored=rows.label.map({k: named[f] for k, f in folders.items()}))


def _by_model(rows: pd.DataFrame, cells_of: Callable[[pd.DataFrame], Line]) -> list[Line]:
    """Return a heading per model, and a row per task."""
    lines: list[Line] = []
    for model, cells in rows.groupby("scored", sort=False):
        lines.append([str(model)])
        lines += [[task, *cells_of(cells[cells.task == task])] for task in _ordered_tasks(cells)]
    return lines


def _ordered_tasks(rows: pd.DataFrame) -> list[str]:
    tasks = in_order(rows, "task")
    return [task for task in TASKS if task in tasks] + [task for task in tasks if task not in TASKS]


def _of_seeds(rows: pd.DataFrame, seeds: Sequence[int]) -> Line:
    at = values_at(rows, "seed")
    return [_score(at[seed]) if seed in at else DASH for seed in seeds]


def _scores(rows: pd.DataFrame, split: str, spreads: _Spreads) -> Table:
    """Return a row per task and a column per model, since there are up to seven tasks."""
    models, metrics = in_order(rows, "scored"), rows[rows.measure == "scrolls_score"]
    lines: list[Line] = []
    for task in _ordered_tasks(rows):
        named = metrics[metrics.task == task].note.fillna("").str.replace("_", " ").tolist()
        best = _best(spreads[model, task].mean for model in models if (model, task) in spreads)
        cells = [_task(spreads[model, task], best) if (model, task) in spreads else
                 _unscored(rows[(rows.task == task) & (rows.scored == model)])
                 for model in models]  # fmt: skip
        lines.append([Cell(task, small=tuple(filter(None, named[-1:]))), *cells])
    means = [benchmark_means({task: spread.mean for (named, task), spread in spreads.items()
                              if named == model}) for model in models]  # fmt: skip
    for kind, name in _MEANS.items():
        values = [mean[kind] for mean in means]
        best = _best(value for value in values if value is not None)
        shown = [DASH if value is None else _score(value) for value in values]
        lines.append([name, *(Cell(text, best=text == best) for text in shown)])
    published = {target.model.lower(): as_cell(target)
                 for target in targets_of("scrolls").itertuples()}  # fmt: skip
    official = {model for model, task in spreads if task in TASKS}
    papers = [published.get(model.lower().replace("_", "-"), "") if model in official else ""
              for model in models]  # fmt: skip
    if any(papers):
        lines.append(["mean of the published model", *papers])
    text = note("scrolls", sources=sources_of("scrolls"))
    return Table(["task", *models], lines, note=text, title=f"SCROLLS, percent: {split}")


def _score(value: float) -> str:
    return fixed(value, 2)


def _best(values: Iterator[float]) -> str | None:
    return best_of(values, max, _score)


def _task(spread: Spread, best: str | None) -> Cell:
    text, number = _score(spread.mean), counted(len(spread.scores), "seed")
    if spread.deviation is None:
        return Cell(text, small=(number,), best=text == best)
    half = half_width([*spread.scores.values()])
    between = span(spread.mean - half, spread.mean + half, _score)
    deviation = f"\N{PLUS-MINUS SIGN}{_score(spread.deviation)}, {number}"
    return Cell(text, small=(deviation, between), best=text == best)


def _unscored(rows: pd.DataFrame) -> Cell:
    """Return the cell of a task without an official score: what was decoded of it, if anything."""
    values = values_at(rows, "measure")
    if "scrolls_part_score" not in values:
        return Cell("unscored" if len(rows) else DASH)
    decoded, whole = (count(values[f"scrolls_{name}"]) for name in ("predictions", "examples"))
    score = f"on these: {_score(values['scrolls_part_score'])}"
    return Cell(f"{decoded} of {whole} outputs", small=(score, "no official score"))


def _output(rows: pd.DataFrame) -> Line:
    """Return the lengths of outputs of the first seed, and counts over all seeds."""
    outputs = rows.pivot(index="label", columns="measure", values="value").loc[
        in_order(rows, "label")
    ]
    outputs = outputs.rename(columns=lambda name: name.removeprefix("scrolls_"))

    def between(name: str) -> Cell:
        if f"{name}_p50" not in outputs:
            return Cell(DASH)
        middle, low, high = (outputs[f"{name}_p{rank}"].iloc[0] for rank in (50, 10, 90))
        return Cell(short(middle), small=(span(low, high, short),))

    def total(name: str) -> float:
        return float(outputs[name].sum()) if name in outputs else math.nan

    number = total("predictions")
    empty = (
        float((outputs["empty"] * outputs["predictions"]).sum()) if "empty" in outputs else math.nan
    )
    return [
        count(number),
        *map(between, ("prediction_words", "reference_words", "prediction_tokens")),
        *(percent(share / number) if number and math.isfinite(share) else DASH
          for share in (empty, total("ended_by_length"))),
        *(count(value) if math.isfinite(value) else DASH
          for value in map(total, ("prompts_cut", "prompt_tokens_cut", "outputs_cut"))),
    ]  # fmt: skip
