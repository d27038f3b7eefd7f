"""Markdown -> parts: fenced code, headings, rows of tables, list items, paragraphs.

A fence is three or more back-quotes or tildes, closed by at least as many of the same, or by the
end of the document; the first word behind it names the language (CommonMark 0.31, section 4.5).
It may be indented as far as the list item that it stands in. The fence lines are segments, as are
headings and rows of tables; a list item starts a segment; blank lines stay with what is above.
Code that is only indented, fences inside of block quotes, and formulas are not looked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from segmenters.mixed.parts import Part

_LINE = re.compile(
    r"(?P<indent>[ \t]*+)(?:(?P<fence>`{3,}(?=[^`\r\n]*+(?:[\r\n]|\Z))|~{3,})(?P<info>[^\r\n]*+)"
    r"|(?P<heading>#{1,6}(?=[ \t\r\n]|\Z))|(?P<row>\|)"
    r"|(?P<rule>(?:=+|-{3,})(?=[ \t]*+(?:[\r\n]|\Z)))"
    r"|(?P<item>(?:[-*+]|\d{1,9}[.)])[ \t]+)|(?P<text>[^\r\n]))?"
    r"[^\r\n]*+(?:\r\n?|\n|\Z)"
)
_BLANK_LINES = re.compile(r"(?:[ \t]*+(?:\r\n?|\n))*+")
_LANGUAGE = re.compile(r"\s*\{?\s*\.?([^\s{},]+)")
_MATTER = re.compile(r"---[ \t]*\n(?=[\w\"'-]+:)(?:(?!---)[^\n]*\n)*+---[ \t]*(?:\n|\Z)")


def parts(text: str) -> Iterator[Part]:
    """The parts of a document in Markdown, in order."""
    place = 0
    if matter := _MATTER.match(text):
        yield Part(end=matter.end(), kind="code", language="yaml")
        place = matter.end()
    in_list = 0  # how far the contents of the list item above are indented
    prose = False  # whether a part of prose is open
    while place < len(text):
        line = _LINE.match(text, place)
        assert line is not None
        kind, start, place = line.lastgroup, place, line.end()
        indent = len(line["indent"])
        if kind == "info" and indent <= in_list + 3:
            if start and prose:
                yield Part(end=start, kind="prose")
            prose = False
            yield from _fenced(text, line)
            place = _closing(text, line)[1]
            continue
        if kind in ("heading", "row", "item") and prose:
            yield Part(end=start, kind="prose")
            prose = False
        if kind in ("heading", "row", "rule"):
            place = _after_blank_lines(text, place)
            yield Part(end=place, kind="line" if kind != "rule" or not prose else "prose")
            prose = False
            continue
        if kind == "item":
            in_list = indent + len(line["item"])
        elif kind == "text" and indent == 0:
            in_list = 0
        prose = True
    if prose:
        yield Part(end=len(text), kind="prose")


def _fenced(text: str, opening: re.Match[str]) -> Iterator[Part]:
    """The line that opens, the code, and the line that closes."""
    code_end, end = _closing(text, opening)
    yield Part(end=opening.end(), kind="line")
    language = _LANGUAGE.match(opening["info"])
    if code_end > opening.end():
        yield Part(end=code_end, kind="code", language=language[1] if language else None)
    if end > code_end:
        yield Part(end=end, kind="line")


def _closing(text: str, opening: re.Match[str]) -> tuple[int, int]:
    """Where the code ends and where the line that closes it ends, blank lines included."""
    sign, size = opening["fence"][0], len(opening["fence"])
    pattern = re.compile(
        rf"^[ \t]*+{sign}{{{min(size, 1000)},}}[ \t]*+(?:\r?\n|\r|\Z)", re.MULTILINE
    )
    closing = pattern.search(text, opening.end())
    if closing is None:
        return len(text), len(text)
    return closing.start(), _after_blank_lines(text, closing.end())


def _after_blank_lines(text: str, place: int) -> int:
    match = _BLANK_LINES.match(text, place)
    assert match is not None
    return match.end()
