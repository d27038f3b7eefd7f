"""Markdown -> parts: fenced and indented code, headings, tables, lists, quotations, paragraphs.

A fence is three or more back-quotes or tildes, closed by at least as many of the same; an unclosed
one ends with its list item, else with the document. The first word after it names the language
(CommonMark 0.31, section 4.5). Fence lines, headings, rows of tables and link definitions are
segments; a list item starts one; blank lines stay with the text above. A quotation is read without
its ">" as Markdown; a block of HTML is HTML; front matter is YAML or TOML. A display of mathematics
($$, an environment) stays in its sentence.
"""

import re
from collections.abc import Iterator
from typing import Final

from segmenters.documents.html import BLOCKS
from segmenters.documents.parts import EOL, Part, Reader, View, spliced
from segmenters.places import Walk, past

_FENCE = r"(?P<fence>`{3,}(?=[^`\r\n]*+(?:[\r\n]|\Z))|~{3,})(?P<info>[^\r\n]*+)"
_KINDS = (
    rf"{_FENCE}"
    r"|(?P<heading>#{1,6}(?=[ \t\r\n]|\Z))|(?P<row>\|)"
    r"|(?P<rule>(?:=+|-{3,}|(?:\*[ \t]*+){3,}+|(?:_[ \t]*+){3,}+)(?=[ \t]*+(?:[\r\n]|\Z)))"
    r"|(?P<item>(?:[-*+]|\d{1,9}[.)]|\[\^[^\]\s]{1,60}\]:)[ \t]+)|(?P<quote>>)"
    r"|(?P<link>\[(?!\^)[^\]\r\n]{1,200}\]:[ \t]+(?=\S))|(?P<comment><!--)"
    r"|</?(?P<html>[A-Za-z][A-Za-z0-9]{0,20})(?=[\s/>])"
    r"|(?P<math>\$\$|\\begin\{(?P<environment>[A-Za-z]{1,20}\*?)\})|(?P<text>[^\r\n])"
)
_LINE = re.compile(rf"(?P<indent>[ \t]*+)(?:{_KINDS})?[^\r\n]*+{EOL}")
# Most lines are of kind "text" and in no table: those of paragraphs are read together, up to where
# `plain` begins with the last one (empty behind a blank line), and so are those of an item.
_TEXT = (
    r"(?:[^\s\d#|=*_+\[>`~<$\\-]|\*{1,2}+(?![\s*])|_{1,2}+(?![\s_])|`(?!``)|\d++(?![.)])"
    r"|\[[^\]\r\n|]*+\](?!:))[^|\r\n]*+\r?\n"
)
_LINES = re.compile(
    rf"(?={_TEXT})(?:(?:{_TEXT})*+(?:[ \t]*+\r?\n)++)*+(?P<plain>(?:{_TEXT})*+)"
    rf"|(?P<indent>[ \t]*+)(?:(?P<more>(?<=[ \t]){_TEXT}(?:[ \t]++{_TEXT})*+)"
    rf"|(?:{_KINDS})?[^\r\n]*+{EOL})"
)
_FENCE_IN_ITEM = re.compile(_FENCE + EOL)
_QUOTED = re.compile(r"[ \t]*+>[ \t]?")
_REST = re.compile(rf"[^\r\n]*+{EOL}")
_INDENT = re.compile(r"[ \t]*+")
_BLANK = re.compile(r"[ \t]*+(?:[\r\n]|\Z)")
_BLANK_LINE = re.compile(r"(?:\r\n?+|\n)[ \t]*+(?:\r\n?|\n)")
_LANGUAGE = re.compile(r"\s*\{?\s*\.?([^\s{},]+)")
_MATTER = re.compile(
    r"---[ \t\r]*\n(?=[\w\"'-]+:)(?:(?!---)[^\n]*\n)*+---[ \t\r]*(?:\n|\Z)"
    r"|(?P<toml>\+\+\+)[ \t\r]*\n(?:(?!\+\+\+)[^\n]*\n)*+\+\+\+[ \t\r]*(?:\n|\Z)"
)
# A table without outer bars is recognised by the row below its head.
_DELIMITERS = re.compile(rf"[ \t]*+:?-+:?[ \t]*+(?:\|[ \t]*+:?-+:?[ \t]*+)++\|?[ \t]*+{EOL}")
_RAW = frozenset(("pre", "script", "style", "textarea"))
_CODE_INDENT = 4
_LONGEST_DISPLAY = 5000  # characters: a sign that is not closed so soon is none of mathematics
# Kinds of lines that mean the same however far they are indented.
_ANYWHERE = frozenset(("heading", "row", "link", "rule", "text"))


def parts(text: str) -> Iterator[Part]:
    """Yield the parts of a document in Markdown, in order."""
    return _Blocks(text).parts()


class _Blocks(Reader):
    def __init__(self, text: str) -> None:
        super().__init__(text, _LINES)
        self.in_list = 0  # how far the contents of the list item above are indented
        self.begun = 0  # where the last paragraph of it begins
        self.last = ("", 0)  # kind and end of the last line that is a part of its own
        # Closing signs that are missing, and from where; of fences, from which length.
        self.missing: dict[str, int] = {}

    def parts(self) -> Iterator[Part]:
        end = 0
        if matter := _MATTER.match(self.text):
            language = "toml" if matter["toml"] else "yaml"
            closing = self.text.rfind("\n", 0, matter.end() - 1) + 1
            yield Part(end=closing, kind="code", language=language)
            end = self.after_blank_lines(matter.end())
            yield Part(end=end, kind="line", paragraph=False)
        lines = Walk(self.line, self.text, end)
        for line in lines:
            start, kind = line.start(), line.lastgroup
            if kind == "plain":
                paragraph = line.start(kind)
                if self.blank or paragraph > start:
                    self.begun = paragraph
                self.blank, self.prose, self.in_list = paragraph == line.end(), True, 0
                continue
            if block := self.block(line, kind):
                # A rule makes a heading of the paragraph above it.
                above = self.begun if block[0].kind == "marked" else start
                if self.prose and above > end:
                    yield Part(end=above, kind="marked")
                yield from block
                end = block[-1].end
                lines.skip(end)
                self.prose, self.blank = False, True
                continue
            if kind == "item" and self.prose:
                yield Part(end=start, kind="marked")
                end = start
            if self.blank or kind == "item":
                self.begun = start
            lines.skip(self.paragraph(line, kind))
        if end < len(self.text):
            yield Part(end=len(self.text), kind="marked")

    def block(self, line: re.Match[str], kind: str | None) -> list[Part]:
        """Return the parts that begin with this line; none for a line of a paragraph or list."""
        if kind is None or kind == "indent":
            return []
        indent = _width(line["indent"])
        if kind == "item":
            return self.item(line, indent)
        if self.blank and indent >= self.in_list + _CODE_INDENT:
            end = self.indented(line.start(), self.in_list + _CODE_INDENT)
            return [Part(end=end, kind="code")]
        if kind in _ANYWHERE or indent < self.in_list + _CODE_INDENT:
            read = _BLOCKS.get(kind)
            return read(self, line, kind, indent) if read else []
        return []

    def item(self, line: re.Match[str], indent: int) -> list[Part]:
        """Return the fence with which an item begins, if it does."""
        inner = _FENCE_IN_ITEM.match(self.text, line.end("item"))
        if inner is None:
            return []
        self.in_list = indent + len(line["item"])
        return self.fenced(inner, line.end(), self.in_list)

    def alone(self, line: re.Match[str], kind: str, indent: int) -> list[Part]:
        """Return a heading, a row of a table or a definition of a link."""
        end = self.after_blank_lines(line.end())
        begins = kind == "heading" or self.last != (kind, line.start())
        self.last = (kind, line.end())
        return [Part(end=end, kind="line", paragraph=begins, section=kind == "heading")]

    def fence(self, line: re.Match[str], kind: str, indent: int) -> list[Part]:
        return self.fenced(line, line.end(), indent)

    def rule(self, line: re.Match[str], kind: str, indent: int) -> list[Part]:
        """Return a rule, which may make a heading of the paragraph above it."""
        heading = self.underlines(line)
        part = "marked" if heading else "line"
        return [Part(end=self.after_blank_lines(line.end()), kind=part, section=heading)]

    def quote(self, line: re.Match[str], kind: str, indent: int) -> list[Part]:
        end, view = self.quotation(line.start())
        return [Part(end=self.after_blank_lines(end), kind="markdown", view=view)]

    def comment(self, line: re.Match[str], kind: str, indent: int) -> list[Part]:
        end = self.line_of("-->", line.start())
        return [Part(end=self.after_blank_lines(end), kind="html")] if end else []

    def html(self, line: re.Match[str], kind: str, indent: int) -> list[Part]:
        """Return a block of HTML."""
        name = line["html"].lower()
        if name not in BLOCKS | _RAW:
            return []
        end = self.line_of(f"</{name}", line.start()) if name in _RAW else 0
        return [Part(end=end or self.paragraph_end(line.start()), kind="html")]

    def underlines(self, line: re.Match[str]) -> bool:
        """Return whether the line is a rule that makes a heading of the paragraph above it."""
        return self.prose and not self.blank and (line["rule"] or "+")[0] in "=-"

    def paragraph(self, line: re.Match[str], kind: str | None) -> int:
        """Read a line of a paragraph, a list item or a display; return where to continue."""
        place = line.end()
        self.blank = kind is None or kind == "indent"
        # White space at the very start goes with what follows.
        self.prose = self.prose or not self.blank
        if kind == "item":
            self.in_list = _width(line["indent"]) + len(line["item"])
        elif kind in ("math", "environment"):
            sign = f"\\end{{{line['environment']}}}" if line["environment"] else "$$"
            inside = line.end("math")
            found = self.text.find(sign, inside, inside + _LONGEST_DISPLAY)
            if found >= 0 and not _BLANK_LINE.search(self.text, inside, found):
                place = past(_REST, self.text, found)
        elif kind == "text" and not line["indent"]:
            self.in_list = 0
        return place

    def fenced(self, opening: re.Match[str], line_end: int, indent: int) -> list[Part]:
        """Return the parts of a fence: the opening line, the code and the closing line."""
        code_end, end = self.closing(opening, line_end, indent)
        language = _LANGUAGE.match(opening["info"])
        parts = [Part(end=line_end, kind="line")]
        if code_end > line_end:
            name = language[1] if language else None
            parts.append(Part(end=code_end, kind="code", language=name, paragraph=False))
        return [*parts, Part(end=end, kind="line", paragraph=False)] if end > code_end else parts

    def closing(self, opening: re.Match[str], start: int, indent: int) -> tuple[int, int]:
        """Return where the code ends, and where its closing line does, blank lines included."""
        sign, size = opening["fence"][0], min(len(opening["fence"]), 1000)  # bounds the pattern
        if size < self.missing.get(sign, size + 1):
            pattern = rf"^[ \t]*+{sign}{{{size},}}[ \t]*+(?:\r?\n|\r|\Z)"
            if closing := re.compile(pattern, re.MULTILINE).search(self.text, start):
                return closing.start(), self.after_blank_lines(closing.end())
            self.missing[sign] = size
        if not indent or indent < self.in_list or not self.in_list:
            return len(self.text), len(self.text)
        return (self.indented(start, self.in_list),) * 2

    def indented(self, place: int, width: int) -> int:
        """Return the end of the lines that are blank or indented by at least `width`."""
        for line in Walk(_REST, self.text, place):
            indent = self.text[line.start() : past(_INDENT, self.text, line.start())]
            if not _BLANK.match(self.text, line.start()) and _width(indent) < width:
                return line.start()
        return len(self.text)

    def quotation(self, place: int) -> tuple[int, View]:
        """Return the end and the view of lines with ">" and of text that continues them."""
        pieces: list[tuple[int, int, int]] = []
        for line in Walk(_LINE, self.text, place):
            quoted = _QUOTED.match(self.text, line.start())
            if quoted is None and pieces and (line.lastgroup != "text" or line["indent"]):
                return line.start(), spliced(self.text, pieces)
            start = quoted.end() if quoted else line.start()
            pieces.append((line.start(), start, line.end()))
        return len(self.text), spliced(self.text, pieces)

    def table(self, line: re.Match[str], kind: str, indent: int) -> list[Part]:
        """Return the rows of a table whose head is this line, if the line below shows one."""
        delimiters = "|" in line.group() and _DELIMITERS.match(self.text, line.end())
        if not delimiters:
            return []
        places = [line.end(), delimiters.end()]
        for row in Walk(_REST, self.text, delimiters.end()):
            if "|" not in row.group():
                break
            places.append(row.end())
        places[-1] = self.after_blank_lines(places[-1])
        return [Part(end=end, kind="line", paragraph=end == places[0]) for end in places]

    def line_of(self, sign: str, place: int) -> int:
        """Return the end of the line that holds the sign, 0 if none does."""
        if place >= self.missing.get(sign, len(self.text)):
            return 0
        sign_place = self.text.find(sign, place)
        if sign_place < 0:
            self.missing[sign] = place
            return 0
        return past(_REST, self.text, sign_place)

    def paragraph_end(self, place: int) -> int:
        blank = _BLANK_LINE.search(self.text, place)
        return self.after_blank_lines(blank.start()) if blank else len(self.text)


# How lines of each kind are read, by the last group that matches in them; others are text.
_BLOCKS: Final = {
    "heading": _Blocks.alone,
    "row": _Blocks.alone,
    "link": _Blocks.alone,
    "info": _Blocks.fence,
    "rule": _Blocks.rule,
    "text": _Blocks.table,
    "quote": _Blocks.quote,
    "comment": _Blocks.comment,
    "html": _Blocks.html,
}


def _width(indent: str) -> int:
    return len(indent.expandtabs(_CODE_INDENT)) if "\t" in indent else len(indent)
