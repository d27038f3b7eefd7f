r"""Tactic steps and declarations of Lean 4, by indentation.

A line starts a step unless it is indented deeper than the current step. A deeper line also starts
one after a line that opens a block (`by`, `:=`, `=>`, `do`, `where`, `with`, `then`, `else`,
`from`, `calc` at its end). After a bullet (`\u00b7 simp`) the tactic's own column counts. A line
that starts with `|` (an alternative) or, below a `calc`, with `_` is a step; one that starts with a
closing bracket or `<` (`<;>`, `<|`) never is. Lines in strings and comments (`--`, and `/- -/`,
which nest) start nothing; comments, attributes and `.. in` belong to the step below unless a blank
line separates them. Tactics on one line (`a; b`) are one step; a tab counts as one column. Source:
The Lean Language Reference, "Layout" and "Tactic proofs".
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from segmenters.base import Segmenter
from segmenters.places import nested_end

_COMMENT = re.compile(r"(?P<open>/-)|(?P<close>-/)")
_TOKEN = re.compile(
    r"(?P<newline>\r\n?|\n)|(?P<block>/-)|(?P<line>--[^\r\n]*+)|(?P<space>[^\S\r\n]++)"
    r'|(?P<string>"(?:[^"\\]|\\.)*+"?)'
    r"|'(?:\\[^\r\n]|[^\\\r\n])'|(?:[^\s\"'/\-]|(?<=\w)'|/(?!-)|-(?!-))++|.",
    re.DOTALL,
)
_OPENS = re.compile(r"(?:(?:^|[^\w.'])(?:by|do|where|with|then|else|from|calc)|=>|\u21a6|:=)$")
_JOINS = re.compile(r"(?:^|\s)in$")
_CALC = re.compile(r"(?:^|[\s:=(])calc(?!\w)")
_BULLET = re.compile(r"[\u00b7.](?: +|$)")
_NEVER = frozenset(")]}\u27e9<")
# The length of the longest word that opens a block, and of the character before it.
_TAIL = 6


@dataclass(frozen=True, kw_only=True, slots=True)
class Lean(Segmenter):
    """Starts a segment at each line that is a step. Causal: the first characters decide."""

    # The character after them distinguishes "| " and "_ " from |x| and _x.
    lookahead = 2

    def _ends(self, text: str) -> Iterable[int]:
        return _step_starts(text)


@dataclass(slots=True)
class _Line:
    """A line that is not blank; `code`: where its last code ends, None if it has none."""

    start: int
    column: int
    after_blank: bool
    code: int | None = None


def _step_starts(text: str) -> Iterator[int]:
    step = calc = -1  # the columns of the current step, and of a calc around it
    opens, joins = False, True
    for line in _lines(text):
        if line.column <= calc:
            calc = -1
        if line.after_blank and step < 0:
            joins = False  # only comments, and a blank line after them
        if not joins and _starts(text, line, step=step, opens=opens, calc=calc):
            yield line.start
            step, opens, joins = -1, False, True
        if line.code is None:
            continue
        if joins:
            step = line.column
            if bullet := _BULLET.match(text, line.start):
                step += bullet.end() - line.start
        code = text[line.start : line.code]
        tail = code[-_TAIL:]
        opens = _OPENS.search(tail) is not None
        joins = _JOINS.search(tail) is not None or (joins and code[:2] == "@[" and code[-1] == "]")
        if calc < 0 and _CALC.search(code):
            calc = line.column


def _starts(text: str, line: _Line, *, step: int, opens: bool, calc: int) -> bool:
    if text[line.start] in _NEVER:
        return False
    if line.column <= step or opens or step < 0:
        return True
    sign, behind = text[line.start], text[line.start + 1 : line.start + 2].isspace()
    return behind and (sign == "|" or (sign == "_" and calc >= 0))


def _lines(text: str) -> Iterator[_Line]:
    """Yield the lines that are not blank; a comment or string over several lines makes one."""
    line: _Line | None = None
    begin, place, blank = 0, 0, False
    while match := _TOKEN.match(text, place):
        place, kind = match.end(), match.lastgroup
        if kind == "newline":
            if line is not None:
                yield line
            blank, begin, line = line is None, place, None
            continue
        if kind == "space":
            continue
        if line is None:
            line = _Line(start=match.start(), column=match.start() - begin, after_blank=blank)
        if kind == "block":
            place = nested_end(text, match.start(), _COMMENT)
        elif kind != "line":
            line.code = place
    if line is not None:
        yield line
