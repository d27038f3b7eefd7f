r"""Steps found by what ends them: Metamath, Mizar and TPTP.

Metamath: `$.` ends a statement (`$c $v $f $e $d $a $p`, with its label and its proof after `$=`).
`${`, `$}`, a file inclusion `$[ .. $]` and a comment `$( .. $)` between statements are steps of
their own; a comment in a statement belongs to it. Comments do not nest. Keywords need no space
around them, since only they hold `$`. With `inner`, a proof is cut too: each label is a step; of a
compressed proof, the list of labels and each number. Source: Megill and Wheeler, Metamath (2019),
section 4.1 and appendix B.

Mizar: ';' ends a step, `end;` included. `proof` is a step of its own, and `now`, `hereby`, `begin`
end the step that they are in (`A1: now`). A comment, from `::` to the end of its line, belongs to
the step before it on the line, else to that below. A chain of equalities is one step unless `inner`
is set: then each `.=` starts one. Source: Grabowski, Kornilowicz and Naumowicz, Mizar in a Nutshell
(2010), sections 2 and 3.

TPTP: the '.' behind the brackets of an annotated formula (fof, cnf, tff, thf) or an include ends a
step, with a comment on its line; other comments belong to the step below. A formula at the margin
ends one whose brackets never close. Source: Sutcliffe, The TPTP Syntax BNF (2022).
"""

import re
from dataclasses import dataclass
from typing import ClassVar, Final

from segmenters.base import Machine, SpacedMachine
from segmenters.proofs.items import Stepwise
from segmenters.proofs.scanning import Hidden, Rules, Scanner

_COMMENTS_END = r"(?=[\r\n])"
_METAMATH_CLOSES = {"(": ")", "[": "]"}
_METAMATH_OPENS_OR_ENDS = frozenset("([.{}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Metamath(Stepwise):
    """Ends a segment after each statement, scope mark and comment between statements. Causal.

    `inner`: also end one at each step of a proof.
    """

    inner: bool = False
    dialect: ClassVar[str] = "metamath"
    lookahead = 1

    def machine(self) -> Machine:
        return _MetamathSteps(inner=self.inner)


@dataclass(slots=True, kw_only=True)
class _MetamathSteps(SpacedMachine):
    inside: bool = False  # a statement has begun
    dollar: bool = False  # the last character is a `$` that may begin a keyword
    closing: str = ""  # what closes the current comment or file name
    inner: bool = False
    proof: str = ""  # what is read of a proof: a name of `_PROOF`
    last: str = ""  # the last character of the proof

    def step_ends(self, text: str) -> list[int]:
        ends: list[int] = []
        place = 0
        while place < len(text):
            if self.dollar:
                self.dollar = False
                place += self._keyword(text[place], ends, place)
                continue
            sign = text.find("$", place)
            self.dollar = sign >= 0
            between = text[place:sign] if self.dollar else text[place:]
            if self.proof and not self.closing:
                self._proof(between, ends, place)
            self.inside |= not (self.inside or self.closing or not between or between.isspace())
            place += len(between) + 1
        return ends

    def _keyword(self, sign: str, ends: list[int], place: int) -> bool:
        """Read the sign after a `$`; return whether it was part of the keyword."""
        if self.closing:
            if sign != self.closing:
                return False
            self.closing = ""
            ended = not self.inside
        elif sign not in _METAMATH_OPENS_OR_ENDS:
            self.inside = True
            if sign == "=" and self.inner:
                self.proof, self.last = "labels", " "
                return True
            return False
        else:
            self.closing = _METAMATH_CLOSES.get(sign, "")
            ended = not self.closing
            self.proof = "" if ended else self.proof
            self.inside = self.inside and not ended
        if ended:
            ends.append(place + 1)
        return True

    def _proof(self, text: str, ends: list[int], place: int) -> None:
        """Read a piece of a proof: a step starts at a label, the list of labels or a number."""
        begin, text = place - len(self.last), self.last + text
        read = len(self.last)
        while match := _PROOF[self.proof].search(text, read):
            read = match.end()
            if match["starts"]:
                ends.append(begin + match.start("starts"))
            if match["sign"]:
                self.proof = {"(": "list", ")": "numbers"}.get(match["sign"], self.proof)
        self.last = (text.rstrip()[-1:] or " ") if self.proof == "numbers" else text[-1:]


# What is looked for in a proof; a number ends with a letter up to T, and Z marks the one before it.
_PROOF: Final = {
    "labels": re.compile(r"(?P<starts>(?<!\S)(?P<sign>\S))"),
    "list": re.compile(r"(?P<starts>(?!))|(?P<sign>\))"),
    "numbers": re.compile(r"(?<=[A-TZ?)])\s*+(?P<starts>(?P<sign>[A-Y?]))"),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Mizar(Stepwise):
    """Ends a segment after each ';' and where a block opens.

    `inner`: also before each link (`.=`) of a chain of equalities.
    """

    inner: bool = False
    dialect: ClassVar[str] = "mizar"
    # A cut before "proof" needs the word and one character after it.
    lookahead = len("proof") + 1

    def machine(self) -> Machine:
        return _MizarSteps(inner=self.inner)


@dataclass(slots=True, kw_only=True)
class _MizarSteps(Scanner):
    inner: bool = False

    rules: ClassVar[Rules] = Rules.of(
        r"(?P<word>(?<![\w'])(?:proof|now|hereby|begin)(?![\w']))|(?P<end>;)|(?P<link>\.=)",
        signs=";:pnhb.",
        hidden=(Hidden("::", _COMMENTS_END),),
        reach=len("hereby") + 1,
    )

    def token(self, kind: str, match: re.Match[str], place: int) -> int:
        if (kind == "link" and self.inner) or match[0] == "proof":
            self.cut(place)
        self.ended = kind != "link"
        return place + len(match[0])


_FORMULA = r"(?:fof|cnf|tff|thf|tcf|tpi|qmf|include)\("
# Brackets in brackets are passed over at once, unless a formula begins in them.
_PLAIN = rf"[^()\[\]{{}}'\"%/\r\n]++|[\r\n](?!{_FORMULA})|'[^'\\]*+'"
_FLAT = rf"[(\[{{](?:{_PLAIN})*+[)\]}}]"
_NESTED = rf"[(\[{{](?:{_PLAIN}|{_FLAT})*+[)\]}}]"


@dataclass(slots=True, kw_only=True)
class _Formulas(Scanner):
    nest: int = 0  # open brackets

    rules: ClassVar[Rules] = Rules.of(
        rf"[(\[{{](?:{_PLAIN}|{_NESTED})*+[)\]}}]|'[^'\\]*+'"
        rf"|(?P<starts>(?<![^\r\n]){_FORMULA})|(?P<opens>[(\[{{])|(?P<closes>[)\]}}])|(?P<end>(?<=[)\s])\.)",
        hidden=(
            Hidden("%", _COMMENTS_END),
            Hidden(r"/\*", r"\*/"),
            Hidden("'", "'", r"\\."),
            Hidden('"', '"', r"\\."),
        ),
        signs=r"()\[\]{}'\"%/fctiq.",
        comments=2,
        reach=len("include("),
    )

    def token(self, kind: str, match: re.Match[str], place: int) -> int:
        if kind == "starts":
            if self.nest:
                self.cut(place)
            self.nest = 1
        elif kind == "opens":
            self.nest += 1
        elif kind == "closes":
            self.nest = max(0, self.nest - 1)
        elif not self.nest:
            self.ended = True
        return place + len(match[0])


@dataclass(frozen=True, kw_only=True, slots=True)
class Tptp(Stepwise):
    """Ends a segment after each annotated formula and include."""

    dialect: ClassVar[str] = "tptp"
    lookahead = len("include(")  # a formula at the margin ends one with open brackets
    reader: ClassVar[type[Machine]] = _Formulas
