"""ROUGE-1, -2 and -L of summaries (Lin, 2004), as SCROLLS scores them.

No stemmer; of several references the best counts, for each type on its own; the mean over examples
of each type; and of the three means the geometric mean:

    score = (mean rouge1 * mean rouge2 * mean rougeL) ^ (1/3)

The package rouge_score counts, of which texts keep only [a-z0-9] after lower-casing: a text in
another script scores 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from statistics import fmean
from typing import Any

from train.errors import MissingPackage

TYPES = ("rouge1", "rouge2", "rougeL")


def rouge(prediction: str, references: Sequence[str]) -> dict[str, float]:
    """The F-measure of each type, 0 to 1, of the best reference for it."""
    scores = [_scorer().score(reference, prediction) for reference in references]
    return {kind: max(score[kind].fmeasure for score in scores) for kind in TYPES}


def aggregated(scores: Sequence[dict[str, float]]) -> dict[str, float]:
    """The means of all examples by type, and their geometric mean."""
    means = {kind: fmean(score[kind] for score in scores) for kind in TYPES}
    return {**means, "geometric_mean": math.prod(means.values()) ** (1 / len(TYPES))}


@cache
def _scorer() -> Any:
    try:
        from rouge_score.rouge_scorer import RougeScorer
    except ImportError as fault:
        raise MissingPackage("ROUGE needs rouge_score: pip install bipe[scrolls]") from fault
    return RougeScorer(list(TYPES), use_stemmer=False)
