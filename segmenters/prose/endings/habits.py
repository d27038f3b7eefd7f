"""How a text begins its sentences: with capitals, or as those of chat, songs and transcripts of
speech do; the last ones tell.
"""

import re
from dataclasses import dataclass

# How many sentences before the current one count.
_COUNTED = 5
# A sentence longer than this, in characters, does not count.
_LONGEST = 400
_OPENERS = "\"'`*_([\u2018\u201c\u201e\u00ab\u00bf\u00a1\u2013\u2014\u2022-"
_OPENING = frozenset(_OPENERS)
_FIRST = re.compile(rf"[{re.escape(_OPENERS)} ]{{1,6}}(\w)")


def remembered(signs: str, text: str, start: int, end: int) -> str:
    """Return what is kept of the last sentences, `signs`, with the one from `start` to `end`.

    A sign is "a" for a sentence that begins with a small letter, "A" for a capital, else "-".
    """
    return (signs + _sign(text, start, end))[-_COUNTED:]


def _sign(text: str, start: int, end: int) -> str:
    if end - start > _LONGEST:
        return "-"
    first = text[start]
    if first in _OPENING:
        match = _FIRST.match(text, start, end)
        first = match[1] if match else ""
    return "a" if first.islower() else "A" if first.isupper() else "-"


@dataclass(slots=True)
class Habits:
    """How the last sentences of a text begin. It is asked seldom, so nothing is counted before.

    `ends`: where its sentences end, in characters, as they are found; the first of them starts at
    `first`. `signs`: how sentences before that one begin (`remembered`).
    """

    text: str
    ends: list[int]
    first: int
    signs: str
    counted: int = 0  # ends that are in `signs`

    def small(self, place: int) -> int:
        """Return how many more sentences begin with a small letter, up to the one at `place`."""
        ends, count = self.ends, len(self.ends)
        for index in range(max(self.counted, count - _COUNTED), count):
            start = ends[index - 1] if index else self.first
            self.signs = remembered(self.signs, self.text, start, ends[index])
        self.counted = count
        signs = self.signs + _sign(self.text, ends[-1] if ends else self.first, place)
        return signs.count("a") - signs.count("A")
