"""The numbers of SCROLLS: of one run on one task, and over tasks and seeds.

    RUN/scrolls/SPLIT/scores.json    the scores, and how the outputs were made
    RUN/evaluation.jsonl             the same as rows, for the report

Numbers and names are those of the official scorer (Shaham et al., 2022, arXiv 2201.03533): percent,
rounded to four places; the benchmark's score is the mean of the seven. QuALITY scatters around
chance at small sizes and moves that mean, so a mean without it is reported as well.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np

from segmenters.wording import counted
from train.errors import DataError
from train.evals.rows import Row
from train.evals.scoring.metrics import exact_match, f1, rouge, rouge_means
from train.fit import runs
from train.tasks.scrolls.archives import TASKS
from train.tasks.scrolls.encoding import Counts
from train.tasks.scrolls.examples import Metric

SCORES = "scores.json"
FORMAT = "bipe-scrolls/1"
UNSTEADY = "quality"
_PLACES = 4
_PERCENTILES = (10, 50, 90)
_REPORTED = ("mean", "p10", "p50", "p90", "most")


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
    one = {"f1": f1, "exact_match": exact_match}[metric]
    best = _percent(fmean(one(*pair) for pair in pairs))
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


def prediction_statistics(
    predictions: Mapping[str, str],
    references: Mapping[str, Sequence[str]],
    *,
    truncated: Counts,
    tokens: Mapping[str, int],
) -> dict[str, Any]:
    """Return the lengths of predictions and references, in characters, words and tokens."""
    texts = [*predictions.values()]
    right = [one for id in predictions for one in references.get(id, ())]
    in_tokens = _summary([tokens[id] for id in predictions])
    return {
        "predictions": {"count": len(texts), **_lengths(texts), "tokens": in_tokens},
        "references": {"count": len(right), **_lengths(right)},
        "empty": sum(not text.strip() for text in texts) / len(texts) if texts else 0.0,
        "truncated": asdict(truncated),
    }


def is_part(scores: Mapping[str, Any]) -> bool:
    """Return whether a `scores.json` is of a part of its split only (scrolls.rows)."""
    made = int(scores["statistics"]["predictions"]["count"])
    return made < int(scores.get("examples", made))


def rows_of(scores: Mapping[str, Any]) -> Iterator[Row]:
    """Yield the contents of `scores.json` as rows; their source is the split."""
    at: dict[str, Any] = {"source": str(scores["split"]), "task": str(scores["task"])}

    def row(name: str, value: float, unit: str, note: str = "") -> Row:
        return Row(measure=f"scrolls_{name}", value=value, unit=unit, note=note, **at)

    made, right = scores["statistics"]["predictions"], scores["statistics"]["references"]
    if scores["score"] is not None:
        name = "part_score" if is_part(scores) else "score"
        yield row(name, scores["score"], "percent", scores["metric"])
    if is_part(scores):
        yield row("examples", scores["examples"], "examples")
    for name, value in scores["values"].items():
        yield row(name, value, "percent")
    yield row("predictions", made["count"], "predictions")
    yield row("empty", scores["statistics"]["empty"], "share")
    for kind, number in scores["ended"].items():
        yield row(f"ended_by_{kind}", number, "predictions")
    for of, unit, lengths in (
        ("prediction", "words", made["words"]),
        ("prediction", "tokens", made["tokens"]),
        ("reference", "words", right["words"]),
    ):
        for rank in _REPORTED if lengths else ():
            yield row(f"{of}_{unit}_{rank}", lengths[rank], unit)
    for name, number in scores["statistics"]["truncated"].items():
        if name != "examples":
            yield row(name, number, "tokens" if "tokens" in name else "examples")


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


def find_scores(out: Path) -> list[dict[str, Any]]:
    """Read the scores of the runs in a folder; DataError for a broken file."""
    found = []
    for path in sorted(out.glob(f"*/{runs.SCROLLS}/*/{SCORES}")):
        try:
            one = json.loads(path.read_text(encoding="utf-8"))
            if one["format"] != FORMAT:
                raise ValueError(f"its format is {one['format']}, not {FORMAT}")
        except (ValueError, KeyError, TypeError, RecursionError) as fault:
            raise DataError(f"{path}: not scores of bipe scrolls: {fault}") from None
        found.append(one)
    return found


def over_seeds(scores: Iterable[Mapping[str, Any]]) -> list[ScoredModel]:
    """Group the scores by model, over its seeds; unscored predictions are left out."""
    grouped: dict[tuple[str, str], dict[str, dict[int, float]]] = {}
    for one in scores:
        if one["score"] is not None and not is_part(one):
            tasks = grouped.setdefault((one["model"], one["split"]), {})
            tasks.setdefault(one["task"], {})[int(one["seed"])] = float(one["score"])
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
        told = {task: str(spread) for task, spread in model.tasks.items()}
        told |= {name.replace("_", " "): f"{value:.2f}" for name, value in means.items()}
        lines += [f"{title:<{width}}  {name:<16}  {value}" for name, value in told.items()]
    return "\n".join(lines)


def as_json(models: Sequence[ScoredModel]) -> str:
    return json.dumps({"format": FORMAT, "models": [asdict(m) for m in models]}, indent=1) + "\n"


def _lengths(texts: Sequence[str]) -> dict[str, Any]:
    return {
        "characters": _summary([len(text) for text in texts]),
        "words": _summary([len(text.split()) for text in texts]),
    }


def _summary(lengths: Sequence[int]) -> dict[str, float] | None:
    if not lengths:
        return None
    shares = np.percentile(lengths, _PERCENTILES)
    return {
        "mean": float(np.mean(lengths)),
        "least": min(lengths),
        **{f"p{share}": float(at) for share, at in zip(_PERCENTILES, shares, strict=True)},
        "most": max(lengths),
    }


def _percent(share: float) -> float:
    return round(100 * share, _PLACES)
