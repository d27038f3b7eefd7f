"""Metrics of SCROLLS: ROUGE, token F1 and exact match, each that of the best reference.

Numbers and names are those of the official scorer (Shaham et al., 2022, arXiv 2201.03533): percent,
rounded to four places.
"""

import math
import re
import string
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import fmean
from typing import Any

from train.errors import require_package
from train.tasks.scrolls.examples import Metric

ROUGE_TYPES = ("rouge1", "rouge2", "rougeL")
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_PLACES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """One task's score in percent. values: by the official names."""

    values: Mapping[str, float]
    score: float


def score(
    predictions: Mapping[str, str], references: Mapping[str, Sequence[str]], *, metric: Metric
) -> Score:
    """Score the predictions that have references, one or more each; both are by id."""
    pairs = [(predictions[id], references[id]) for id in references]
    if metric == "rouge":
        means = rouge_means([rouge(*pair) for pair in pairs])
        values = {f"rouge/{kind}": _percent(mean) for kind, mean in means.items()}
        return Score(values=values, score=values["rouge/geometric_mean"])
    rate = {"f1": f1, "exact_match": exact_match}[metric]
    best = _percent(fmean(rate(*pair) for pair in pairs))
    return Score(values={metric: best}, score=best)


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


def _percent(share: float) -> float:
    return round(100 * share, _PLACES)


def _f1(predicted: Counter[str], right: Counter[str]) -> float:
    shared = (predicted & right).total()
    if not shared:
        return 0.0
    precision, recall = shared / predicted.total(), shared / right.total()
    return 2 * precision * recall / (precision + recall)


@cache
def _scorer() -> Any:
    require_package("rouge_score", extra="scrolls", needed_by="ROUGE")
    from rouge_score.rouge_scorer import RougeScorer

    return RougeScorer(list(ROUGE_TYPES), use_stemmer=False)
