"""Scores of several seeds brought together: mean and spread a task, and the benchmark's means.

Runs that differ in their seed alone belong together: they went on from the same weights, or from
those of one name, on the same task and split.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from train.errors import DataError
from train.evals.scoring.scrolls import means
from train.fit import runs
from train.tasks.scrolls.archives import TASKS

SCORES = "scores.json"
FORMAT = "bipe-scrolls/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """The score of a task over seeds, in percent. deviation: of the sample; None for one seed."""

    mean: float
    deviation: float | None
    scores: Mapping[int, float]

    @classmethod
    def of(cls, scores: Mapping[int, float]) -> Spread:
        values = [scores[seed] for seed in sorted(scores)]
        deviation = stdev(values) if len(values) > 1 else None
        return cls(mean=fmean(values), deviation=deviation, scores=dict(sorted(scores.items())))

    def __str__(self) -> str:
        spread = "" if self.deviation is None else f" +- {self.deviation:.2f}"
        return f"{self.mean:.2f}{spread} (n={len(self.scores)})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """One model on all tasks that it was scored on. means: see `scoring.scrolls.means`."""

    name: str
    split: str
    tasks: Mapping[str, Spread]
    means: Mapping[str, float | None]


def find_scores(out: Path) -> list[dict[str, Any]]:
    """What `bipe scrolls` scored in the runs of a folder; DataError for a file that is none."""
    found = []
    for path in sorted(out.glob(f"*/{runs.SCROLLS}/*/{SCORES}")):
        try:
            one = json.loads(path.read_text(encoding="utf-8"))
            if one["format"] != FORMAT:
                raise ValueError(f"its format is {one['format']}, not {FORMAT}")
        except (ValueError, KeyError, TypeError) as fault:
            raise DataError(f"{path}: no scores of bipe scrolls: {fault}") from None
        found.append(one)
    return found


def collected(scores: Iterable[Mapping[str, Any]]) -> list[Model]:
    """The scores of all models, seeds brought together; unscored predictions are left out."""
    grouped: dict[tuple[str, str], dict[str, dict[int, float]]] = {}
    for one in scores:
        if one["score"] is None:
            continue
        tasks = grouped.setdefault((one["model"], one["split"]), {})
        tasks.setdefault(one["task"], {})[int(one["seed"])] = float(one["score"])
    return [
        _model(name, split, {task: Spread.of(seeds) for task, seeds in tasks.items()})
        for (name, split), tasks in sorted(grouped.items())
    ]


def _model(name: str, split: str, tasks: Mapping[str, Spread]) -> Model:
    official = {task: spread.mean for task, spread in tasks.items() if task in TASKS}
    return Model(name=name, split=split, tasks=dict(tasks), means=means(official))


def table(models: Sequence[Model]) -> str:
    """A line for each model and task."""
    width = max((len(f"{m.name} {m.split}") for m in models), default=0)
    lines = []
    for model in models:
        title = f"{model.name} {model.split}"
        for task, spread in model.tasks.items():
            lines.append(f"{title:<{width}}  {task:<16}  {spread}")
        for name, value in model.means.items():
            if value is not None:
                lines.append(f"{title:<{width}}  {name.replace('_', ' '):<16}  {value:.2f}")
    return "\n".join(lines)


def as_json(models: Sequence[Model]) -> str:
    """The same as JSON, for other programs."""
    return json.dumps({"format": FORMAT, "models": [asdict(m) for m in models]}, indent=1) + "\n"
