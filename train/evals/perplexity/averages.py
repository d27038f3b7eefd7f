"""From losses to perplexity, and how far other documents might have moved it."""

from __future__ import annotations

import math

import numpy as np

_RESAMPLES = 1000
_LEVEL = 0.95
_LARGEST = 700.0  # nats whose exponential a float still holds


def perplexity(nll: float) -> float:
    """exp of a mean loss in nats; infinite where a float cannot hold it."""
    return math.inf if nll >= _LARGEST else math.exp(nll)


def interval(sums: np.ndarray, tokens: np.ndarray) -> tuple[float, float] | None:
    """The mean loss between which 95% of resampled sets of documents lie (Efron, 1979).

    sums, tokens: of the scored tokens of each document. Documents are drawn with replacement, as
    many as there are, always by the same draws; None for fewer than two, which tell nothing of
    others.
    """
    sums, tokens = sums[tokens > 0], tokens[tokens > 0]
    if len(sums) < 2:
        return None
    drawn = np.random.default_rng(0).integers(len(sums), size=(_RESAMPLES, len(sums)))
    means = sums[drawn].sum(1) / tokens[drawn].sum(1)
    if not np.isfinite(means).all():
        return None
    low, high = np.quantile(means, [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2])
    return float(low), float(high)
