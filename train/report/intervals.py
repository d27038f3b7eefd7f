"""Intervals of means over seeds: Student's t at 95%."""

import math
from collections.abc import Callable, Sequence
from statistics import fmean, stdev

from train.report.records import Run

Interval = tuple[float, float]

# 97.5% points of Student's t for 1, 2, 3 ... degrees of freedom; the normal one lies below all.
_T = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
)  # fmt: skip


def half_width(values: Sequence[float]) -> float:
    """Half the width of the 95% interval of a mean; infinite for a single value."""
    if len(values) < 2:
        return math.inf
    if not all(map(math.isfinite, values)):
        return math.nan
    freedom = len(values) - 1
    return (_T[freedom - 1] if freedom <= len(_T) else 2.0) * stdev(values) / math.sqrt(len(values))


def interval(values: Sequence[float], *, share: bool = False) -> Interval | None:
    """The 95% interval of a mean; None for less than two values or one that is not finite.

    share: the interval ends where shares do, at 0 and 1.
    """
    half = half_width(values)
    if not math.isfinite(half):
        return None
    low, high = fmean(values) - half, fmean(values) + half
    return (max(0.0, low), min(1.0, high)) if share else (low, high)


def over_seeds(
    run: Run, read: Callable[[Run], float | None], *, share: bool = False
) -> Interval | None:
    """The interval of what is read of each seed of a run; None unless all seeds have it."""
    values = [read(member) for member in run.members]
    known = [value for value in values if value is not None]
    return interval(known, share=share) if len(known) == len(values) else None
