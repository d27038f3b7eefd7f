"""A cut text, and numbers about its segments: lengths, histograms and separators.

Lengths are in characters, in words (separated by white space) and, if the text has them, in tokens.
A separator is the last visible character of a segment, or its line end if that is a letter or
digit; its rate is the share of its occurrences in the text that end a segment.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from segmenters.base import Cuts, Ruling, Segmenter
from segmenters.offsets import distinct
from segmenters.places import UNSPACED
from segmenters.wording import counted, escaped, plural, visible

Integers = npt.NDArray[np.int64]

_PERCENTILES = (5, 25, 50, 75, 95, 99)
# Left edges of the histogram's bins, in words or tokens; the last one is open to the right.
_EDGES = (0, 2, 3, 5, 9, 17, 33, 65, 129)
_BINS = [f"{a}-{b - 1}" if a < b - 1 else f"{a}" for a, b in pairwise(_EDGES)] + [f"{_EDGES[-1]}+"]
_MOST_SEPARATORS = 12
_AROUND = 20  # characters before and after a place
LINE_END, BLANK_LINE, WHITE_SPACE, NONE = "line end", "blank line", "white space", "none"
_LINE_END = re.compile(r"\r\n?|\n")
# Thai and Lao, Burmese, Khmer, kana, Han.
_UNSPACED = re.compile(f"[{UNSPACED}]")
_BLANK_LINES = re.compile(r"(?:\r\n?+|\n)(?:[^\S\r\n]*(?:\r\n?|\n))+")
_BLANK_LINE = re.compile(r"\n[ \t]*\r?\n|\r[ \t]*\r")


@dataclass(frozen=True, slots=True, eq=False)
class Distribution:
    """Distinct lengths, increasing, and how often each occurs: both int64 [distinct lengths]."""

    lengths: Integers
    times: Integers

    @classmethod
    def of(cls, lengths: Integers | Mapping[int, int]) -> Distribution:
        """Count lengths, unless they are counted already."""
        if isinstance(lengths, Mapping):
            rows = np.array(sorted(lengths.items()), dtype=np.int64).reshape(-1, 2)
            return cls(rows[:, 0], rows[:, 1])
        return cls(*np.unique(lengths, return_counts=True))

    @property
    def count(self) -> int:
        return int(self.times.sum())

    @property
    def total(self) -> int:
        """Return the sum of all lengths."""
        return int((self.lengths * self.times).sum())

    def percentiles(self, shares: Sequence[int]) -> list[int]:
        """Return the percentiles by nearest rank: lengths that occur."""
        below = np.cumsum(self.times)
        ranks = [max(1, -(-int(below[-1]) * share // 100)) for share in shares]
        return self.lengths[np.searchsorted(below, ranks)].tolist()

    def histogram(self, edges: Sequence[int]) -> list[int]:
        """Return how many segments each bin holds; `edges` are the left edges."""
        bins = np.searchsorted(edges, self.lengths, side="right") - 1
        return np.bincount(bins, self.times, len(edges)).astype(int).tolist()

    def share_of(self, length: int) -> float:
        """Return the share of segments of this length."""
        return int(self.times[self.lengths == length].sum()) / max(1, self.count)

    def share_beyond(self, size: int) -> float:
        """Return the share of the total that is beyond the first `size` units of its segment."""
        return int((np.maximum(self.lengths - size, 0) * self.times).sum()) / self.total


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Tokens:
    """The tokens of a text, as a tokenizer names and places them."""

    names: Sequence[str]
    ids: Sequence[int]
    spans: Sequence[tuple[int, int]]  # in characters
    anchors: Integers  # [tokens], in characters: what decides to which segment a token belongs


@dataclass(frozen=True, kw_only=True, eq=False)
class CutText:
    """One document as it is shown.

    levels: the cuts of all levels of the segmenter by the name of what they cut, segments first.
    note: who cut it, and why. rulings: at each place where a segment could have ended, if asked
    for. beside: the same text cut by another segmenter, to be compared.
    """

    name: str
    text: str
    levels: Mapping[str, Cuts]
    note: str = ""
    tokens: Tokens | None = None
    rulings: Sequence[Ruling] = ()
    beside: CutText | None = None

    @classmethod
    def by(
        cls, segmenter: Segmenter, text: str, *, tokens: Tokens | None = None, why: bool = False,
        **about: Any,
    ) -> CutText:  # fmt: skip
        """Cut a text. tokens: to be counted. why: also keep the rulings. about: other fields."""
        segmenter = segmenter.choose(text=text)  # names its levels better than one of any kind
        if tokens is None:
            levels = segmenter.levels(text)
        else:
            levels = segmenter.levels_of_tokens(text, tokens.anchors)
        named = dict(zip(segmenter.level_names, levels, strict=True))
        rulings = segmenter.why(text) if why else ()
        return cls(text=text, levels=named, tokens=tokens, rulings=rulings, **about)

    @cached_property
    def cuts(self) -> Cuts:
        """Return the cuts of the segments."""
        return next(iter(self.levels.values()))

    @cached_property
    def above(self) -> tuple[str, Cuts]:
        """Return the level above, such as top-level definitions: the name of one, and its cuts.

        It is the segmenter's, else the paragraphs by blank lines; its cuts are among `cuts`.
        """
        level, cuts = next(islice(self.levels.items(), 1, None), ("", self.cuts[:0]))
        return (level, cuts) if len(cuts) > 2 else ("paragraph", _paragraphs(self.text, self.cuts))

    @cached_property
    def token_counts(self) -> Integers | None:
        """Return how many tokens each segment has: int64 [segments]; None without a tokenizer."""
        if self.tokens is None:
            return None
        numbers = np.searchsorted(self.cuts, self.tokens.anchors, side="right") - 1
        return np.bincount(numbers, minlength=max(0, len(self.cuts) - 1)).astype(np.int64)

    @property
    def sizes(self) -> str:
        """Return how many segments each level has, as in "sentence 12, paragraph 4"."""
        return ", ".join(f"{name} {max(0, len(cuts) - 1)}" for name, cuts in self.levels.items())

    @property
    def units(self) -> tuple[str, ...]:
        """Return the units in which lengths are counted; histograms show the first.

        Scripts without spaces have no words to count.
        """
        unspaced = 2 * len(_UNSPACED.findall(self.text)) > len("".join(self.text.split()))
        tokens = () if self.tokens is None else ("tokens",)
        return (*tokens, *(() if unspaced else ("words",)), "characters")

    @property
    def length(self) -> int:
        """Return the length of the text in the first of `units`."""
        if self.token_counts is not None:
            return int(self.token_counts.sum())
        return len(self.text.split()) if self.units[0] == "words" else len(self.text)

    @property
    def deeper(self) -> list[set[int]]:
        """Return the inner cuts of the levels above `outer` that have any."""
        return [{*cuts[1:-1].tolist()} for cuts in [*self.levels.values()][2:] if len(cuts) > 2]

    def inter(self, start: int) -> int:
        """Return how many segments with tokens are before the one that starts at a character."""
        index = int(np.searchsorted(self.cuts, start))
        counts = self.token_counts
        return index if counts is None else int((counts[:index] > 0).sum())

    def reason(self, index: int) -> str:
        """Return what is before a segment, and the names of the levels that start with it."""
        start = int(self.cuts[index])
        starts = " and ".join(name for name, cuts in self.levels.items() if start in cuts)
        if not index:
            return f"starts {starts}"
        before = _separator(self.text[int(self.cuts[index - 1]) : start])
        rules = [ruling.rule for ruling in self.rulings if ruling.place == start]
        rule = f", by {rules[0]}" if rules else ""
        return f"starts {starts} after {before if len(before) > 1 else repr(before)}{rule}"

    def spans(self, stop: int | None = None) -> Iterator[tuple[int, int, int]]:
        """Yield start, end and outer segment's number of each segment that starts before `stop`."""
        outer = np.searchsorted(self.above[1], self.cuts[:-1], side="right") - 1
        for (start, end), number in zip(pairwise(self.cuts.tolist()), outer.tolist(), strict=True):
            if stop is not None and start >= stop:
                return
            yield start, end, number


def _paragraphs(text: str, cuts: Cuts) -> Cuts:
    """Return the cuts at which a segment follows a blank line."""
    ends = np.array([match.end() for match in _BLANK_LINE.finditer(text)], dtype=np.int64)
    places = np.minimum(np.searchsorted(cuts, ends), len(cuts) - 1)
    return distinct(cuts[[0, -1]], cuts[places])


def summary(cut: CutText) -> str:
    """Return "12 segments in 4 paragraphs"; parts of other levels hold what is around them too."""
    number = counted(max(0, len(cut.cuts) - 1), "segment")
    level, cuts = cut.above
    outer = len(cuts) - 1
    if outer < 2:
        return number
    parts = counted(outer, level) if level == "paragraph" else f"{outer:,} parts (level {level})"
    return f"{number} in {parts}"


def statistics(cut: CutText) -> dict[str, Any]:
    """Return counts, lengths, histograms and separators of the segments, as JSON-able values."""
    segments = [cut.text[start:end] for start, end, _ in cut.spans()]
    lengths = {"characters": np.diff(cut.cuts)}
    lengths["words"] = np.array([len(segment.split()) for segment in segments], dtype=np.int64)
    facts: dict[str, Any] = {"segments": len(segments)}
    level, outer = cut.above
    facts[plural(level)] = max(0, len(outer) - 1)
    if (counts := cut.token_counts) is not None:
        lengths["tokens"] = counts[counts > 0]  # a model sees no others
        facts["segments_without_token"] = int((counts == 0).sum())
    for unit, values in lengths.items():
        distribution = Distribution.of(values)
        facts[unit] = _lengths(distribution)
        facts[f"share_of_one_{unit[:-1]}"] = round(distribution.share_of(1), 4)
        bins = zip(_BINS, distribution.histogram(_EDGES), strict=True)
        facts[f"histogram_of_{unit}"] = dict(bins)
    most = Counter(map(_separator, segments)).most_common(_MOST_SEPARATORS)
    facts["separators"] = {name: round(n / len(segments), 4) for name, n in most}
    facts["rates"] = {name: _rate(name, n, cut.text) for name, n in most}
    return facts


def rows_of_lengths(facts: Mapping[str, Any], units: Sequence[str]) -> list[list[str]]:
    """Return the lengths in `statistics` as a table; the first row is its head."""
    head = list(facts["characters"])
    rows = [["", *head, "of one"]]
    for unit in units:
        sizes = [f"{facts[unit].get(key, 0):g}" for key in head]
        rows.append([f"{unit} per segment", *sizes, f"{facts[f'share_of_one_{unit[:-1]}']:.1%}"])
    return rows


def rows_of_rulings(cut: CutText) -> list[list[str]]:
    """Return the rule at each place where a segment ends or could have ended, below a head."""
    rows = [["character", "", "rule", "text around"]]
    for ruling in cut.rulings:
        before = escaped(cut.text[max(0, ruling.place - _AROUND) : ruling.place])
        after = escaped(cut.text[ruling.place : ruling.place + _AROUND])
        ends = "ends" if ruling.ends else "goes on"
        rows.append([f"{ruling.place}", ends, ruling.rule, f"{before}\u2502{after}"])
    return rows


def rows_of_separators(facts: Mapping[str, Any]) -> list[list[str]]:
    """Return the separators in `statistics` as a table; the first row is its head."""
    rows = [["ends with", "of segments", "of its occurrences"]]
    for name, share in facts["separators"].items():
        rate = facts["rates"][name]
        shown = repr(name) if len(name) == 1 else name
        rows.append([visible(shown), f"{share:.1%}", "-" if rate is None else f"{rate:.1%}"])
    return rows


def _lengths(counted: Distribution) -> dict[str, float]:
    if not counted.count:
        return {"total": 0}
    percentiles = zip(_PERCENTILES, counted.percentiles(_PERCENTILES), strict=True)
    return {
        "total": counted.total,
        "mean": round(counted.total / counted.count, 2),
        **{f"p{share}": value for share, value in percentiles},
        "longest": int(counted.lengths[-1]),
    }


def _separator(segment: str) -> str:
    shown = segment.rstrip()
    space = segment[len(shown) :]
    if shown and not shown[-1].isalnum():
        return visible(shown[-1])
    lines = len(_LINE_END.findall(space))
    if lines:
        return BLANK_LINE if lines > 1 or not shown else LINE_END
    return NONE if shown else WHITE_SPACE


def _rate(name: str, ended: int, text: str) -> float | None:
    """Return the share of a separator's occurrences that end a segment; None if it has none."""
    if name == LINE_END:
        occurrences = len(_LINE_END.findall(text))
    elif name == BLANK_LINE:
        occurrences = max(ended, len(_BLANK_LINES.findall(text)))
    else:
        occurrences = text.count(name) if len(name) == 1 else 0
    return round(min(1.0, ended / occurrences), 4) if occurrences else None
