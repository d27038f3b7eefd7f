"""Where sentences start without a sign before them: at items of lists, and where Thai pauses."""

import re
from array import array
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, pairwise

from segmenters.prose.endings import ahead
from segmenters.prose.line_ends import SHORT

# An item of a list at the start of a line.
_MARK = (
    r"(?P<line>[ \t]{0,16}(?P<mark>[*+\u2022\u2023\u2043-]"
    r"|(?P<open>\(?)(?:(?P<number>\d{1,3})|(?P<letter>[a-y]))(?:\.\)|[.)])))[ \t]{1,8}+\S"
)
_FIRST_ITEM = re.compile(_MARK)
_ITEM = re.compile(r"\n" + _MARK)
# A line of signs between two parts of a text, and where the next part starts.
_SIGNS = "*=~_#\u2013\u2014\u2022\u2500\u2550\u25a0-\u25ff\u2605\u2606-"
_RULE = re.compile(
    r"\n[ \t]{0,80}+(?:[%\u203b\u2042\u2766]|"
    rf"(?:[{_SIGNS}][ \t]{{0,3}}+){{3,70}}+)[ \t]{{0,9}}+"
    r"(?=\n\s*+(?P<first>\S))"
)
# How the lines of items and rules begin: both patterns are tried only there.
_MARKED = re.compile(r"\n[ \t]{0,80}+(?:[^A-Za-z\s]|[a-y]\.?[.)])")
_LINE_START = re.compile(r"\n[ \t]{0,16}+(?P<first>\S)|\n[ \t]*+(?P<blank>\n)")
_AFTER_COLON = re.compile(r":[ \t]{0,8}\n[ \t]{0,16}(?=[*+\u2022\u2023\u2043-])")
_ITEM_REACH = 400  # characters behind an item in which the next one may be


def list_starts(text: str, first: int) -> Iterator[int]:
    """Yield the places from `first` on of lines that start an item of a list or follow a rule.

    An item counts on from one above it: it has the same bullet, or begins as the next number does;
    the next letter counts only below lines too short to be wrapped. A bullet below a colon starts a
    list. Only the first character of a line and what is above it are read.
    """
    before = max(0, first - _ITEM_REACH)
    yield from (match.end() for match in _AFTER_COLON.finditer(text, before))
    marked = array("q", (match.start() for match in _MARKED.finditer(text, before)))
    rules = (_RULE.match(text, place) for place in marked)
    yield from (match.start("first") for match in rules if match)
    first_item = _FIRST_ITEM.match(text) if before == 0 else None
    found = filter(None, (_ITEM.match(text, place) for place in marked))
    items = chain(filter(None, [first_item]), found, [None])
    for item, below in pairwise(items):
        assert item is not None
        start, sign = item.start("line"), _next_sign(item)
        reach = SHORT if item["letter"] else _ITEM_REACH
        stop = min(start + reach, below.start("mark") + 1 if below else len(text))
        for line in _LINE_START.finditer(text, item.end("mark"), stop):
            if line["blank"]:
                break
            if line["first"] == sign and line.start("first") >= first:
                yield line.start("first")


def _next_sign(item: re.Match[str]) -> str:
    """Return the character with which the next item begins."""
    if item["open"]:
        return "("
    if item["number"]:
        return str(int(item["number"]) + 1)[0]
    return chr(ord(item["letter"]) + 1) if item["letter"] else item["mark"]


# Thai and Lao have no full stop: white space is between sentences, and between phrases. Few letters
# before it are those of a name or a list, and no sentence ends at "that", "namely", "such as".
_MOST_SPACES = 8
_PAUSES = re.compile(
    r"[\u0e01-\u0edf](?=\s)(?<=[\u0e01-\u0edf]{8})"
    r"(?<!\u0e27\u0e48\u0e32)(?<!\u0e04\u0e37\u0e2d)(?<!\u0e40\u0e0a\u0e48\u0e19)"
    r"(?<!\u0ea7\u0ec8\u0eb2)(?<!\u0e84\u0eb7)(?<!\u0ec0\u0e8a\u0eb1\u0ec8\u0e99)"
    r"\s{1,8}(?=[\u0e01-\u0edf])"
)
_PHRASES = re.compile(r"[\u0e01-\u0e5b]\s{1,8}(?=[\u0e01-\u0e5b])")


def openings(
    text: str,
    position: int,
    starts: Sequence[int],
    *,
    next_word: bool,
    pauses: bool,
    thai: Callable[[str, Sequence[int]], list[int]] | None,
) -> "array[int]":
    """Return where sentences start without a sign before them.

    There start items of lists, lines that the caller has found (`starts`) and, if there are
    `pauses`, phrases of Thai and Lao. The others are the parameters of `rules.sentence_ends`.
    """
    items = array("q", starts)
    if pauses:
        first = max(0, position - _MOST_SPACES - 1)
        items.extend(match.end() for match in _PAUSES.finditer(text, first))
        if thai is not None:
            items = array("q", (i for i in items if not "\u0e01" <= text[i] <= "\u0e5b"))
            items.extend(thai(text, [match.end() for match in _PHRASES.finditer(text, first)]))
    if "\n" in text and "\n" in text.rstrip():
        items.extend(list_starts(text, position))
    if next_word:
        items.extend(ahead.item_starts(text))
    return items
