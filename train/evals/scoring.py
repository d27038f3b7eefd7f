"""Scores of SCROLLS: of a run on a task, and over tasks and seeds.

    RUN/evaluation.jsonl    scores, lengths and counts as rows

The benchmark's score is the mean of the seven. QuALITY scatters around chance at small sizes and
moves that mean, so a mean without it is reported as well.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from statistics import fmean, stdev

import numpy as np

from segmenters.wording import counted
from train.evals.rows import FILE, Journal, Row
from train.tasks.scrolls.archives import TASKS
from train.tasks.scrolls.encoding import Counts
from train.tasks.scrolls.examples import Metric
from train.tasks.scrolls.metrics import Score, score

FORMAT = "bipe-scrolls/1"
_UNSTEADY = "quality"  # left out of the second mean
_PERCENTILES = (10, 50, 90)


def benchmark_means(scores: Mapping[str, float]) -> dict[str, float | None]:
    """Return the mean over the tasks of the benchmark, and the mean without QuALITY.

    A mean that lacks a task is None.
    """
    wanted = {"mean": [*TASKS], "mean_without_quality": [t for t in TASKS if t != _UNSTEADY]}
    return {
        name: fmean(scores[task] for task in tasks) if {*tasks} <= {*scores} else None
        for name, tasks in wanted.items()
    }


@dataclass(frozen=True, kw_only=True)
class Outputs:
    """The outputs of a run on a split of a task, by id; how: they were decoded, in words.

    references: of the split, none without. tokens: of each output. ended: outputs by how they ended
    (stop, length). cut: what truncation left out. examples: in the whole split.
    """

    task: str
    split: str
    metric: Metric
    texts: Mapping[str, str]
    references: Mapping[str, Sequence[str]]
    tokens: Mapping[str, int]
    ended: Mapping[str, int]
    cut: Counts
    examples: int
    how: str = ""

    @cached_property
    def score(self) -> Score | None:
        """Return the score of these outputs; None without references."""
        if not self.references:
            return None
        return score(self.texts, self.references, metric=self.metric)

    @property
    def is_part(self) -> bool:
        """Return whether these, or their references, are of a part of the split only."""
        return min(len(self.texts), len(self.references) or self.examples) < self.examples

    def rows(self) -> Iterator[Row]:
        """Yield scores, lengths and counts; their source is the split."""
        scored, number = self.score, len(self.texts)
        if scored is not None:
            name = "part_score" if self.is_part else "score"
            yield self._row(name, scored.score, "percent", self.metric)
            for name, value in scored.values.items():
                yield self._row(name, value, "percent")
        if self.is_part:
            yield self._row("examples", self.examples, "examples")
        yield self._row("predictions", number, "predictions", self.how)
        blank = sum(not text.strip() for text in self.texts.values())
        yield self._row("empty", blank / number if number else 0.0, "share")
        for kind in ("stop", "length"):
            yield self._row(f"ended_by_{kind}", self.ended.get(kind, 0), "predictions")
        right = [text for id in self.texts for text in self.references.get(id, ())]
        yield from self._lengths("prediction", "words", map(_words, self.texts.values()))
        yield from self._lengths("prediction", "tokens", (self.tokens[id] for id in self.texts))
        yield from self._lengths("reference", "words", map(_words, right))
        for name, count in asdict(self.cut).items():
            if name != "examples":
                yield self._row(name, count, "tokens" if "tokens" in name else "examples")

    def _row(self, name: str, value: float, unit: str, note: str = "") -> Row:
        return Row(measure=f"scrolls_{name}", value=value, unit=unit, note=note,
                   source=self.split, task=self.task)  # fmt: skip

    def _lengths(self, of: str, unit: str, lengths: Iterable[int]) -> Iterator[Row]:
        values = [*lengths]
        if values:
            ranks = np.percentile(values, _PERCENTILES).tolist()
            names = ("mean", *(f"p{share}" for share in _PERCENTILES), "most")
            for name, value in zip(names, (fmean(values), *ranks, max(values)), strict=True):
                yield self._row(f"{of}_{unit}_{name}", float(value), unit)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """The outputs of one run as its rows hold them; score: in percent, None if not official.

    model: the folder's name without task and seed. is_part: outputs of a part of the split only.
    """

    folder: Path
    model: str
    task: str
    split: str
    seed: int
    score: float | None
    is_part: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """The score of a task over seeds, in percent. deviation: of the sample; None for one seed."""

    mean: float
    deviation: float | None
    scores: Mapping[int, float]

    @classmethod
    def of(cls, scores: Mapping[int, float]) -> Spread:
        ordered = dict(sorted(scores.items()))
        deviation = stdev(ordered.values()) if len(ordered) > 1 else None
        return cls(mean=fmean(ordered.values()), deviation=deviation, scores=ordered)

    def __str__(self) -> str:
        spread = "" if self.deviation is None else f" +- {self.deviation:.2f}"
        return f"{self.mean:.2f}{spread} ({counted(len(self.scores), 'seed')})"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredModel:
    """One model on all tasks that it was scored on, by runs that differ only in their seed."""

    name: str
    split: str
    tasks: Mapping[str, Spread]
    means: Mapping[str, float | None]


def find_scores(out: Path) -> list[Scored]:
    """Return what was decoded by the runs in a folder, according to their rows."""
    scores = []
    for path in sorted(out.glob(f"*/{FILE}")):
        rows = {(row.task, row.source, row.measure): row for row in Journal(path).rows()}
        for (task, split, measure), row in rows.items():
            if measure == "scrolls_predictions":
                official = rows.get((task, split, "scrolls_score"))
                model = path.parent.name.removesuffix(f"_seed{row.seed}").removesuffix(f"_{task}")
                scores.append(Scored(
                    folder=path.parent, model=model, task=task, split=split, seed=row.seed or 0,
                    score=official.value if official else None,
                    is_part=(task, split, "scrolls_examples") in rows,
                ))  # fmt: skip
    return scores


def over_seeds(scores: Iterable[Scored]) -> list[ScoredModel]:
    """Group the scores by model, over its seeds; unscored predictions are left out."""
    grouped: dict[tuple[str, str], dict[str, dict[int, float]]] = {}
    for scored in scores:
        if scored.score is not None:
            tasks = grouped.setdefault((scored.model, scored.split), {})
            if scored.seed in tasks.get(scored.task, {}):  # of another folder with this name
                tasks = grouped.setdefault((scored.folder.name, scored.split), {})
            tasks.setdefault(scored.task, {})[scored.seed] = scored.score
    models = []
    for (name, split), tasks in sorted(grouped.items()):
        spreads = {task: Spread.of(seeds) for task, seeds in tasks.items()}
        means = benchmark_means({task: spread.mean for task, spread in spreads.items()})
        models.append(ScoredModel(name=name, split=split, tasks=spreads, means=means))
    return models


def table(models: Sequence[ScoredModel]) -> str:
    """Return a text with a line for each model and task."""
    titles = [f"{model.name} {model.split}" for model in models]
    width = max(map(len, titles), default=0)
    lines = []
    for title, model in zip(titles, models, strict=True):
        means = {name: value for name, value in model.means.items() if value is not None}
        values = {task: str(spread) for task, spread in model.tasks.items()}
        values |= {name.replace("_", " "): f"{value:.2f}" for name, value in means.items()}
        lines += [f"{title:<{width}}  {name:<16}  {value}" for name, value in values.items()]
    return "\n".join(lines)


def as_json(models: Sequence[ScoredModel]) -> str:
    return json.dumps({"format": FORMAT, "models": [asdict(m) for m in models]}, indent=1) + "\n"


def _words(text: str) -> int:
    return len(text.split())
