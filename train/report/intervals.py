"""Intervals over the seeds of a run."""

from collections.abc import Callable

from train.evals.intervals import Interval, half_width, interval
from train.report.records import Run

__all__ = ["Interval", "half_width", "interval", "over_seeds"]


def over_seeds(
    run: Run, read: Callable[[Run], float | None], *, share: bool = False
) -> Interval | None:
    """The interval of what is read of each seed of a run; None unless all seeds have it."""
    values = [read(member) for member in run.members]
    known = [value for value in values if value is not None]
    return interval(known, share=share) if len(known) == len(values) else None
