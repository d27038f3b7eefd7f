"""A text with its cuts in two levels, and how many tokens each segment has, if that is known."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from segmenters.base import Cuts, Segmenter

_BLANK_LINE = re.compile(r"\n[ \t]*\r?\n|\r[ \t]*\r")


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
