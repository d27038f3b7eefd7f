r"""Steps found by what ends them: Metamath and Mizar.

Metamath: `$.` ends a statement (`$c $v $f $e $d $a $p`, with its label and its proof after `$=`).
`${`, `$}`, a file inclusion `$[ .. $]` and a comment `$( .. $)` between statements are steps of
their own; a comment in a statement belongs to it. Comments do not nest. Keywords need no space
around them, since only they hold `$`. Source: Megill and Wheeler, Metamath (2019), section 4.1 and
appendix B.

Mizar: ';' ends a step, `end;` included. `proof` is a step of its own, and `now`, `hereby`, `begin`
end the step that they are in (`A1: now`). A comment, from `::` to the end of its line, belongs to
the step before it on the line, else to that below. A chain of equalities is one step. Source:
Grabowski, Kornilowicz and Naumowicz, Mizar in a Nutshell (2010), sections 2 and 3.
"""

import re
from dataclasses import dataclass
from typing import ClassVar

from segmenters.base import Machine, SpacedMachine
from segmenters.proofs.items import Stepwise
from segmenters.proofs.scanning import Hidden, Rules, Scanner

_COMMENTS_END = r"(?=[\r\n])"
_METAMATH_CLOSES = {"(": ")", "[": "]"}
_METAMATH_OPENS_OR_ENDS = frozenset("([.{}")


@dataclass(slots=True, kw_only=True)
class _MetamathSteps(SpacedMachine):
    inside: bool = False  # a statement has begun
    dollar: bool = False  # the last character is a `$` that may begin a keyword
    closing: str = ""  # what closes the current comment or file name

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
            return False
        else:
            self.closing = _METAMATH_CLOSES.get(sign, "")
            ended = not self.closing
            self.inside = self.inside and not ended
        if ended:
            ends.append(place + 1)
        return True


@dataclass(frozen=True, kw_only=True, slots=True)
class Metamath(Stepwise):
    """Ends a segment after each statement, scope mark and comment between statements. Causal."""

    dialect: ClassVar[str] = "metamath"
    lookahead = 1
    reader: ClassVar[type[Machine]] = _MetamathSteps


@dataclass(slots=True, kw_only=True)
class _MizarSteps(Scanner):
    rules: ClassVar[Rules] = Rules.of(
        r"(?P<word>(?<![\w'])(?:proof|now|hereby|begin)(?![\w']))|(?P<end>;)",
        signs=";:pnhb",
        hidden=(Hidden("::", _COMMENTS_END),),
        reach=len("hereby") + 1,
    )

    def token(self, kind: str, match: re.Match[str], place: int) -> int:
        if match[0] == "proof":
            self.cut(place)
        self.ended = True
        return place + len(match[0])


@dataclass(frozen=True, kw_only=True, slots=True)
class Mizar(Stepwise):
    """Ends a segment after each ';' and where a block opens."""

    dialect: ClassVar[str] = "mizar"
    # A cut before "proof" needs the word and one character after it.
    lookahead = len("proof") + 1
    reader: ClassVar[type[Machine]] = _MizarSteps
