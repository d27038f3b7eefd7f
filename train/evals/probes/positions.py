"""Loss against the place of a token: in its document, among the segments, inside its segment.

A model that uses what it read long ago keeps falling along the first two; the third says what the
start of a segment costs, where only the inter level tells tokens apart.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from bipe import Decoder, Positions
from train.evals.probes.copied import losses_through
from train.evals.probes.draw import Draw
from train.evals.probes.haystack import Haystack
from train.evals.probes.rank import CHUNK
from train.evals.probes.text import Texts

LEVELS = ("token", "inter", "intra")
TASK = "Loss of held-out text, by the place of a token in the document, of its segment, and in it."


def positions(
    model: Decoder,
    hay: Haystack,
    texts: Texts,
    *,
    length: int,
    trials: int,
    draw: Callable[[int], Draw],
    rows: int,
    chunk: int = CHUNK,
) -> dict[str, Any]:
    """Mean loss in nats in octaves of each id: edges, nll and tokens of each level.

    trials: texts of `length` tokens; rows: how many are read at once.
    """
    taken = [hay.take(draw(number), length)[0] for number in range(trials)]
    sums = {level: np.zeros(64) for level in LEVELS}
    counts = {level: np.zeros(64, np.int64) for level in LEVELS}
    for start in range(0, trials, rows):
        ids = np.stack(taken[start : start + rows])
        tokens = torch.from_numpy(ids)
        marks = torch.from_numpy(np.stack([texts.marks(row) for row in ids]) & 0xFE)
        losses, _ = losses_through(model, tokens, marks, chunk=chunk)
        at = Positions.from_marks(marks, packed=False)
        for level in LEVELS:
            # 0 | 1 | 2 3 | 4 .. 7 | ...: the first token of a text is not scored
            bins = np.frexp(getattr(at, level).numpy()[:, 1:])[1].ravel()
            sums[level] += np.bincount(bins, losses[:, 1:].ravel(), 64)
            counts[level] += np.bincount(bins, minlength=64)
    return {level: _curve(sums[level], counts[level]) for level in LEVELS}


def _curve(sums: np.ndarray, counts: np.ndarray) -> dict[str, Any]:
    last = int(np.flatnonzero(counts)[-1])
    edges = [0, *(2**power for power in range(last + 1))]
    means = (float(s / n) if n else None for s, n in zip(sums, counts, strict=True))
    return {
        "edges": edges,
        "nll": list(itertools.islice(means, last + 1)),
        "tokens": counts[: last + 1].tolist(),
    }
