"""Statistics of a source: lengths of segments, what cut it, and a sample.

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

from segmenters.align import SEGMENT
from segmenters.base import Cuts, Segmenter, shares_of
from segmenters.show import Distribution
from train.disk.manifest import SPLITS

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
        self.documents = [0] * len(DOCUMENT_EDGES)
        self.lengths: list[Counter[int]] = [Counter() for _ in DOCUMENT_EDGES]

    def add(
        self, marks: npt.NDArray[np.uint8], ends: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.int64]:
        """Count documents, which end in `marks` at `ends`; return the segments of each."""
        starts = np.flatnonzero(marks & SEGMENT)
        document_of = np.searchsorted(ends, starts, side="right")
        lengths = np.diff(starts, append=len(marks))
        buckets = np.searchsorted(DOCUMENT_EDGES, np.diff(ends, prepend=0), side="right") - 1
        bucket_of = buckets[document_of]
        for bucket in np.unique(buckets).tolist():
            self.documents[bucket] += int(np.count_nonzero(buckets == bucket))
            tally(self.lengths[bucket], lengths[bucket_of == bucket])
        return np.bincount(document_of, minlength=len(ends))

    def state(self) -> list[Any]:
        return [[documents, sorted(lengths.items())] for documents, lengths in self._buckets()]

    def merge(self, state: list[Any]) -> None:
        for bucket, (documents, lengths) in enumerate(state):
            self.documents[bucket] += documents
            self.lengths[bucket].update(dict(lengths))

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
        overall = _distribution(sum(self.lengths, Counter()))
        return {"tokens_per_segment": overall, "by_document_length": buckets}

    def _buckets(self) -> Iterator[tuple[int, Counter[int]]]:
        return zip(self.documents, self.lengths, strict=True)


def tally(counter: Counter[int], values: npt.NDArray[Any]) -> None:
    distinct, times = np.unique(values, return_counts=True)
    counter.update(dict(zip(distinct.tolist(), times.tolist(), strict=True)))


class Shares:
    """Documents and characters by what cut them; a document may count for several."""

    def __init__(self) -> None:
        self.counts: dict[str, list[int]] = {}

    def add(self, segmenter: Segmenter, rules: Mapping[str, int], size: int) -> None:
        """Count a text of this size that a segmenter cut, some of it by rules that it `tally`s."""
        if rules:
            for name, characters in shares_of(segmenter, rules, size).items():
                self.put(name, 1, characters)
        elif size:  # as most texts
            self.put(type(segmenter).__name__, 1, size)

    def merge(self, state: Mapping[str, Sequence[int]]) -> None:
        for name, (documents, size) in state.items():
            self.put(name, documents, size)

    def put(self, name: str, documents: int, size: int) -> None:
        if (counts := self.counts.get(name)) is None:
            counts = self.counts[name] = [0, 0]
        counts[0] += documents
        counts[1] += size

    def table(self) -> dict[str, dict[str, int]]:
        ordered = sorted(self.counts.items(), key=lambda item: (-item[1][1], item[0]))
        return {name: {"documents": n, "characters": size} for name, (n, size) in ordered}


class Sample:
    """A passage of one document with its cuts, from the test split if that has any."""

    def __init__(self) -> None:
        # Its rank; and document, split, text and cuts (in characters), empty for none.
        self.best: tuple[int, dict[str, Any]] = (-1, {})

    def offer(self, text: str, cuts: Cuts, *, id: str, split: str) -> None:
        rank = 2 * SPLITS.index(split) + (len(text) >= SAMPLE_CHARACTERS)
        if rank <= self.best[0]:
            return
        # A quarter into the document there is text rather than a title page or a licence.
        first = int(np.searchsorted(cuts, len(text) // 4 if len(text) > SAMPLE_CHARACTERS else 0))
        start = int(cuts[min(first, len(cuts) - 2)])  # the last segment may be longer than the rest
        last = int(np.searchsorted(cuts, min(start + SAMPLE_CHARACTERS, len(text))))
        stop = min(int(cuts[last]), start + 2 * SAMPLE_CHARACTERS)
        inside = cuts[(cuts >= start) & (cuts < stop)] - start
        cut = [*inside.tolist(), stop - start]
        sample = {"document": id, "split": split, "text": text[start:stop], "cuts": cut}
        self.best = (rank, sample)

    def merge(self, best: tuple[int, dict[str, Any]]) -> None:
        if best[0] > self.best[0]:
            self.best = best


def _distribution(lengths: Counter[int]) -> dict[str, Any]:
    if not lengths:
        return {}
    distribution = Distribution.of(lengths)
    percentiles = zip(map(str, PERCENTILES), distribution.percentiles(PERCENTILES), strict=True)
    return {
        "segments": distribution.count,
        "mean": distribution.total / distribution.count,
        "percentiles": dict(percentiles),
        "max": max(lengths),
        "share_of_length_1": distribution.share_of(1),
        "clipped": {str(size): distribution.share_beyond(size) for size in TABLE_SIZES},
        "histogram": distribution.histogram(SEGMENT_EDGES),
    }
