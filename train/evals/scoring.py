"""Scores of SCROLLS: of one output, of a run on a task, and over tasks and seeds.

ROUGE, token F1 and exact match are each those of the best reference.

    RUN/evaluation.jsonl    scores, lengths and counts as rows

Numbers and names are those of the official scorer (Shaham et al., 2022, arXiv 2201.03533): percent,
rounded to four places; the benchmark's score is the mean of the seven. QuALITY scatters around
chance at small sizes and moves that mean, so a mean without it is reported as well.
"""

from __future__ import annotations

import json
import math
import re
import string
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache, cached_property
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np

from segmenters.wording import counted
from train.errors import require_package
from train.evals.rows import FILE, Journal, Row
from train.tasks.scrolls.archives import TASKS
from train.tasks.scrolls.encoding import Counts
from train.tasks.scrolls.examples import Metric

FORMAT = "bipe-scrolls/1"
UNSTEADY = "quality"
_PLACES = 4
_PERCENTILES = (10, 50, 90)


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """One task's score in percent. values: by the official names."""

    values: Mapping[str, float]
    score: float


def score(
    predictions: Mapping[str, str], references: Mapping[str, Sequence[str]], *, metric: Metric
) -> Score:
    """Score predictions against references, both by id, which must be the same."""
    pairs = [(predictions[id], references[id]) for id in references]
    if metric == "rouge":
        means = rouge_means([rouge(*pair) for pair in pairs])
        values = {f"rouge/{kind}": _percent(mean) for kind, mean in means.items()}
        return Score(values=values, score=values["rouge/geometric_mean"])
    rate = {"f1": f1, "exact_match": exact_match}[metric]
    best = _percent(fmean(rate(*pair) for pair in pairs))
    return Score(values={metric: best}, score=best)


def benchmark_means(scores: Mapping[str, float]) -> dict[str, float | None]:
    """Return the mean over the tasks of the benchmark, and the mean without QuALITY.

    A mean that lacks a task is None.
    """
    wanted = {"mean": [*TASKS], "mean_without_quality": [t for t in TASKS if t != UNSTEADY]}
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
        """Return whether these are of a part of the split only (scrolls.rows)."""
        return len(self.texts) < self.examples

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

    model: the folder's name without task and seed.
    """

    folder: Path
    model: str
    task: str
    split: str
    seed: int
    score: float | None


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
                ))  # fmt: skip
    return scores


def over_seeds(scores: Iterable[Scored]) -> list[ScoredModel]:
    """Group the scores by model, over its seeds; unscored predictions are left out."""
    grouped: dict[tuple[str, str], dict[str, dict[int, float]]] = {}
    for scored in scores:
        if scored.score is not None:
            tasks = grouped.setdefault((scored.model, scored.split), {})
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


def _percent(share: float) -> float:
    return round(100 * share, _PLACES)


ROUGE_TYPES = ("rouge1", "rouge2", "rougeL")
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalized(text: str) -> str:
    """Return an answer as it is compared, by the rules of SQuAD (Rajpurkar et al., 1606.05250)."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact_match(prediction: str, references: Sequence[str]) -> float:
    """Return 1 if the normalised prediction equals a normalised reference, else 0."""
    return float(normalized(prediction) in map(normalized, references))


def f1(prediction: str, references: Sequence[str]) -> float:
    """Return F1 of tokens, 0 to 1; 0 also for two empty answers, which match exactly."""
    words, *right = (
        Counter(normalized(reference).split()) for reference in (prediction, *references)
    )
    return max(_f1(words, reference) for reference in right)


def rouge(prediction: str, references: Sequence[str]) -> dict[str, float]:
    """Return ROUGE-1, -2 and -L (Lin, 2004): F-measures, 0 to 1, each of its best reference.

    No stemmer. rouge_score keeps only [a-z0-9] of a lower-cased text: other scripts score 0.
    """
    scores = [_scorer().score(reference, prediction) for reference in references]
    return {kind: max(score[kind].fmeasure for score in scores) for kind in ROUGE_TYPES}


def rouge_means(scores: Sequence[dict[str, float]]) -> dict[str, float]:
    """Return the mean of each type over examples, and the geometric mean of the three means."""
    means = {kind: fmean(score[kind] for score in scores) for kind in ROUGE_TYPES}
    return {**means, "geometric_mean": math.prod(means.values()) ** (1 / len(ROUGE_TYPES))}


def _f1(found: Counter[str], right: Counter[str]) -> float:
    shared = (found & right).total()
    if not shared:
        return 0.0
    precision, recall = shared / found.total(), shared / right.total()
    return 2 * precision * recall / (precision + recall)


@cache
def _scorer() -> Any:
    require_package("rouge_score", extra="scrolls", needed_by="ROUGE")
    from rouge_score.rouge_scorer import RougeScorer

    return RougeScorer(list(ROUGE_TYPES), use_stemmer=False)
