"""Where sentences start without a sign before them: at lines and items, and where Thai pauses.

Behind a blank line a paragraph starts. Behind one line end it does in text that is not wrapped, by
`line_ends`: "wrapped" (never), "paragraph" (always) or "auto".

Text that is wrapped breaks a line where the next word would not fit; elsewhere (C4, FineWeb, OSCAR)
a line is a paragraph. A few lines before a line end tell which it is: their width, and at how many
ends the next word would have fit. In wrapped text a line that is clearly short ends as well. Before
a small letter only a first line that is very short ends, or one with a terminator. Nothing is read
beyond the first visible character of the next line, so text that is still being written is cut
alike.
"""

import re
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, pairwise

from segmenters.base import Machine
from segmenters.prose.endings import ahead

WRAPPED, PARAGRAPH, AUTO = KINDS = ("wrapped", "paragraph", "auto")
# How many lines are looked back on, and how many characters of one are kept.
_LINES, _KEPT = 16, 24
# Without lines to look back on: shorter than the first is a heading or the like, longer than the
# second is a paragraph.
_SHORT, _LONG = 45, 100
# A first line before a small letter is a paragraph if it is shorter than this, or a question or the
# like, which may have any length.
_TINY = 30
_ENDS = frozenset(".!?\u2026")
# A line that has room for a word of this length is short.
_ROOM = 16
# One line in so many may be wider than the text.
_OUTLIERS = 8


# The start of a chapter or the like, a numbered heading, a Roman numeral or capitals alone in a
# line, or an underlined one.
_NAMES = (
    "chapter|part|book|section|volume|act|scene|canto|appendix|kapitel|teil|buch|abschnitt"
    "|chapitre|partie|livre|cap[i\u00ed]tulo|parte|libro|livro|capitolo|hoofdstuk|deel|del"
    "|rozdzia\u0142|kapitola|fejezet|luku|b\u00f6l\u00fcm"
    "|\u0433\u043b\u0430\u0432\u0430|\u0447\u0430\u0441\u0442\u044c|\u0440\u043e\u0437\u0434\u0456\u043b"
)
_HEADING = re.compile(
    rf"[ \t]*+(?:(?:{_NAMES})[ \t]+(?:\d+|[ivxlc]+|[^\W\d_]{{3,12}})\b[^\n]{{0,60}}"
    r"|\d{1,3}(?:\.\d{1,3}){0,3}\.?[ \t]+[^\W\d_][^\n]{0,70}(?<![.,;:!?])"
    r"|(?-i:[IVXLC]{1,7})\.?|[^\n]{1,80}\n[ \t]*(?:={3,}|-{3,}|~{3,})"
    r"|(?-i:(?=[^\na-z]*[A-Z]{2})[^\na-z]{3,80}))\s*(?:\n|\Z)",
    re.IGNORECASE,
)


def sections(text: str, paragraphs: Iterable[int]) -> Iterator[int]:
    """Return the paragraphs that are the headings of sections, one behind another left out."""
    last = False
    for place in paragraphs:
        is_heading = _HEADING.match(text, place) is not None
        if is_heading and not last:
            yield place
        last = is_heading


# An item of a list at the start of a line, and how many characters behind it the next one may be.
_MARK = (
    r"(?P<line>[ \t]{0,16}(?P<mark>[*+\u2022\u2023\u2043-]"
    r"|(?P<open>\(?)(?:(?P<number>\d{1,3})|(?P<letter>[a-y]))(?:\.\)|[.)])))[ \t]{1,8}+\S"
)
_FIRST_ITEM, _ITEM = re.compile(_MARK), re.compile(r"\n" + _MARK)
# A line of signs between two parts of a text, and where the next part starts.
_SIGNS = "*=~_#\u2013\u2014\u2022\u2500\u2550\u25a0-\u25ff\u2605\u2606-"
_RULE = re.compile(
    r"\n[ \t]{0,80}+(?:[%\u203b\u2042\u2766]|"
    rf"(?:[{_SIGNS}][ \t]{{0,3}}+){{3,70}}+)[ \t\r]{{0,9}}+"
    r"(?=\n\s*+(?P<first>\S))"
)
# How the lines of items and rules begin: both patterns are tried only there.
_MARKED = re.compile(r"\n[ \t]{0,80}+(?:[^A-Za-z\s]|[a-y]\.?[.)])")
_LINE_START = re.compile(r"\n[ \t]{0,16}+(?P<first>\S)|\n[ \t\r]*+(?P<blank>\n)")
_AFTER_COLON = re.compile(r":[ \t]{0,8}\n[ \t]{0,16}(?=[*+\u2022\u2023\u2043-])")
_ITEM_REACH = 400


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
        reach = _SHORT if item["letter"] else _ITEM_REACH
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


@dataclass(slots=True, kw_only=True)
class LineEnds(Machine):
    """Finds where paragraphs start: behind single line ends, and behind blank lines if `blank`."""

    line_ends: str
    blank: bool = False
    head: str = ""  # the start of the current line
    length: int = 0  # of the current line, up to its last visible character
    column: int = 0  # characters of the current line
    before: int | None = None  # the length of the line before; None: it is blank
    final: str = ""  # the last visible character
    begun: bool = False  # something visible was read
    widths: deque[int] = field(default_factory=lambda: deque(maxlen=_LINES))
    ends: deque[int] = field(default_factory=lambda: deque(maxlen=_LINES))

    def _read(self, text: str) -> list[int]:
        places: list[int] = []
        place = self.size
        for index, line in enumerate(text.split("\n")):
            if index:
                self._end_line()
            self._read_line(line, place, places)
            place += len(line) + 1
        return places

    def _read_line(self, line: str, place: int, found: list[int]) -> None:
        visible = len(line.rstrip())
        if visible:
            first = len(line) - len(line.lstrip())
            if not self.length and self.begun and self._starts(line[first]):
                found.append(place + first)
            self.length, self.final = self.column + visible, line[visible - 1]
            self.begun = True
        self.column += len(line)
        if len(self.head) < _KEPT:
            self.head = (self.head + line if self.head else line.lstrip())[:_KEPT]

    def _end_line(self) -> None:
        if self.length:
            if self.before is not None:
                self.ends.append(self.before + 1 + len(self.head.split(None, 1)[0]))
            self.widths.append(self.length)
        self.before = self.length or None
        self.head, self.length, self.column = "", 0, 0

    def _starts(self, following: str) -> bool:
        if self.before is None:
            return self.blank
        if self.line_ends != AUTO:
            return self.line_ends == PARAGRAPH
        widths = sorted(self.widths)
        width = widths[-1 - len(widths) // _OUTLIERS]
        small = following.islower() and width <= _LONG
        tiny = self.before < _TINY and width < _SHORT and len(self.ends) < 2
        if small and self.final not in _ENDS and not tiny:
            return False
        if len(self.ends) < 2:
            return not _SHORT <= self.before <= _LONG
        wrapped = 2 * sum(end > width for end in self.ends) > len(self.ends)
        return not wrapped or (self.before + 1 + _ROOM <= width and not small)
