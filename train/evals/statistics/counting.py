"""Segments of prepared data, counted from their marks: no text, no model, one pass.

Tokens are read in pieces of a mapped file, so that memory grows with the documents (two integers
each) and with the distinct lengths of segments, not with the tokens.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from train.data.preparing.statistics import DOCUMENT_EDGES
from train.data.store.shards import DataSet

PIECE = 1 << 22  # tokens
_BITS = 40  # of a length, in a key that holds the bin of the document above it


@dataclass(slots=True)
class Counted:
    """tokens, segments: int64 [documents]. lengths: for each bin, how often each length came.

    Lengths are in tokens, the end-of-document token included; bins are those of DOCUMENT_EDGES.
    """

    tokens: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    segments: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    lengths: list[Counter[int]] = field(default_factory=lambda: [Counter() for _ in DOCUMENT_EDGES])

    @property
    def bins(self) -> np.ndarray:
        """The bin of each document."""
        return np.searchsorted(DOCUMENT_EDGES, self.tokens, side="right") - 1

    def add(self, data: DataSet, *, piece: int = PIECE) -> None:
        """Count all documents of a split."""
        if not len(data.tokens):
            return
        ends = np.asarray(data.document_ends)
        tokens = np.diff(ends, prepend=0)
        own = np.searchsorted(DOCUMENT_EDGES, tokens, side="right") - 1
        segments = np.zeros(len(ends), np.int64)
        found: Counter[int] = Counter()
        for starts, lengths in _segments(data, piece):
            documents = np.searchsorted(ends, starts, side="right")
            first = int(documents[0])
            counts = np.bincount(documents - first)
            segments[first : first + len(counts)] += counts
            keys, times = np.unique(own[documents] << _BITS | lengths, return_counts=True)
            found.update(dict(zip(keys.tolist(), times.tolist(), strict=True)))
        for key, number in found.items():
            self.lengths[key >> _BITS][key & (1 << _BITS) - 1] += number
        there = tokens > 0
        self.tokens = np.concatenate([self.tokens, tokens[there]])
        self.segments = np.concatenate([self.segments, segments[there]])

    def state(self) -> list[Any]:
        """For each bin its documents and lengths, as `train.data.preparing.statistics.Lengths`."""
        documents = np.bincount(self.bins, minlength=len(DOCUMENT_EDGES)).tolist()
        return [
            [number, sorted(lengths.items())]
            for number, lengths in zip(documents, self.lengths, strict=True)
        ]


def _segments(data: DataSet, piece: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Places and lengths of segments, some at a time; one that goes on waits for its end."""
    total, opened = len(data.tokens), 0
    for begin in range(0, total, piece):
        stop = min(begin + piece, total)
        starts = np.flatnonzero(data.marks(begin, stop) & 3) + begin
        starts = np.append(opened, starts[starts > opened])
        opened = int(starts[-1])
        if len(starts) > 1:
            yield starts[:-1], np.diff(starts)
    yield np.array([opened]), np.array([total - opened])
