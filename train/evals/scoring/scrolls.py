"""Scores of SCROLLS, of a task and of the benchmark (Shaham et al., 2022, arXiv 2201.03533).

Numbers and names are those of the official scorer: percent, rounded to four places; the score of a
benchmark is the mean of the seven rounded scores. QuALITY scatters around chance at small sizes and
moves that mean by itself, so that a mean without it is told as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from train.errors import DataError
from train.evals.scoring.answers import exact_match, f1
from train.evals.scoring.rouge import aggregated, rouge
from train.tasks.scrolls.archives import TASKS
from train.tasks.scrolls.examples import Metric

UNSTEADY = "quality"
_PLACES = 4
_SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """The score of one task, in percent.

    values: by the names of the official scorer. score: the one that counts in the benchmark.
    characters: mean length of the predictions.
    """

    values: Mapping[str, float]
    score: float
    predicted: int
    characters: float


def score(
    predictions: Mapping[str, str],
    references: Mapping[str, Sequence[str]],
    *,
    metric: Metric,
    transliterate: bool = False,
) -> Score:
    """Score predictions by id against the references by id.

    Raises DataError if an id has no prediction or no reference, or a prediction is no text.
    """
    _agree(predictions, references)
    pairs = [(predictions[id], references[id]) for id in references]
    if metric == "rouge":
        means = aggregated([rouge(*pair) for pair in pairs])
        values = {f"rouge/{kind}": _percent(mean) for kind, mean in means.items()}
        best = values["rouge/geometric_mean"]
    else:
        one = {"f1": f1, "exact_match": exact_match}[metric]
        best = _percent(fmean(one(*pair, transliterate=transliterate) for pair in pairs))
        values = {metric: best}
    return Score(
        values=values,
        score=best,
        predicted=len(pairs),
        characters=round(fmean(len(prediction) for prediction, _ in pairs), _PLACES),
    )


def means(scores: Mapping[str, float]) -> dict[str, float | None]:
    """The benchmark's mean and the one without QuALITY, by the scores of tasks.

    None for a mean that lacks a task. Raises DataError for a task that is none of the seven.
    """
    strange = sorted({*scores} - {*TASKS})
    if strange:
        raise DataError(f"scores of SCROLLS are of {', '.join(TASKS)}, were of: {strange}")
    steady = [task for task in TASKS if task != UNSTEADY]
    return {"mean": _mean(scores, [*TASKS]), "mean_without_quality": _mean(scores, steady)}


def _mean(scores: Mapping[str, float], tasks: Sequence[str]) -> float | None:
    return fmean(scores[task] for task in tasks) if {*tasks} <= {*scores} else None


def _percent(share: float) -> float:
    return round(100 * share, _PLACES)


def _agree(predictions: Mapping[str, str], references: Mapping[str, Sequence[str]]) -> None:
    """Raise DataError unless both have the same ids, with a text and something to compare it to."""
    faults = [
        ("no prediction", [id for id in references if id not in predictions]),
        ("a prediction but no reference", [id for id in predictions if id not in references]),
        (
            "a prediction that is no text",
            [id for id, p in predictions.items() if type(p) is not str],
        ),
        ("an empty list of references", [id for id, found in references.items() if not found]),
    ]
    told = [f"{_named(ids)} {rule}" for rule, ids in faults if ids]
    if not references:
        told.append("there is nothing to score")
    if told:
        raise DataError(f"predictions cannot be scored: {'; '.join(told)}")


def _named(ids: Sequence[str]) -> str:
    more = f" and {len(ids) - _SHOWN} more" if len(ids) > _SHOWN else ""
    shown = ", ".join(repr(id) for id in ids[:_SHOWN])
    return f"{shown}{more} {'has' if len(ids) == 1 else 'have'}"
