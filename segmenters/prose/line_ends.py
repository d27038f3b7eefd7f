"""Where paragraphs start, and which are the headings of sections.

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
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from segmenters.base import Machine
from segmenters.prose.signs import with_line_ends

WRAPPED, PARAGRAPH, AUTO = KINDS = ("wrapped", "paragraph", "auto")

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
    r"|\d{1,3}(?:\.\d{1,3}){0,3}\.?[ \t]+[^\W\d_][^\n]{0,70}(?<![.,;:!?\s])"
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


# How many lines are looked back on, and how many characters of each are kept.
_LINES = 16
_KEPT = 24
# Without lines to look back on: shorter than the first is a heading or the like, longer than the
# second is a paragraph.
SHORT = 45
_LONG = 100
# A first line before a small letter is a paragraph if it is shorter than this, or a question or the
# like, which may have any length.
_TINY = 30
_ENDS = frozenset(".!?\u2026")
_FEW = 2  # ends of lines, of which fewer tell nothing
_ROOM = 16  # characters of a word; a line that has room for it is short
_OUTLIERS = 8  # one line in so many may be wider than the text


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
    returned: bool = False  # the last character is a return, not counted yet
    widths: deque[int] = field(default_factory=lambda: deque(maxlen=_LINES))
    ends: deque[int] = field(default_factory=lambda: deque(maxlen=_LINES))

    def _read(self, text: str) -> list[int]:
        places: list[int] = []
        place = self.size - self.returned
        text = with_line_ends("\r" * self.returned + text)
        self.returned = text[-1] == "\r"
        for index, line in enumerate(text.removesuffix("\r").split("\n")):
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
        tiny = self.before < _TINY and width < SHORT and len(self.ends) < _FEW
        if small and self.final not in _ENDS and not tiny:
            return False
        if len(self.ends) < _FEW:
            return not SHORT <= self.before <= _LONG
        wrapped = 2 * sum(end > width for end in self.ends) > len(self.ends)
        return not wrapped or (self.before + 1 + _ROOM <= width and not small)
