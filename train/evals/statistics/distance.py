"""How far distributions of segment lengths are apart: the Jensen-Shannon distance.

    JS(p, q)^2 = (KL(p | m) + KL(q | m)) / 2,  m = (p + q) / 2,  base 2: from 0 (alike) to 1

(Endres and Schindelin, 2003). Few segments are far from each other by chance alone; `by_chance`
says how far, so that a distance can be read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

_DRAWS = 20


def js_distance(p: np.ndarray, q: np.ndarray) -> float:
    """Of two histograms over the same lengths, from 0 to 1."""
    p, q = p / p.sum(), q / q.sum()
    middle = (p + q) / 2
    return float(max(0.0, (_divergence(p, middle) + _divergence(q, middle)) / 2) ** 0.5)


def _divergence(p: np.ndarray, q: np.ndarray) -> float:
    held = p > 0
    return float((p[held] * np.log2(p[held] / q[held])).sum())


def by_chance(p: np.ndarray, q: np.ndarray, *, seed: int = 0) -> float:
    """The mean distance of two samples of these sizes from the two together.

    Segments are drawn one by one, as if those of a document had nothing to do with each other.
    """
    generator = np.random.Generator(np.random.PCG64(seed))
    pooled = (p + q) / (p + q).sum()
    drawn = [
        js_distance(*(generator.multinomial(int(each.sum()), pooled) for each in (p, q)))
        for _ in range(_DRAWS)
    ]
    return float(np.mean(drawn))


def histograms(counts: Sequence[Counter[int]]) -> np.ndarray:
    """Counts of each length that any of them has, ``(distribution, length)``."""
    lengths = sorted(set().union(*counts))
    return np.array([[each[length] for length in lengths] for each in counts], dtype=np.int64)
