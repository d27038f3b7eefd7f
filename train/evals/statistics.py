"""How documents divide into segments: figure 1 of the BiPE paper (2401.16421), and its claims.

Segments are counted from the marks of prepared data, read in pieces: memory grows with the
documents (two integers each) and the distinct lengths of segments, not with the tokens.

    growth       segments against tokens of a document: a line by least squares, and an exponent
    distance     between the segment lengths of short and long documents: Jensen-Shannon,
                 JS(p, q)^2 = (KL(p | m) + KL(q | m)) / 2,  m = (p + q) / 2,  base 2: from 0 to 1
                 (Endres and Schindelin, 2003), next to the distance by chance
    separators   which characters end segments, and how often a segment ends at them
"""

from __future__ import annotations

import itertools
import unicodedata
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from segmenters.align import DOCUMENT, SEGMENT
from train.data.preparing.statistics import DOCUMENT_EDGES, Lengths, tally
from train.data.store.shards import DataSet
from train.evals.texts import spelled

PIECE = 1 << 22  # tokens
_SPELLED_PIECE = 1 << 20  # tokens
_STARTS = DOCUMENT | SEGMENT  # marks at which a segment starts
_DRAWS = 20
_SHOWN = 12  # characters in the summary
_SPACES = np.array([code for code in range(0x3001) if chr(code).isspace()], dtype=np.uint32)


def source_statistics(
    splits: Sequence[DataSet],
    *,
    pieces: Sequence[bytes] | None,
    separator_tokens: int | None,
    least: int,
) -> dict[str, Any]:
    """Return lengths, growth, distances and separators of a source.

    pieces: the bytes of each id; None: no separators. separator_tokens: read for them, per split.
    least: fewest documents of a bin that is compared.
    """
    counted = Counted()
    separators = None if pieces is None else Separators(pieces)
    for data in splits:
        counted.add_split(data)
        if separators is not None:
            separators.add(data, limit=separator_tokens)
    return {
        "documents": len(counted.tokens),
        "tokens": int(counted.tokens.sum()),
        "segments": int(counted.segments.sum()),
        **counted.summary(),
        "growth": growth(counted.tokens, counted.segments) if len(counted.tokens) else None,
        "distance": _distances(counted, least),
        "separators": separators.summary() if separators is not None else None,
    }


def _distances(counted: Counted, least: int) -> dict[str, Any]:
    compared = [index for index, number in enumerate(counted.documents) if number >= least]
    rows = histograms([counted.lengths[index] for index in compared])
    pairs: list[dict[str, Any]] = [
        {
            "bins": [DOCUMENT_EDGES[compared[i]], DOCUMENT_EDGES[compared[j]]],
            "distance": js_distance(rows[i], rows[j]),
            "by_chance": by_chance(rows[i], rows[j]),
        }
        for i, j in itertools.combinations(range(len(compared)), 2)
    ]
    distances = [pair["distance"] for pair in pairs]
    return {
        "least_documents": least,
        "bins": [DOCUMENT_EDGES[index] for index in compared],
        "pairs": pairs,
        "mean": sum(distances) / len(distances) if distances else None,
        "largest": max(distances) if distances else None,
    }


class Counted(Lengths):
    """Lengths also of documents, in tokens, and their segments: int64 [documents] each."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.segments = np.zeros(0, np.int64), np.zeros(0, np.int64)

    def add_split(self, data: DataSet, *, piece: int = PIECE) -> None:
        """Count all documents of a split; piece: tokens read at once (at least a document)."""
        ends, first, begin = np.asarray(data.document_ends), 0, 0
        all_tokens, all_segments = [self.tokens], [self.segments]
        while first < len(ends):
            last = max(first + 1, int(np.searchsorted(ends, begin + piece, side="right")))
            stops = ends[first:last] - begin
            all_tokens.append(np.diff(stops, prepend=0))
            all_segments.append(self.add(data.marks(begin, begin + int(stops[-1])), stops))
            first, begin = last, int(ends[last - 1])
        self.tokens, self.segments = map(np.concatenate, (all_tokens, all_segments))


def growth(tokens: np.ndarray, segments: np.ndarray) -> dict[str, Any]:
    """Fit segments = slope * tokens + intercept, and segments ~ tokens^exponent.

    An exponent of 1 is proportional growth. All are None if all documents have one length, and
    r2 if all have as many segments.
    """
    line = _line(tokens.astype(np.float64), segments.astype(np.float64))
    powers = _line(np.log(tokens), np.log(np.maximum(segments, 1)))
    return {
        "documents": len(tokens),
        "slope": line[0],
        "intercept": line[1],
        "r2": line[2],
        "exponent": powers[0],
    }


def _line(x: np.ndarray, y: np.ndarray) -> tuple[float | None, float | None, float | None]:
    if len(x) < 2 or x.min() == x.max():
        return None, None, None
    dx, dy = x - x.mean(), y - y.mean()
    slope = float((dx * dy).sum() / (dx * dx).sum())
    spread = float((dy * dy).sum())
    left = float(((dy - slope * dx) ** 2).sum())
    r2 = 1 - left / spread if spread else None
    return slope, float(y.mean() - slope * x.mean()), r2


def js_distance(p: np.ndarray, q: np.ndarray) -> float:
    """Return the Jensen-Shannon distance of two histograms over the same lengths, 0 to 1."""
    p, q = p / p.sum(), q / q.sum()
    middle = (p + q) / 2
    return float(max(0.0, (_divergence(p, middle) + _divergence(q, middle)) / 2) ** 0.5)


def _divergence(p: np.ndarray, q: np.ndarray) -> float:
    both = p > 0
    return float((p[both] * np.log2(p[both] / q[both])).sum())


def by_chance(p: np.ndarray, q: np.ndarray) -> float:
    """Return the mean distance of independent samples of these sizes from the pooled histogram."""
    generator = np.random.Generator(np.random.PCG64(0))
    pooled = (p + q) / (p + q).sum()
    drawn = [
        js_distance(*(generator.multinomial(int(row.sum()), pooled) for row in (p, q)))
        for _ in range(_DRAWS)
    ]
    return float(np.mean(drawn))


def histograms(counts: Sequence[Counter[int]]) -> np.ndarray:
    """Return the counts of every length that occurs, ``(distribution, length)``."""
    lengths = sorted(set().union(*counts))
    return np.array([[row[length] for length in lengths] for row in counts], dtype=np.int64)


class Separators:
    """Counts which characters end segments; pieces: the bytes of each id.

    share: of segments, those whose last visible character it is. hit rate: of its occurrences,
    those at the end of a segment. A line end is a gap of white space with a line break.
    """

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self._pieces = pieces
        self._sizes = np.array([len(piece) for piece in pieces], dtype=np.int64)
        self._ends: Counter[int] = Counter()
        self._all: Counter[int] = Counter()
        self.segments = self.tokens = self._blank = 0
        self._lines = self._line_ends = 0

    def add(self, data: DataSet, *, limit: int | None, piece: int = _SPELLED_PIECE) -> None:
        """Count the first `limit` tokens of a split, to the end of a segment."""
        total = len(data.tokens) if limit is None else min(limit, len(data.tokens))
        begin = 0
        while begin < total:
            stop = min(begin + piece, total)
            starts = np.flatnonzero(data.marks(begin, stop) & _STARTS)
            if stop < len(data.tokens):  # the last segment may go on: it is read later or dropped
                if len(starts) < 2:
                    if stop == total:
                        return
                    piece *= 2
                    continue
                stop = begin + int(starts[-1])
                starts = starts[:-1]
            self._count(np.asarray(data.tokens[begin:stop]).astype(np.int64), starts)
            begin = stop

    def _count(self, ids: np.ndarray, starts: np.ndarray) -> None:
        text = spelled(ids, self._pieces, self._sizes)
        visible = np.flatnonzero(~np.isin(text.characters, _SPACES))
        self.tokens += len(ids)
        self.segments += len(starts)
        stops = np.append(text.first[starts[1:]], len(text.characters))
        # Only visible characters count: the token that opens a segment may begin with a space.
        last = np.searchsorted(visible, stops) - 1
        first = np.searchsorted(visible, text.first[starts])
        there = last >= first
        self._blank += int((~there).sum())
        last = last[there]
        tally(self._ends, text.characters[visible[last]])
        tally(self._all, text.characters[visible])
        lines = np.cumsum(text.characters == 0x0A)
        behind = np.append(visible[1:], len(text.characters) - 1)
        gaps = lines[behind] > lines[visible] if len(visible) else np.zeros(0, bool)
        self._lines += int(gaps.sum())
        self._line_ends += int(gaps[np.unique(last)].sum())

    def summary(self) -> dict[str, Any]:
        """Return the characters that end the most segments, and line ends."""
        segments = max(1, self.segments)
        return {
            "segments": self.segments,
            "tokens": self.tokens,
            "blank_share": self._blank / segments,
            "line_end": _ends(self._line_ends, self._lines, segments),
            "characters": [
                {
                    "character": chr(code),
                    "name": unicodedata.name(chr(code), f"U+{code:04X}"),
                    **_ends(ends, self._all[code], segments),
                }
                for code, ends in sorted(self._ends.items(), key=lambda c: (-c[1], c[0]))[:_SHOWN]
            ],
        }


def _ends(ends: int, appearances: int, segments: int) -> dict[str, Any]:
    return {
        "ends": ends,
        "share": ends / segments,
        "appearances": appearances,
        "hit_rate": ends / appearances if appearances else None,
    }
