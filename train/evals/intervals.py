"""95% intervals: of a mean over seeds, of a share over trials, and of a loss over documents."""

import math
from collections.abc import Sequence
from statistics import fmean, stdev

import numpy as np

Interval = tuple[float, float]

# 97.5% points of Student's t for 1, 2, 3 ... degrees of freedom; 2.0 is used beyond (2.08 to 1.96).
_T = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
)  # fmt: skip
_Z = 1.959963984540054  # 95% of a normal distribution is within +- this
_LEVEL = 0.95
_RESAMPLES = 1000


def half_width(values: Sequence[float]) -> float:
    """Return half the width of Student's interval of a mean; infinite for a single value."""
    if len(values) < 2:
        return math.inf
    if not all(map(math.isfinite, values)):
        return math.nan
    freedom = len(values) - 1
    return (_T[freedom - 1] if freedom <= len(_T) else 2.0) * stdev(values) / math.sqrt(len(values))


def interval(values: Sequence[float]) -> Interval | None:
    """Return Student's interval of a mean, or None if it is not finite."""
    half = half_width(values)
    return (fmean(values) - half, fmean(values) + half) if math.isfinite(half) else None


def wilson(right: int, total: int) -> Interval:
    """Return Wilson's (1927) interval of a share, sound for few trials; ValueError for none."""
    if not 0 <= right <= total or not total:
        raise ValueError(
            f"right must be from 0 to total, and total at least 1, were: {right} of {total}"
        )
    share, weight = right / total, _Z * _Z / total
    centre = (share + weight / 2) / (1 + weight)
    half = math.sqrt(weight * share * (1 - share) + weight * weight / 4) / (1 + weight)
    low = 0.0 if right == 0 else centre - half
    return low, 1.0 if right == total else centre + half


def over_documents(sums: np.ndarray, tokens: np.ndarray) -> Interval | None:
    """Return the bootstrap interval (Efron, 1979) of the mean loss per token over documents.

    sums, tokens: of each document. None for fewer than two.
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
