"""The interval of Wilson (1927) around a share: sound for few trials, and at 0 and 1."""

from __future__ import annotations

import math

_Z = 1.959963984540054  # 95% of a normal distribution lie within


def wilson(right: int, total: int) -> tuple[float, float]:
    """The 95% interval of the chance behind `right` successes of `total` trials."""
    if not 0 <= right <= total or not total:
        raise ValueError(f"right must be from 0 to total, at least 1, were: {right} of {total}")
    share, weight = right / total, _Z * _Z / total
    centre = (share + weight / 2) / (1 + weight)
    half = math.sqrt(weight * share * (1 - share) + weight * weight / 4) / (1 + weight)
    low = 0.0 if right == 0 else centre - half
    return low, 1.0 if right == total else centre + half
