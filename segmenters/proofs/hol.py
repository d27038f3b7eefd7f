r"""Steps of HOL proofs in ML: HOL4 (Standard ML) and HOL Light (OCaml).

A step starts at the words at the margin that begin a declaration (`Theorem`, `Definition`, `val`),
and `Proof`, `QED`, `Termination`, `End` are lines of their own; `;;` ends a step, with a comment on
its line; other comments belong to the step below. In a proof, between `Proof` and `QED` or between
the brackets of `prove (..)`, `store_thm (..)` and the like, a tactic is a step: one ends behind
`THEN`, `\\`, `>>`, `>-`, or in front of it where it begins a line; a comma ends the statement.
Nothing is cut in deeper brackets, strings, quotations (`..`, ``..``, curly quotes, camlp5's
`<:expr< .. >>`) and comments, which nest. Sources: The HOL System Description, "Syntax of theory
scripts"; the HOL Light Tutorial, section 4.
"""

import re
from dataclasses import dataclass
from typing import ClassVar, Final

from segmenters.base import Machine
from segmenters.proofs.items import Stepwise
from segmenters.proofs.scanning import Hidden, Rules, Scanner

_END = r"(?![\w'])"
# They begin a declaration whatever is open; lines of their own; words that begin one of ML.
_ITEMS = (
    "Theorem|Triviality|Definition|Datatype|Inductive|CoInductive|Overload|Type|Theory|Ancestors"
    "|Libs|Quote|Quotient|Resume|Finalise|Suspend"
)
_LINES = "Proof|Termination|QED|End"
_ML = (
    "val|fun|structure|signature|open|local|in|end|datatype|type|exception|infix[lr]?|abstype"
    "|functor|let"
)
# Without their first letter.
_PROVERS = r"(?<=p)rove(?:_thm)?|(?<=s)tore_thm|(?<=T)AC_PROOF|(?<=P)ROVE"
_TACTICAL = r"THEN[1L]?(?![\w'])|\\\\|>>|>-|>\||>~|<<"
_HIDDEN_WHOLE = r"\"[^\"\\]*+\"|`[^`]++`|\u2018[^\u2019]*+\u2019|\u201c[^\u201d]*+\u201d"
# Brackets on a line without others are passed over at once.
_PLAIN = r"[^()\[\]{}'\"`*;\r\n\u2018\u201c]++|\*(?!\))|;(?!;)|(?<=\w)'"
_FLAT = rf"[(\[{{](?!\*)(?:{_PLAIN}|{_HIDDEN_WHOLE})*+[)\]}}]"
_REACH = 48
_RULES = Rules.of(
    rf"(?<=[\r\n])(?:(?P<item>(?:{_ITEMS}){_END})|(?P<alone>(?:{_LINES}){_END})"
    rf"|(?P<ml>(?:{_ML}){_END})|[ \t]{{0,36}}(?P<leads>{_TACTICAL})|(?P<margin>(?=\(\*)))"
    rf"|(?<=[(\[{{])(?:(?!\*)(?:{_PLAIN}|{_HIDDEN_WHOLE}|{_FLAT})*+[)\]}}]"
    r"|(?<=\()\*(?:[^*()]*+\*\)|(?P<hides0>))|(?P<opens>))"
    r"|(?<=[)\]}])(?P<closes>)|(?<=,)(?P<comma>)|(?<=;);(?P<end>)"
    r"|(?<=[TPps])(?<![\w'].)(?:(?<=T)HEN[1L]?(?![\w'])(?P<tactical>)"
    rf"|(?P<proves>{_PROVERS})\s{{0,12}}\((?!\*))"
    r"|(?<=<):[a-z_]{1,20}<(?P<hides6>)"
    r"|(?<=[\\<>])(?<![\w'].)(?:(?<=\\)\\|(?<=>)[>\-|~]|(?<=<)<)(?P<tactic>)"
    r"|(?<=\")(?:[^\"\\]*+\"|(?P<hides1>))|(?<=`)(?:[^`]++`|`(?P<hides2>)|(?P<hides3>))"
    r"|(?<=\u2018)(?:[^\u2019]*+\u2019|(?P<hides4>))"
    r"|(?<=\u201c)(?:[^\u201d]*+\u201d|(?P<hides5>))"
    r"|(?<=')(?<!\w')(?:\\[^\r\n]|[^'\\\r\n])'",
    signs=r"\r\n()\[\]{}'\"`,;\\<>TPps\u2018\u201c",
    hidden=(
        Hidden(r"\(\*", r"\*\)", nests=True),
        Hidden('"', '"', r"\\."),
        Hidden("``", "``"),
        Hidden("`", "`"),
        Hidden("\u2018", "\u2019"),
        Hidden("\u201c", "\u201d"),
        Hidden(r"<:[a-z_]{1,20}<", ">>", nests=True),
    ),
    reach=_REACH,
    behind_sign=True,
)._replace(lines=True)
# Behind a comment at the margin, with which a step has begun.
_ABOVE = re.compile(r"(?P<hides0>\(\*)|(?P<begun>\S)")


@dataclass(slots=True, kw_only=True)
class _Tactics(Scanner):
    nest: int = 0  # open brackets
    base: int = -1  # how many of them are open around the tactics of a proof
    commas: int = 0  # before the proof: behind its name and its statement

    above: bool = False  # a step has begun with comments, and nothing else is read of it
    begun: int = -1  # where the text behind such comments begins

    rules: ClassVar[Rules] = _RULES

    def pattern(self) -> re.Pattern[str]:
        return _ABOVE if self.above and self.hidden < 0 else Scanner.pattern(self)

    def token(self, kind: str, match: re.Match[str], place: int) -> int:
        after, place = place + len(match[0]), place + match.start(kind) - match.start()
        if kind == "begun":
            self.above, self.begun = False, place
            return place + self.line_start(match) - match.start()
        if follow := _FOLLOW.get(kind):
            follow(self, match, place)
        elif self.nest == self.base:
            self._tactic(kind, place)
        return after

    def _item(self, match: re.Match[str], place: int) -> None:
        self.cut(place)
        self.nest, self.base, self.commas = 0, -1, 0

    def _alone(self, match: re.Match[str], place: int) -> None:
        """Follow a line of its own, which may open or end a proof."""
        self._item(match, place)
        self.ended = True
        self.base = 0 if match["alone"] in ("Proof", "Termination") else -1

    def _ml(self, match: re.Match[str], place: int) -> None:
        if not self.nest:
            self.cut(place)
            self.base = -1

    def _margin(self, match: re.Match[str], place: int) -> None:
        """Follow a comment at the margin, with which a step may begin."""
        if not self.nest and self.base < 0:
            self.cut(place)
            self.above = True

    def _end(self, match: re.Match[str], place: int) -> None:
        self.nest, self.base, self.ended = 0, -1, True

    def _proves(self, match: re.Match[str], place: int) -> None:
        """Follow the bracket of a proof, behind whose commas tactics begin."""
        self.nest += 1
        if self.nest == 1 and self.base < 0:
            self.base, self.commas = self.nest, 1 + match["proves"].startswith("tore")

    def _opens(self, match: re.Match[str], place: int) -> None:
        self.nest += 1

    def _closes(self, match: re.Match[str], place: int) -> None:
        self.nest = max(0, self.nest - 1)
        if self.nest < self.base:
            self.base, self.commas = -1, 0

    def cut(self, place: int) -> None:
        if place != self.begun:
            Scanner.cut(self, place)

    def _tactic(self, kind: str, place: int) -> None:
        """Follow what may end a statement or a tactic of the proof."""
        if kind == "comma":
            self.ended = self.commas == 1
            self.commas = max(0, self.commas - 1)
        elif kind == "leads" and not self.commas:
            self.cut(place)
        elif kind in ("tactical", "tactic") and not self.commas:
            self.ended = True


# What each kind of token does; others may end a tactic.
_FOLLOW: Final = {
    "item": _Tactics._item,
    "alone": _Tactics._alone,
    "ml": _Tactics._ml,
    "margin": _Tactics._margin,
    "end": _Tactics._end,
    "proves": _Tactics._proves,
    "opens": _Tactics._opens,
    "closes": _Tactics._closes,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Hol(Stepwise):
    """Ends a segment after each declaration of HOL4 or HOL Light, and after each tactic."""

    dialect: ClassVar[str] = "hol"
    version: ClassVar[int] = 3
    lookahead = _REACH
    reader: ClassVar[type[Machine]] = _Tactics
