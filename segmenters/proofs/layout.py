r"""Steps of proofs in languages with layout: Lean 4 and Agda, by indentation.

A line starts a step unless it is indented deeper than the current step. A deeper line also starts
one after a line that opens a block: one that ends with `by`, `:=`, `=>`, `do`, `where`, `with`,
`then`, `else`, `from`, `calc` in Lean, with `where`, `=`, `begin`, `let`, `private` and the like in
Agda. A line that starts with `|` (an alternative) or, below a `calc`, with `_` is a step; one that
starts with a closing bracket, `<` (`<;>`, `<|`) or, in Agda, `;` never is, nor is one in brackets
of Agda. After a bullet of Lean (`\u00b7 simp`) the tactic's own column counts. Lines in strings and
comments (`--`, and `/- -/` or `{- -}`, which nest) start nothing; comments, attributes and `.. in`
belong to the step below unless a blank line separates them. Tactics on one line (`a; b`) are one
step; a tab counts as one column.
Sources: The Lean Language Reference, "Layout" and "Tactic proofs"; the Agda documentation, "Lexical
structure".
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Final, NamedTuple

from segmenters.base import Machine
from segmenters.proofs.items import Formal
from segmenters.proofs.scanning import Hidden, Rules, Scanner

# What may be between a word and the end of its line.
_REST = r"(?=[^\S\r\n]{0,20}+(?:[\r\n]|--))"
_LINE = r"(?P<line>\r\n?|\n)"
_REACH = 40


class _Layout(NamedTuple):
    """The patterns of a language: `start`: where a line has no code yet; `never`: see above."""

    rules: Rules
    start: re.Pattern[str]
    bullet: re.Pattern[str]
    never: str


def _layout(
    *, opens: str, rest: str, signs: str, block: Hidden, bullet: str, never: str
) -> _Layout:
    hidden = (Hidden("--", r"(?=[\r\n])"), block, Hidden('"', '"', r"\\."))
    tokens = rf"{_LINE}|(?P<opens>(?:{opens}){_REST})|{rest}"
    start = rf"{_LINE}|(?P<hides0>--)|(?P<hides1>{block.opens})|(?P<visible>\S)"
    rules = Rules.of(tokens, signs=signs, hidden=hidden, reach=_REACH)
    return _Layout(rules, re.compile(start), re.compile(bullet), never)


_LEAN: Final = _layout(
    opens=r"(?<![\w.'])(?:by|do|where|with|then|else|from|calc)|=>|\u21a6|:=",
    rest=rf"(?P<joins>(?<!\S)in{_REST})|(?P<attribute>\]{_REST})|(?P<calc>(?<![^\s:=(])calc(?!\w))"
    r"|(?<!\w)'(?:\\[^\r\n]|[^\\\r\n])'",
    signs=r"\r\n\"'/\-\]=:\u21a6bdwtefic",
    block=Hidden("/-", "-/", nests=True),
    bullet=r"[\u00b7.] {1,30}+",
    never=")]}\u27e9<",
)
_AGDA: Final = _layout(
    opens=r"(?<![^\s;{}()@\"])(?:where|do|let|of|=|begin|postulate|private|mutual|abstract|instance"
    r"|field|variable|opaque|macro|primitive)",
    rest=r"[({](?!-)(?:[^(){}\"'\r\n-]++|-(?![-}]))*+[)}]|(?P<nests>\(|\{(?!-(?!#)))|(?P<closes>[)}])"
    r"|(?<![^\s.;{}()@\"])'(?:\\[^\r\n]{1,8}|[^\\\r\n])'",
    signs=r"\r\n\"'(){}\-=wdlobpmaifv",
    block=Hidden(r"\{-(?!#)", r"-\}", nests=True),
    bullet=r"(?!)",
    never=')]}\u27e9;#"',
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Lean(Formal):
    """Starts a segment at each line that is a step. Causal: the first characters decide."""

    version: ClassVar[int] = 2
    dialect: ClassVar[str] = "lean"

    # The character after them distinguishes "| " and "_ " from |x| and _x.
    lookahead = 2

    def _ends(self, text: str) -> Iterable[int]:
        return _LeanLines().scan(text, final=True)

    def machine(self) -> Machine:
        return _LeanLines()


@dataclass(frozen=True, kw_only=True, slots=True)
class Agda(Formal):
    """Starts a segment at each line that is a step. Causal: the first characters decide."""

    dialect: ClassVar[str] = "agda"
    lookahead = 2

    def _ends(self, text: str) -> Iterable[int]:
        return _AgdaLines().scan(text, final=True)

    def machine(self) -> Machine:
        return _AgdaLines()


@dataclass(slots=True, kw_only=True)
class _Lines(Scanner):
    begin: int = 0  # of this line
    column: int = 0  # of its first visible character
    fresh: bool = True  # nothing visible is on this line
    code: bool = False  # code is on it
    blank: bool = False  # the line above is blank
    step: int = -1  # the columns of the current step, and of a calc around it
    calc: int = -1
    opens: bool = False  # the line above opens a block
    joins: bool = True  # the line above belongs to the step in this one
    attribute: bool = False  # this line begins with "@["
    ending: str = ""  # what it ends with, if that decides
    calls: bool = False  # it holds "calc"
    nest: int = 0  # open brackets, in which no step starts; one at the margin closes them

    layout: ClassVar[_Layout]

    def pattern(self) -> re.Pattern[str]:
        return self.layout.start if self.hidden < 0 and not self.code else Scanner.pattern(self)

    def hide(self, match: re.Match[str], place: int) -> None:
        if self.fresh:
            self._start(match, place)

    def token(self, kind: str, match: re.Match[str], place: int) -> int:
        if kind == "visible":
            if self.fresh:
                self._start(match, place)
            self.code = True
            if self.joins:
                bullet = self.layout.bullet.match(match.string, match.start())
                self.step = self.column + (len(bullet[0]) if bullet else 0)
            return place  # it is read as code
        if kind == "line":
            self._end(place + len(match[0]))
        elif kind == "calc":
            self.calls = True
        elif kind in ("nests", "closes"):
            self.nest = max(0, self.nest + (1 if kind == "nests" else -1))
        else:
            self.ending = kind
        if kind == "opens" and match[0] == "calc":
            self.calls = True
        return place + len(match[0])

    def _start(self, match: re.Match[str], place: int) -> None:
        """Decide whether a step starts with the line whose first visible character is here."""
        self.fresh, self.column = False, place - self.begin
        if self.column <= self.calc:
            self.calc = -1
        if self.blank and self.step < 0:
            self.joins = False  # only comments, and a blank line after them
        signs = match.string[match.start() : match.start() + 2]
        self.attribute = signs == "@["
        if not self.joins and self._is_step(signs):
            self.cut(place)
            self.step, self.opens, self.joins = -1, False, True

    def _is_step(self, signs: str) -> bool:
        if signs[0] in self.layout.never or (self.nest and self.column):
            return False
        self.nest = 0
        if self.column <= self.step or self.opens or self.step < 0:
            return True
        return signs[1:].isspace() and (signs[0] == "|" or (signs[0] == "_" and self.calc >= 0))

    def _end(self, begin: int) -> None:
        """Follow the end of a line, where another begins."""
        if self.code:
            self.opens = self.ending == "opens"
            attribute = self.joins and self.attribute and self.ending == "attribute"
            self.joins = self.ending == "joins" or attribute
            if self.calc < 0 and self.calls:
                self.calc = self.column
        self.blank, self.begin = self.fresh, begin
        self.fresh, self.code, self.calls, self.ending = True, False, False, ""


@dataclass(slots=True, kw_only=True)
class _LeanLines(_Lines):
    rules: ClassVar[Rules] = _LEAN.rules
    layout: ClassVar[_Layout] = _LEAN


@dataclass(slots=True, kw_only=True)
class _AgdaLines(_Lines):
    rules: ClassVar[Rules] = _AGDA.rules
    layout: ClassVar[_Layout] = _AGDA
