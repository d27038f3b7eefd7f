"""Parts of a document: where each ends, what kind of text it is, and how it is read.

`marked_ends` reads prose in markup and never cuts a code span (`a. b`, ``a. b``), a formula ($x$,
$$x$$), a tag, a comment or the address of a link: the causal rules read a shadow of the same length
in which these are masked. A display ends its sentence if its last character does. A dollar opens a
formula before a non-space, and closes one after a non-space unless a digit follows (pandoc's rule,
"Math"), so prices are no formulas. A span that is not closed in its paragraph is text.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from segmenters.base import Cuts
from segmenters.places import BLANK_LINES, PARAGRAPH_END, Walk, past
from segmenters.prose import rules

EOL = r"(?:\r\n?|\n|\Z)"
# Spans are short; a bound keeps the time of hostile text linear.
_SPAN = 300
_WRAPPED = r"\n(?![ \t\r]*+\n)"  # a line end in a paragraph
_VALUE = rf"\"[^\"<>]{{0,{_SPAN}}}+\"|'[^'<>]{{0,{_SPAN}}}+'|[^\s\"'<>`]++"
_ATTRIBUTE = rf"\s++[\w:@-]{{1,60}}+(?:=(?:{_VALUE}))?+"
_RAW = r"(?P<name>nowiki|code|tt|kbd|math)\b"
_SPANS = (
    r"(?<=`)(?<!``)"
    rf"(?:(?P<code>[^`\n]{{1,{_SPAN}}}+(?:{_WRAPPED}[^`\n]{{1,{_SPAN}}}+)?)`(?!`)"
    rf"|`(?P<literal>[^`\n]{{1,{_SPAN}}}+(?:`[^`\n]{{1,{_SPAN}}}+){{0,4}})``(?!`))"
    rf"|(?<![\\$]\$)(?<=\$)\$(?P<display>(?:[^$\n]++|{_WRAPPED})++)\$\$"
    rf"|(?<![\\$\w]\$)(?<=\$)(?P<formula>(?![\s$])[^$\n]{{1,{_SPAN}}}(?<![\s\\]))\$(?![\d$])"
    rf"|(?<=\]\()(?P<address>[^()\n]{{1,{_SPAN}}}+"
    rf"(?:\([^()\n]{{0,{_SPAN}}}+\)[^()\n]{{0,{_SPAN}}}+)?+)(?=\))"
    rf"|(?<=\[\[)(?P<target>[^\[\]|\n]{{1,{_SPAN}}}+)(?=[\]|])"
    rf"|(?<=<)(?:(?P<comment>!--(?:[^\n<-]++|<(?!!--)|-(?!->)|{_WRAPPED})*+--)"
    rf"|(?P<link>[a-z][a-z\d+.-]{{1,20}}+:[^<>\n]{{0,{_SPAN}}}+)"
    rf"|(?P<raw>{_RAW}[^<>\n]{{0,{_SPAN}}}+>(?:[^<\n]++|<(?!/(?P=name)>)){{0,{_SPAN}}}+</(?P=name))"
    rf"|(?P<tag>[A-Za-z][\w-]{{0,40}}+(?:{_ATTRIBUTE}){{1,20}}+\s*+/?+))(?=>)"
)
_HIDDEN = re.compile(rf"[`$<(\[](?:{_SPANS})")
_LETTER = "x"
LEVELS: Final = ("segment", "paragraph", "section")
_STOPS = (".", "?", "!")


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class View:
    """What a segmenter reads in place of the raw characters: unescaped, or without prefixes.

    `places[i]`: where in the document (characters) a segment begins that begins at `text[i]`.
    """

    text: str
    places: Cuts


class Part(NamedTuple):
    """The text from the end of the part before up to `end` (characters).

    `kind`: "line" (one segment), "lines" (physical lines), "prose", "marked" (prose with code spans
    and formulas), "tagged" (prose between tags),
    "code", or a format, for a document in the document. A part begins a section, or a paragraph, or
    neither.
    """

    end: int
    kind: str
    language: str | None = None  # as the document calls that of its code: "python", "c++"
    view: View | None = None  # how the part is read, if not as it is
    paragraph: bool = True  # whether it begins a paragraph
    section: bool = False  # whether it begins a section


class Reader:
    """Reads a document by lines, of which `block` says whether they are parts of their own."""

    def __init__(self, text: str, line: re.Pattern[str]) -> None:
        self.text, self.line = text, line
        self.blank = True  # whether the line above is blank
        self.prose = False  # whether a part of text is open

    def parts(self) -> Iterator[Part]:
        """Yield the parts of the document, in order."""
        end = 0
        lines = Walk(self.line, self.text)
        for line in lines:
            kind, start = line.lastgroup, line.start()
            block = self.block(line, kind)
            if (block or kind == "item") and self.prose:
                yield Part(end=start, kind="marked")
                end, self.prose = start, False
            yield from block
            if block:
                end = block[-1].end
                lines.skip(end)
            self.blank = bool(block) or kind == "blank"
            self.prose = self.prose or not self.blank
        if end < len(self.text):
            yield Part(end=len(self.text), kind="marked")

    def block(self, line: re.Match[str], kind: str | None) -> list[Part]:
        """Return the parts that begin with this line; none for a line of text or of an item."""
        raise NotImplementedError

    def after_blank_lines(self, place: int) -> int:
        return past(BLANK_LINES, self.text, place)


def after_blank_lines(text: str) -> Iterator[int]:
    """Yield where the text goes on behind blank lines: there paragraphs begin."""
    return (match.end() for match in PARAGRAPH_END.finditer(text))


def spliced(text: str, pieces: Iterable[tuple[int, int, int]]) -> View:
    """Return a view of pieces (place, start, end), without what is before a start ("> ")."""
    seen: list[str] = []
    places: list[Cuts] = []
    for place, start, end in pieces:
        if end > start:
            seen.append(text[start:end])
            row = np.arange(start, end, dtype=np.int64)
            row[0] = place
            places.append(row)
    return view_of(seen, places)


def view_of(seen: list[str], places: list[Cuts]) -> View:
    """Join texts and the places of their characters into one view."""
    joined = np.concatenate(places) if places else np.empty(0, dtype=np.int64)
    return View(text="".join(seen), places=joined)


def marked_ends(text: str) -> list[int]:
    """Return where sentences end outside of code spans, formulas, tags and addresses."""
    return rules.sentence_ends(masked(text))


def masked(text: str) -> str:
    """Return the text with masks as long as its code spans, formulas, tags and addresses."""
    if any(sign in text for sign in ("`", "$", "<", "](", "[[")):
        return _HIDDEN.sub(_shadow, text)
    return text


def _shadow(match: re.Match[str]) -> str:
    """Return a mask as long as the span, inside of which no sentence ends."""
    start, end = match.span(match.lastgroup or 0)
    if match.lastgroup not in ("display", "formula"):
        signs = match.string[match.start() : start], match.string[end : match.end()]
        return (_LETTER * (end - start)).join(signs)
    length = match.end() - match.start()
    if match.lastgroup == "display" and match.string[start:end].rstrip().endswith(_STOPS):
        return "$" * (length - 1) + match.string[start:end].rstrip()[-1]
    return "$" * length
