"""A cut text, and numbers about its segments: lengths, a histogram, and what segments end with.

Lengths are in characters, in words (pieces between white space) and, if the text has them, in
tokens. A separator is what a segment ends with: its last visible character, or its line end if
that is a letter or digit; its rate is how many of its occurrences in the text end a segment.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from segmenters.base import Cuts, Segmenter

_PERCENTILES = (5, 25, 50, 75, 95, 99)
# Upper ends of the histogram's classes, in words or tokens; the last is open.
_CLASSES = (1, 2, 4, 8, 16, 32, 64, 128)
_MOST_SEPARATORS = 12
LINE_END, BLANK_LINE, WHITE_SPACE, NONE = "line end", "blank line", "white space", "none"
_LINE_END = re.compile(r"\r\n?|\n")
_BLANK_LINES = re.compile(r"(?:\r\n?|\n)(?:[^\S\r\n]*(?:\r\n?|\n))+")
_BLANK_LINE = re.compile(r"\n[ \t]*\r?\n|\r[ \t]*\r")
# Control characters would steer the terminal of whoever looks at the file, marks of direction
# reorder what is shown, and surrogates and non-characters have no place in UTF-8 or XML.
_HOSTILE = (*range(0x80, 0xA0), 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
_VISIBLE = {code: 0x2400 + code for code in range(0x20) if chr(code) not in "\n\t"} | {0x7F: 0x2421}
_VISIBLE |= dict.fromkeys((*_HOSTILE, *range(0xD800, 0xE000), 0xFFFE, 0xFFFF), 0xFFFD)


def visible(text: str) -> str:
    """Return the text with pictures or U+FFFD for all that would steer a screen or tangle a line.

    These are control characters other than line end and tab ("\\r\\n" is one line end), marks of
    direction, surrogates and non-characters; what is returned is valid UTF-8 and XML.
    """
    return text.replace("\r\n", "\n").translate(_VISIBLE)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class CutText:
    """What is shown of one document.

    `outer`: cuts of the level above, some of `cuts`, such as top-level definitions; `level` says
    what they are. `tokens`: int64 [segments], None without a tokenizer. `note`: who cut it, and
    why he.
    """

    name: str
    text: str
    cuts: Cuts
    outer: Cuts
    level: str
    note: str = ""
    tokens: npt.NDArray[np.int64] | None = None

    @classmethod
    def by(cls, segmenter: Segmenter, text: str, *, name: str, note: str = "") -> CutText:
        """Cut a text; the level above is the segmenter's, else that of blank lines."""
        levels = segmenter.levels(text)
        cuts = levels[0]
        if len(levels) > 1 and len(levels[1]) > 2:
            outer, level = levels[1], "definitions"
        else:
            outer, level = paragraphs(text, cuts), "paragraphs"
        return cls(name=name, text=text, cuts=cuts, outer=outer, level=level, note=note)

    def spans(self, stop: int | None = None) -> Iterator[tuple[int, int, int]]:
        """Start and end of each segment that starts before `stop`, and the number of its outer."""
        outer = np.searchsorted(self.outer, self.cuts[:-1], side="right") - 1
        for (start, end), number in zip(pairwise(self.cuts.tolist()), outer.tolist(), strict=True):
            if stop is not None and start >= stop:
                return
            yield start, end, number

    def segments(self) -> list[str]:
        """The segments, which join to the text."""
        return [self.text[start:end] for start, end in pairwise(self.cuts.tolist())]


def paragraphs(text: str, cuts: Cuts) -> Cuts:
    """The cuts behind which a segment follows a blank line."""
    ends = np.array([match.end() for match in _BLANK_LINE.finditer(text)], dtype=np.int64)
    places = np.minimum(np.searchsorted(cuts, ends), len(cuts) - 1)
    return np.unique(np.concatenate((cuts[[0, -1]], cuts[places])))


def tokens_of(text: str, cuts: Cuts, anchors: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """How many tokens each segment has, from the characters by which tokens join segments."""
    numbers = np.searchsorted(cuts, anchors, side="right") - 1
    return np.bincount(numbers, minlength=max(0, len(cuts) - 1)).astype(np.int64)


def statistics(cut: CutText) -> dict[str, Any]:
    """Counts, lengths, histograms and separators of the segments, as JSON-able values."""
    segments = cut.segments()
    words = np.array([len(segment.split()) for segment in segments], dtype=np.int64)
    separators = Counter(map(_separator, segments))
    total = max(1, len(segments))
    found: dict[str, Any] = {
        "segments": len(segments),
        cut.level: max(0, len(cut.outer) - 1),
        "characters": _lengths(np.diff(cut.cuts)),
        "words": _lengths(words),
        "share_of_one_character": _share(np.diff(cut.cuts) == 1),
        "share_of_one_word": _share(words <= 1),
        "histogram_of_words": _histogram(words),
    }
    if cut.tokens is not None:
        seen = cut.tokens[cut.tokens > 0]  # segments without a token vanish for a model
        found["tokens"] = _lengths(seen)
        found["segments_without_token"] = int((cut.tokens == 0).sum())
        found["share_of_one_token"] = _share(seen == 1)
        found["histogram_of_tokens"] = _histogram(seen)
    most = separators.most_common(_MOST_SEPARATORS)
    found["separators"] = {name: round(n / total, 4) for name, n in most}
    found["rates"] = {name: _rate(name, n, cut.text) for name, n in most}
    return found


def _share(these: npt.NDArray[np.bool_]) -> float:
    return round(float(these.mean()), 4) if len(these) else 0.0


def _lengths(lengths: npt.NDArray[np.int64]) -> dict[str, float]:
    if not len(lengths):
        return {"total": 0}
    percentiles = np.percentile(lengths, _PERCENTILES)
    return {
        "total": int(lengths.sum()),
        "mean": round(float(lengths.mean()), 2),
        **{f"p{p}": round(float(v), 1) for p, v in zip(_PERCENTILES, percentiles, strict=True)},
        "longest": int(lengths.max()),
    }


def _histogram(lengths: npt.NDArray[np.int64]) -> dict[str, int]:
    """How many segments are so long: {"0-1": ..., "2": ..., "3-4": ...}."""
    classes = np.searchsorted(_CLASSES, lengths)
    counts = np.bincount(classes, minlength=len(_CLASSES) + 1).tolist()
    lower = (0, *(end + 1 for end in _CLASSES))
    names = [f"{a}-{b}" if a < b else f"{b}" for a, b in zip(lower, _CLASSES, strict=False)]
    return dict(zip([*names, f"{lower[-1]}+"], counts, strict=True))


def _separator(segment: str) -> str:
    """What a segment ends with, in a name that can be printed."""
    visible = segment.rstrip()
    space = segment[len(visible) :]
    if visible and not visible[-1].isalnum():
        return visible[-1].translate(_VISIBLE)
    lines = len(_LINE_END.findall(space)) if len(space) > 1 else space.count("\n")
    if lines:
        return BLANK_LINE if lines > 1 or not visible else LINE_END
    return NONE if visible else WHITE_SPACE


def _rate(name: str, ended: int, text: str) -> float | None:
    """The share of a separator's occurrences that end a segment; None where it has none."""
    if name == LINE_END:
        occurrences = len(_LINE_END.findall(text))
    elif name == BLANK_LINE:
        occurrences = max(ended, len(_BLANK_LINES.findall(text)))
    else:
        occurrences = text.count(name) if len(name) == 1 else 0
    return round(min(1.0, ended / occurrences), 4) if occurrences else None
