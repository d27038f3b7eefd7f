"""The rules of retrieval probes, as RULER has them (Hsieh et al., 2404.06654).

Each reference is looked for inside the prediction, whatever its case. "1234567" is found inside
"12345678".
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from statistics import fmean

_CONTROL = re.compile(r"[\x00-\x1f]")
_PLACES = 2


def postprocessed(prediction: str) -> str:
    """Return the prediction as RULER scores it: control characters are line ends, ends stripped."""
    return _CONTROL.sub("\n", prediction.strip()).strip()


def string_match_all(predictions: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """Percent of references found in their prediction: a mean over examples, to two places."""
    return _percent([fmean(row) for row in _found(predictions, references)])


def string_match_part(predictions: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """Percent of predictions in which some reference is found, to two places."""
    return _percent([max(row) for row in _found(predictions, references)])


def _found(predictions: Sequence[str], references: Sequence[Sequence[str]]) -> list[list[float]]:
    """Of each prediction, 1 for each of its references that is in it, else 0."""
    if not predictions or not all(references):
        raise ValueError("each of at least one prediction must have a reference")
    return [
        [float(one.lower() in prediction.lower()) for one in wanted]
        for prediction, wanted in zip(predictions, references, strict=True)
    ]


def _percent(shares: Sequence[float]) -> float:
    return round(100 * fmean(shares), _PLACES)
