"""How long predictions are beside their references, how many are empty, what truncation left out.

Lengths are in characters and in words (by white space); tokens depend on a tokenizer and are told
by who has one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from train.tasks.scrolls.encoding import Counts

_PERCENTILES = (10, 50, 90)


def prediction_statistics(
    predictions: Mapping[str, str],
    references: Mapping[str, Sequence[str]],
    *,
    truncated: Counts | None = None,
    tokens: Mapping[str, int] | None = None,
) -> dict[str, Any]:
    """Lengths of predictions and of the references of the same ids, as JSON-able values.

    truncated: what was cut of prompts and references. tokens: length of each prediction in tokens.
    """
    texts = [*predictions.values()]
    right = [one for id in predictions for one in references.get(id, ())]
    found: dict[str, Any] = {
        "predictions": {"count": len(texts), **_lengths(texts)},
        "references": {"count": len(right), **_lengths(right)},
        "empty": sum(not text.strip() for text in texts) / len(texts) if texts else 0.0,
    }
    if tokens is not None:
        found["predictions"]["tokens"] = _summary([tokens[id] for id in predictions])
    if truncated is not None:
        found["truncated"] = asdict(truncated)
    return found


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
