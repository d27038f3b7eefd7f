r"""Places in a text: white space, blank lines, nested comments and matches."""

import re
import sys
from collections.abc import Iterable, Iterator
from typing import Self

# In a class of characters: marks that belong to words and are no letters to Python, such as vowels
# of Hindi, Hebrew and Arabic; what words consist of; letters of scripts without spaces.
MARKS = (
    "\u0300-\u036f\u0591-\u05bd\u05bf-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06ed"
    "\u0730-\u074a\u07a6-\u07b0\u0900-\u0903\u093a-\u0963\u0981-\u0dff\u200c\u200d"
)
WORD = rf"\w{MARKS}"
UNSPACED = (
    "\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003ffff"
)
SPACE = re.compile(r"\s*+")
BLANK_LINES = re.compile(r"(?:[ \t]*+(?:\r\n?|\n))*+")
# A line end with the blank lines below it.
PARAGRAPH_END = re.compile(r"(?:\r\n?+|\n)(?:[ \t]*+(?:\r\n?|\n))++")


def past(pattern: re.Pattern[str], text: str, place: int = 0, end: int = sys.maxsize) -> int:
    """Return where the match of `pattern` at `place` ends; the pattern must always match."""
    match = pattern.match(text, place, end)
    assert match is not None
    return match.end()


class Walk:
    """Iterate over matches; the place from which it searches only grows, so that it ends."""

    __slots__ = ("end", "place", "search", "start", "text")

    def __init__(
        self, pattern: re.Pattern[str], text: str, place: int = 0, end: int = sys.maxsize
    ) -> None:
        self.search, self.text, self.place = pattern.search, text, place
        self.end = min(end, len(text))

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> re.Match[str]:
        """Return the next match, unless nothing is left to read."""
        match = self.search(self.text, self.place, self.end)
        if match is None or self.place >= self.end:
            raise StopIteration
        self.start, end = match.span()
        self.place = end if end > self.start else self.start + 1
        return match

    def skip(self, place: int) -> None:
        """Continue at `place`, which may be in the last match, but behind its start."""
        self.place = max(place, self.start + 1)


def after_space(text: str, places: Iterable[int]) -> Iterator[int]:
    """Move each place past the white space after it, which stays with the text before."""
    return (past(SPACE, text, place) for place in places)


def nested_end(text: str, place: int, pattern: re.Pattern[str], end: int) -> int:
    """Return where a nest closes, by the groups `open` and `close`, else the end of the text."""
    depth = 0
    for match in pattern.finditer(text, place, end):
        if match.lastgroup == "open":
            depth += 1
        elif match.lastgroup == "close":
            depth -= 1
            if depth == 0:
                return match.end()
    return min(end, len(text))
