"""Lengths of segments, and whether they depend on the document: figure 1 of the BiPE paper.

He et al. (arXiv 2401.16421) found the same distribution of tokens per sentence at each document
length, which is why counting segments extrapolates. Lengths are in tokens, with the end of the
document, over all splits.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from segmenters.base import Cuts
from segmenters.show import Distribution

# Left edges of the bins; the last one is open to the right.
SEGMENT_EDGES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 1024)
DOCUMENT_EDGES = (1, *(2**power for power in range(8, 21)))
PERCENTILES = (1, 5, 25, 50, 75, 95, 99)
# Sizes of a table of learned intra positions: which share of tokens lies beyond its end?
TABLE_SIZES = (32, 64, 128, 256, 512, 1024, 2048)
SAMPLE_CHARACTERS = 1200


class Lengths:
    """Counts of segment lengths (tokens) by document length; memory grows with distinct lengths."""

    def __init__(self) -> None:
        self._documents = [0] * len(DOCUMENT_EDGES)
        self._lengths: list[Counter[int]] = [Counter() for _ in DOCUMENT_EDGES]

    def add(self, marks: npt.NDArray[np.uint8]) -> None:
        starts = np.flatnonzero(marks & np.uint8(2))
        lengths, times = np.unique(np.diff(starts, append=len(marks)), return_counts=True)
        bucket = int(np.searchsorted(DOCUMENT_EDGES, len(marks), side="right")) - 1
        self._documents[bucket] += 1
        self._lengths[bucket].update(dict(zip(lengths.tolist(), times.tolist(), strict=True)))

    def state(self) -> list[Any]:
        return [[documents, sorted(lengths.items())] for documents, lengths in self._buckets()]

    def merge(self, state: list[Any]) -> None:
        for bucket, (documents, lengths) in enumerate(state):
            self._documents[bucket] += documents
            self._lengths[bucket].update(dict(lengths))

    def summary(self) -> dict[str, Any]:
        bounds = pairwise([*DOCUMENT_EDGES, None])
        buckets = [
            {
                "from": edge,
                "to": above,
                "documents": documents,
                "segments_per_document": lengths.total() / documents,
                **_distribution(lengths),
            }
            for (edge, above), (documents, lengths) in zip(bounds, self._buckets(), strict=True)
            if documents
        ]
        overall = _distribution(sum(self._lengths, Counter()))
        return {"tokens_per_segment": overall, "by_document_length": buckets}

    def _buckets(self) -> Iterator[tuple[int, Counter[int]]]:
        return zip(self._documents, self._lengths, strict=True)


class Shares:
    """Documents and characters by what cut them; a document may count for several."""

    def __init__(self) -> None:
        self.counts: dict[str, list[int]] = {}

    def add(self, characters: Mapping[str, int]) -> None:
        self.merge({name: [1, size] for name, size in characters.items()})

    def merge(self, state: Mapping[str, Sequence[int]]) -> None:
        for name, (documents, size) in state.items():
            counts = self.counts.setdefault(name, [0, 0])
            counts[0] += documents
            counts[1] += size

    def table(self) -> dict[str, dict[str, int]]:
        ordered = sorted(self.counts.items(), key=lambda item: (-item[1][1], item[0]))
        return {name: {"documents": n, "characters": size} for name, (n, size) in ordered}


class Sample:
    """A passage of one document with its cuts, from the test split if that has any."""

    _ORDER = ("train", "validation", "test")

    def __init__(self) -> None:
        # Its rank; and document, split, text and cuts (in characters), empty for none.
        self.best: tuple[int, dict[str, Any]] = (-1, {})

    def offer(self, text: str, cuts: Cuts, *, id: str, split: str) -> None:
        rank = 2 * self._ORDER.index(split) + (len(text) >= SAMPLE_CHARACTERS)
        if rank <= self.best[0]:
            return
        # A quarter into the document there is text rather than a title page or a licence.
        first = int(np.searchsorted(cuts, len(text) // 4 if len(text) > SAMPLE_CHARACTERS else 0))
        start = int(cuts[first])
        last = int(np.searchsorted(cuts, min(start + SAMPLE_CHARACTERS, len(text))))
        stop = min(int(cuts[last]), start + 2 * SAMPLE_CHARACTERS)
        inside = cuts[(cuts >= start) & (cuts < stop)] - start
        cut = [*inside.tolist(), stop - start]
        found = {"document": id, "split": split, "text": text[start:stop], "cuts": cut}
        self.best = (rank, found)

    def merge(self, best: tuple[int, dict[str, Any]]) -> None:
        if best[0] > self.best[0]:
            self.best = best


def _distribution(lengths: Counter[int]) -> dict[str, Any]:
    if not lengths:
        return {}
    found = Distribution.of(lengths)
    percentiles = zip(map(str, PERCENTILES), found.percentiles(PERCENTILES), strict=True)
    return {
        "segments": found.count,
        "mean": found.total / found.count,
        "percentiles": dict(percentiles),
        "max": max(lengths),
        "share_of_length_1": found.share_of(1),
        "clipped": {str(size): found.share_beyond(size) for size in TABLE_SIZES},
        "histogram": found.histogram(SEGMENT_EDGES),
    }
