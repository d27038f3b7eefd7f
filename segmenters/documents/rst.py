"""reStructuredText -> parts: titles, code, directives, tables, lists, paragraphs.

Code is the body of a code directive, in the language that it names, indented text after "::", and a
doctest (">>>", up to a blank line). Titles with their adornment, lines of directives and options,
link targets and rows of tables are segments; a list item or field starts one. The bodies of other
directives are text. Source: docutils, "reStructuredText Markup Specification".
"""

import re
from collections.abc import Iterator
from typing import Final

from segmenters.documents.parts import EOL, Part, Reader
from segmenters.places import Walk, past

_LINE = re.compile(
    r"(?P<indent>[ \t]*+)(?:"
    r"(?P<rule>(?P<sign>[!-/:-@\[-`{-~])(?P=sign){2,}+(?=[ \t]*+(?:[\r\n]|\Z)))"
    r"|(?P<row>\+[-=+]{3,}|\|(?=[ \t])|=+[ \t]+=[= \t]*+(?=[\r\n]|\Z))"
    r"|\.\.[ \t]+(?P<directive>[\w:+.-]{1,60}(?<!:))::[ \t]*+(?P<argument>[^\r\n]*+)"
    r"|(?P<target>\.\.[ \t]+_[^\r\n]*+|__[ \t])"
    r"|(?P<comment>\.\.(?=[ \t]+(?![\[|])|[\r\n]))"
    r"|(?P<item>(?:[-*+\u2022]|(?:\d{1,9}|#|[A-Za-z])[.)]|\((?:\d{1,9}|#|[a-z])\))[ \t]+"
    r"|:[\w][^:\r\n]{0,60}:(?=[ \t\r\n]))"
    r"|(?P<doctest>>>>[ \t])|(?P<text>[^\r\n])|(?P<blank>))"
    rf"[^\r\n]*+{EOL}"
)
_UNDERLINE = re.compile(rf"([!-/:-@\[-`{{-~])\1{{2,}}+[ \t]*+{EOL}")
_OPTION = re.compile(rf"[ \t]+:[\w-]+:[^\r\n]*+{EOL}")
_BLANK = re.compile(r"[ \t]*+(?:[\r\n]|\Z)")
_CODE = frozenset(
    (
        *("code", "code-block", "sourcecode", "ipython", "ipython3", "doctest", "testcode"),
        *("testsetup", "testoutput", "parsed-literal", "math", "graphviz", "productionlist"),
        *("prompt", "jupyter-execute"),
    )
)
_TAB = 8


def parts(text: str) -> Iterator[Part]:
    """Yield the parts of a document in reStructuredText, in order."""
    return _Rst(text, _LINE).parts()


class _Rst(Reader):
    row = -1  # where the last row of a table ends
    opened: int | None = None  # indentation of the last paragraph, if it ends with "::"

    def block(self, line: re.Match[str], kind: str | None) -> list[Part]:
        if kind == "blank":
            return []
        below_colons = self.opened is not None and _width(line) > self.opened
        if below_colons:
            parts = [Part(end=self.body_end(line.start(), line), kind="code")]
        else:
            parts = self.of_line(line, kind)
        self.row = line.end() if kind == "row" and not below_colons else self.row
        ends = not parts and line.group().rstrip().endswith("::")
        self.opened = _width(line) if ends else None
        return parts

    def of_line(self, line: re.Match[str], kind: str | None) -> list[Part]:
        """Return the parts that begin with a line that is no literal text."""
        read = _LINES.get(kind or "")
        return read(self, line) if read else []

    def doctest(self, line: re.Match[str]) -> list[Part]:
        """Return a doctest, which ends at a blank line."""
        lines = Walk(_LINE, self.text, line.end())
        blank = next((below for below in lines if _BLANK.match(self.text, below.start())), None)
        end = self.after_blank_lines(blank.start()) if blank else len(self.text)
        return [Part(end=end, kind="lines")]

    def comment(self, line: re.Match[str]) -> list[Part]:
        if not self.blank:
            return []
        end = self.after_blank_lines(self.body_end(line.end(), line, of_directive=True))
        return [Part(end=end, kind="line")]

    def alone(self, line: re.Match[str]) -> list[Part]:
        """Return a row of a table or a target."""
        end = self.after_blank_lines(line.end())
        return [Part(end=end, kind="line", paragraph=line.start() != self.row)]

    def rule(self, line: re.Match[str]) -> list[Part]:
        """Return an adornment, with the title below it if another is below that."""
        title = past(_LINE, self.text, line.end())
        below = _UNDERLINE.match(self.text, title) if title > line.end() else None
        end = self.after_blank_lines(below.end() if below else line.end())
        return [Part(end=end, kind="line", section=below is not None)]

    def title(self, line: re.Match[str]) -> list[Part]:
        """Return a title with the adornment below it."""
        below = None if line["indent"] else _UNDERLINE.match(self.text, line.end())
        if below is None:
            return []
        return [Part(end=self.after_blank_lines(below.end()), kind="line", section=True)]

    def directive(self, line: re.Match[str]) -> list[Part]:
        """Return the lines of a directive and of its options, and its body if that is code."""
        places = [line.end()]
        for below in Walk(_LINE, self.text, places[0]):
            if not _OPTION.match(self.text, below.start()):
                break
            places.append(below.end())
        places[-1] = self.after_blank_lines(places[-1])
        parts = [Part(end=place, kind="line", paragraph=place == places[0]) for place in places]
        if line["directive"].rpartition(":")[2] in _CODE:
            stop = self.body_end(places[-1], line, of_directive=True)
            if stop > places[-1]:
                language = line["argument"].strip().split(" ")[0] or None
                parts.append(Part(end=stop, kind="code", language=language, paragraph=False))
        return parts

    def body_end(self, place: int, line: re.Match[str], *, of_directive: bool = False) -> int:
        """Return the end of a body: that of the directive in the line, or one that begins there."""
        width = _width(line) + of_directive
        for below in Walk(_LINE, self.text, place):
            if _width(below) < width and not _BLANK.match(self.text, below.start()):
                return below.start()
        return len(self.text)


# How lines of each kind are read; others are text.
_LINES: Final = {
    "argument": _Rst.directive,
    "doctest": _Rst.doctest,
    "comment": _Rst.comment,
    "row": _Rst.alone,
    "target": _Rst.alone,
    "rule": _Rst.rule,
    "text": _Rst.title,
}


def _width(line: re.Match[str]) -> int:
    return len(line["indent"].expandtabs(_TAB))
