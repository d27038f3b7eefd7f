r"""Places in a text: ends of lines, white space, nested comments and matches.

A physical line ends only with "\n", "\r\n" or "\r".
"""

import re
import sys
from collections.abc import Iterable, Iterator
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt

_LF, _CR = 10, 13
_BLOCK = 1 << 20  # bytes at once, since their places take eight times their memory
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


def utf8(text: str) -> npt.NDArray[np.uint8]:
    """Return the UTF-8 bytes of the text; lone surrogates are encoded like other characters."""
    return np.frombuffer(text.encode("utf-8", "surrogatepass"), dtype=np.uint8)


_SURROGATE = re.compile("[\ud800-\udfff]")


def without_surrogates(text: str) -> tuple[str, int]:
    """Return the text with U+FFFD for each lone surrogate, and how many there were."""
    return (text, 0) if text.isascii() else _SURROGATE.subn("\ufffd", text)


def characters(
    places: npt.NDArray[Any], data: npt.NDArray[np.uint8], text: str
) -> npt.NDArray[Any]:
    """Convert increasing byte offsets, each at the start of a character, to character offsets."""
    if len(data) == len(text):
        return places
    counts, before = places.copy(), 0  # bytes that do not start a character
    for start in range(0, len(data) + 1, _BLOCK):
        inside = np.flatnonzero((data[start : start + _BLOCK] & 0xC0) == 0x80)
        first, last = rows_of(places, start, start + _BLOCK)
        counts[first:last] -= before + inside.searchsorted(places[first:last] - start)
        before += len(inside)
    return counts


def rows_of(places: npt.NDArray[Any], *keys: int, side: Literal["left", "right"] = "left") -> Any:
    """Return where keys belong in sorted places, which are not copied to the type of the keys."""
    return places.searchsorted(np.array(keys, dtype=places.dtype), side=side).tolist()


def distinct(*places: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Return all places in order, each once.

    `np.unique` is four times as slow and loads a further part of numpy at its first call.
    """
    ordered = np.sort(np.concatenate(places, dtype=np.int64, casting="unsafe"))
    is_new = np.ones(len(ordered), bool)
    np.not_equal(ordered[1:], ordered[:-1], out=is_new[1:])
    return ordered[is_new]


def line_ends(data: npt.NDArray[np.uint8]) -> npt.NDArray[Any]:
    """Return where physical lines end, in bytes of UTF-8."""
    # int32, if twice the places fit, takes half of the memory.
    kind = np.int64 if len(data) >= 1 << 30 else np.int32
    blocks = [_line_ends(data, start).astype(kind) for start in range(0, len(data) or 1, _BLOCK)]
    return blocks[0] if len(blocks) == 1 else np.concatenate(blocks)


def _line_ends(data: npt.NDArray[np.uint8], start: int) -> npt.NDArray[np.int64]:
    """Return where the lines end whose ends are in the block that starts here."""
    block = data[start : start + _BLOCK]
    ends = (block == _LF).nonzero()[0] + (start + 1)
    returns = (block == _CR).nonzero()[0] + (start + 1)
    if not len(returns):
        return ends
    alone = data.take(returns, mode="clip") != _LF  # at the end of the text it is the return itself
    return np.sort(np.concatenate((ends, returns[alone])))  # np.union1d is not linear


def character_ends(text: str) -> npt.NDArray[Any]:
    """Return where physical lines end, in characters; an unfinished last line is left out."""
    data = utf8(text)
    return characters(line_ends(data), data, text)
