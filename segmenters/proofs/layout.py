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
from dataclasses import dataclass
from typing import ClassVar, Final, NamedTuple

from segmenters.base import Machine
from segmenters.proofs.items import Stepwise
from segmenters.proofs.scanning import Hidden, Rules, Scanner

# What may be between a word and the end of its line.
_REST = r"(?=[^\S\r\n]{0,20}+(?:[\r\n]|--))"
# A line end; with it the indentation of the next line, if that has code and no comment first.
_LINE = (
    r"(?:\r\n?|\n)(?P<blank>[\r\n]{0,4}+)(?P<code>[^\S\r\n]{0,30}+(?=[^\s{/-]))"
    r"|(?P<line>\r\n?|\n)"
)
_REACH = 40
_BULLET = re.compile(r". {1,30}+")
# Words of Agda that open a block at the end of a line, and how far back they are looked for.
_AGDA_OPENS = (
    *("where", "do", "let", "of", "=", "begin", "postulate", "private", "mutual", "abstract"),
    *("instance", "field", "variable", "opaque", "macro", "primitive"),
)
_AGDA_OPEN = re.compile(rf"(?<![^\s;{{}}()@\"])(?:{'|'.join(_AGDA_OPENS)})[^\S\r\n]{{0,20}}\Z")
_AGDA_BACK = 36
_AGDA_LAST = frozenset(word[-1] for word in _AGDA_OPENS)


class _Layout(NamedTuple):
    """The patterns of a language: `start`: where a line has no code yet; `never`: see above."""

    rules: Rules
    start: re.Pattern[str]
    bullets: str
    never: str


def _layout(
    *, tokens: str, signs: str, block: Hidden, bullets: str, never: str, behind_sign: bool = False
) -> _Layout:
    hidden = (Hidden("--", r"(?=[\r\n])"), block, Hidden('"', '"', r"\\."))
    start = rf"{_LINE}|(?P<comment>)--[^\r\n]*+(?=[\r\n])|(?P<hides0>--)"
    start += rf"|(?P<hides1>{block.opens})|(?P<visible>\S)"
    tokens = tokens if behind_sign else f"{_LINE}|{tokens}"
    rules = Rules.of(tokens, signs=signs, hidden=hidden, reach=_REACH, behind_sign=behind_sign)
    return _Layout(rules, re.compile(start), bullets, never)


_LEAN: Final = _layout(
    tokens=rf"(?P<opens>(?:(?<![\w.'])(?:by|do|where|with|then|else|from|calc)|=>|\u21a6|:="
    rf"){_REST})|(?P<joins>(?<!\S)in{_REST})|(?P<attribute>\]{_REST})|(?P<calc>(?<![^\s:=(])calc(?!\w))"
    r"|(?<!\w)'(?:\\[^\r\n]|[^\\\r\n])'",
    signs=r"\r\n\"'/\-\]=:\u21a6bdwtefic",
    block=Hidden("/-", "-/", nests=True),
    bullets="\u00b7.",
    never=")]}\u27e9<",
)
# Brackets on a line, in brackets or not, are passed over at once.
_PLAIN = r"[^(){}\"'\r\n-]++|-(?![-}])|(?<![\s.;{}()@\"])'"
_FLAT = rf"[({{](?!-)(?:{_PLAIN})*+[)}}]"
_NESTED = rf"[({{](?!-)(?:{_PLAIN}|{_FLAT})*+[)}}]"
_AGDA: Final = _layout(
    tokens=r"(?<=[\r\n])(?:(?<=\r)\n)?+(?:(?P<blank>[\r\n]{0,4}+)"
    r"(?P<code>[^\S\r\n]{0,30}+(?=[^\s{-]|\{(?!-)|-(?!-)))|(?P<line>))"
    rf"|(?<=[({{])(?:(?!-)(?:{_PLAIN}|{_NESTED})*+[)}}]"
    r"|(?<=\()(?P<nests>)|-(?!#)(?P<hides1>)|(?P<nested>))|(?<=[)}])(?P<closes>)"
    r"|(?<=-)-(?:(?P<comment>)[^\r\n]*+(?=[\r\n])|(?P<hides0>))|(?<=\")(?P<hides2>)"
    r"|(?<=')(?<![^\s.;{}()@\"]')(?:\\[^\r\n]{1,8}|[^\\\r\n])'",
    signs=r"\r\n\"'(){}\-",
    block=Hidden(r"\{-(?!#)", r"-\}", nests=True),
    bullets="",
    never=')]}\u27e9;#"',
    behind_sign=True,
)


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
        if self.hidden < 0:
            return self.rules.outside if self.code else self.layout.start
        return self.rules.inside[self.hidden]

    def hide(self, match: re.Match[str], place: int) -> None:
        if self.fresh:
            self._start(match.string, match.start(), place)

    def token(self, kind: str, match: re.Match[str], place: int) -> int:
        index = match.end()
        after = place + index - match.start()
        if kind == "code":
            indent = match.start(kind)
            self._end(match, after - index + indent)
            if match.start("blank") < indent:
                self.blank = True
            self._start(match.string, index, after)
            self._read_code(match.string, index)
        elif kind == "line":
            self._end(match, after)
        elif kind == "closes":
            self.nest = max(0, self.nest - 1)
        elif kind in ("nests", "nested"):
            self.nest += 1
        elif kind == "visible":
            if self.fresh:
                self._start(match.string, match.start(), place)
            self._read_code(match.string, match.start())
            return place  # it is read as code
        elif kind == "comment":
            self.hide(match, place)
        else:
            self.calls = self.calls or match[0] == "calc"
            self.ending = self.ending if kind == "calc" else kind
        return after

    def end_code(self, match: re.Match[str]) -> str:
        """Return what a line ends with, if that decides; the match is at its end or comment."""
        return self.ending

    def _read_code(self, text: str, index: int) -> None:
        """Follow the first code of a line, at `index` of this text."""
        self.code = True
        if self.joins:
            self.step = self.column
            if text[index] in self.layout.bullets and (bullet := _BULLET.match(text, index)):
                self.step += len(bullet[0])

    def _start(self, text: str, index: int, place: int) -> None:
        """Decide whether a step starts with the line whose first visible character is here."""
        self.fresh = False
        self.column = column = place - self.begin
        if column <= self.calc:
            self.calc = -1
        step, sign = self.step, text[index]
        if step < 0 and self.blank:
            self.joins = False  # only comments, and a blank line after them
        self.attribute = sign == "@" and text.startswith("[", index + 1)
        if self.joins or sign in self.layout.never or (column and self.nest):
            return
        self.nest = 0
        starts = column <= step or step < 0 or self.opens
        if not starts and (sign == "|" or (sign == "_" and self.calc >= 0)):
            starts = text[index + 1 : index + 2].isspace()
        if starts:
            self.cut(place)
            self.step, self.opens, self.joins = -1, False, True

    def _end(self, match: re.Match[str], begin: int) -> None:
        """Follow the end of a line, where another begins."""
        if self.code:
            ending = self.ending or self.end_code(match)
            self.opens = ending == "opens"
            attribute = self.attribute and self.joins and ending == "attribute"
            self.joins = attribute or ending == "joins"
            if self.calls:
                self.calc = self.column if self.calc < 0 else self.calc
                self.calls = False
            self.code, self.ending = False, ""
        self.blank, self.begin, self.fresh = self.fresh, begin, True


@dataclass(slots=True, kw_only=True)
class _LeanLines(_Lines):
    rules: ClassVar[Rules] = _LEAN.rules
    layout: ClassVar[_Layout] = _LEAN


@dataclass(slots=True, kw_only=True)
class _AgdaLines(_Lines):
    rules: ClassVar[Rules] = _AGDA.rules
    layout: ClassVar[_Layout] = _AGDA
    looks_back: ClassVar[int] = _AGDA_BACK

    def hide(self, match: re.Match[str], place: int) -> None:
        if match.lastgroup in ("comment", "hides0") and self.code and not self.ending:
            self.ending = self.end_code(match) or "comment"
        _Lines.hide(self, match, place)

    def end_code(self, match: re.Match[str]) -> str:
        text, start = match.string, match.start()
        last = text[start - 1]
        if last.isspace() or (last in _AGDA_LAST and text.endswith(_AGDA_OPENS, 0, start)):
            opens = _AGDA_OPEN.search(text[max(0, start - _AGDA_BACK) : start])
            return "opens" if opens else ""
        return ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Lean(Stepwise):
    """Starts a segment at each line that is a step. Causal: the first characters decide."""

    version: ClassVar[int] = 3
    dialect: ClassVar[str] = "lean"

    # The character after them distinguishes "| " and "_ " from |x| and _x.
    lookahead = 2
    reader: ClassVar[type[Machine]] = _LeanLines


@dataclass(frozen=True, kw_only=True, slots=True)
class Agda(Stepwise):
    """Starts a segment at each line that is a step. Causal: the first characters decide."""

    dialect: ClassVar[str] = "agda"
    lookahead = 2
    reader: ClassVar[type[Machine]] = _AgdaLines
