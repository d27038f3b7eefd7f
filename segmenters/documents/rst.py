"""reStructuredText -> parts: titles, code, directives, tables, lists, paragraphs.

Code is the body of a code directive, in the language that it names, indented text after "::", and a
doctest (">>>", up to a blank line). Titles with their adornment, lines of directives and options,
link targets and rows of tables are segments; a list item or field starts one. The bodies of other
directives are text. Source: docutils, "reStructuredText Markup Specification".
"""

import re
from collections.abc import Iterator

from segmenters.documents.parts import Part
from segmenters.places import BLANK_LINES, Walk, past

_EOL = r"(?:\r\n?|\n|\Z)"
_LINE = re.compile(
    r"(?P<indent>[ \t]*+)(?:"
    r"(?P<rule>(?P<sign>[!-/:-@\[-`{-~])(?P=sign){2,}+(?=[ \t]*+(?:[\r\n]|\Z)))"
    r"|(?P<row>\+[-=+]{3,}|\|(?=[ \t])|=+[ \t]+=[= \t]*+(?=[\r\n]|\Z))"
    r"|\.\.[ \t]+(?P<directive>[\w:+.-]{1,60}(?<!:))::[ \t]*+(?P<argument>[^\r\n]*+)"
    r"|(?P<target>\.\.[ \t]+_[^\r\n]*+|__[ \t])"
    r"|(?P<item>(?:[-*+\u2022]|(?:\d{1,9}|#|[A-Za-z])[.)]|\((?:\d{1,9}|#|[a-z])\))[ \t]+"
    r"|:[\w][^:\r\n]{0,60}:(?=[ \t\r\n]))"
    r"|(?P<doctest>>>>[ \t])|(?P<text>[^\r\n]))?"
    rf"[^\r\n]*+{_EOL}"
)
_UNDERLINE = re.compile(rf"([!-/:-@\[-`{{-~])\1{{2,}}+[ \t]*+{_EOL}")
_OPTION = re.compile(rf"[ \t]+:[\w-]+:[^\r\n]*+{_EOL}")
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
    end = 0
    prose = False
    row = -1  # where the last row of a table ends
    opened: int | None = None  # indentation of the last paragraph, if it ends with "::"
    lines = Walk(_LINE, text)
    for line in lines:
        kind, start = line.lastgroup, line.start()
        kind = None if kind == "indent" else kind  # a blank line
        if opened is not None and kind is not None and _width(line) > opened:
            if prose and end < start:
                yield Part(end=start, kind="marked")
            end = _body_end(text, start, line)
            lines.skip(end)
            yield Part(end=end, kind="code")
            opened, prose = None, False
            continue
        block = _block(text, line, kind, in_table=start == row)
        row = line.end() if kind == "row" else row
        if (block or kind == "item") and prose:
            yield Part(end=start, kind="marked")
            end, prose = start, False
        if block:
            yield from block
            end = block[-1].end
            lines.skip(end)
            opened = None
            continue
        prose = prose or kind is not None
        if kind is not None:
            opened = _width(line) if line.group().rstrip().endswith("::") else None
    if end < len(text):
        yield Part(end=len(text), kind="marked")


def _block(text: str, line: re.Match[str], kind: str | None, *, in_table: bool) -> list[Part]:
    """Return the parts that begin with this line; none for a line of a paragraph or list."""
    place = line.end()
    if kind == "argument":
        return _directive(text, line)
    if kind == "doctest":
        lines = Walk(_LINE, text, place)
        blank = next((below for below in lines if _BLANK.match(text, below.start())), None)
        end = past(BLANK_LINES, text, blank.start()) if blank else len(text)
        return [Part(end=end, kind="lines")]
    if kind in ("row", "target"):
        end = past(BLANK_LINES, text, place)
        return [Part(end=end, kind="line", paragraph=not in_table)]
    if kind == "rule":
        # An adornment above a title, if one is below it too.
        title = past(_LINE, text, place)
        below = _UNDERLINE.match(text, title) if title > place else None
        end = past(BLANK_LINES, text, below.end() if below else place)
        return [Part(end=end, kind="line", section=below is not None)]
    if kind == "text" and not line["indent"] and (below := _UNDERLINE.match(text, place)):
        return [Part(end=past(BLANK_LINES, text, below.end()), kind="line", section=True)]
    return []


def _directive(text: str, line: re.Match[str]) -> list[Part]:
    """Return the lines of a directive and of its options, and its body if that is code."""
    places = [line.end()]
    for below in Walk(_LINE, text, places[0]):
        if not _OPTION.match(text, below.start()):
            break
        places.append(below.end())
    places[-1] = past(BLANK_LINES, text, places[-1])
    found = [Part(end=place, kind="line", paragraph=place == places[0]) for place in places]
    name = line["directive"].rpartition(":")[2]
    if name in _CODE:
        stop = _body_end(text, places[-1], line, of_directive=True)
        if stop > places[-1]:
            language = line["argument"].strip().split(" ")[0] or None
            found.append(Part(end=stop, kind="code", language=language, paragraph=False))
    return found


def _body_end(text: str, place: int, line: re.Match[str], *, of_directive: bool = False) -> int:
    """Return the end of a body: that of the directive in the line, or one that begins there."""
    width = _width(line)
    for below in Walk(_LINE, text, place):
        outside = _width(below) < width or (of_directive and _width(below) == width)
        if outside and not _BLANK.match(text, below.start()):
            return below.start()
    return len(text)


def _width(line: re.Match[str]) -> int:
    return len(line["indent"].expandtabs(_TAB))
