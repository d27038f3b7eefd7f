"""How long a sweep will still take: cells of one length take about the same time."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence


class Clock:
    """lengths: those of all cells that are to be measured, in tokens."""

    def __init__(self, *, lengths: Sequence[int]) -> None:
        self._left, self._total = Counter(lengths), len(lengths)
        self._took: dict[int, list[float]] = defaultdict(list)

    def done(self, length: int, seconds: float) -> float:
        """Note a cell that took so long; the seconds that the others will.

        A length of which none is done yet takes as long as a cell of any other.
        """
        self._left[length] -= 1
        self._took[length].append(seconds)
        means = {one: sum(took) / len(took) for one, took in self._took.items()}
        typical = sum(means.values()) / len(means)
        return sum(count * means.get(one, typical) for one, count in self._left.items())

    def __str__(self) -> str:
        done = self._total - sum(self._left.values())
        return f"{done} of {self._total}"
