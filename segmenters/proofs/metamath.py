"""Statements of a Metamath database.

`$.` ends a statement (`$c $v $f $e $d $a $p`, the label included), and `${`, `$}` and a file
inclusion `$[ .. $]` are steps of their own. A comment `$( .. $)` between statements is one as
well; inside of a statement it belongs to it. Comments do not nest. A proof behind `$=` stays with
its statement, as it is one statement of the database.

Source: Megill and Wheeler, Metamath (2019), section 4.1. Since `$` stands in keywords alone, white
space around them is not asked for.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from segmenters.base import Segmenter
from segmenters.proofs.scanning import SpacedMachine, after_space

_CLOSES = {"(": ")", "[": "]"}
_OPENS_OR_ENDS = frozenset("([.{}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Metamath(Segmenter):
    """Ends a segment after each statement, scope mark and comment between statements. Causal."""

    @property
    def lookahead(self) -> int | None:
        return 1

    def _ends(self, text: str) -> Iterable[int]:
        return after_space(text, MetamathReader().step_ends(text))


@dataclass(slots=True, kw_only=True)
class MetamathReader(SpacedMachine):
    """Cuts a database that arrives in pieces.

    `inside` says that a statement has begun, `dollar` that the character before is a `$` that may
    begin a keyword, `closing` what closes the comment or file name that we are in.
    """

    inside: bool = False
    dollar: bool = False
    closing: str = ""

    def step_ends(self, text: str) -> list[int]:
        ends: list[int] = []
        place = 0
        while place < len(text):
            if self.dollar:
                self.dollar = False
                place += self._keyword(text[place], ends, place)
                continue
            found = text.find("$", place)
            self.dollar = found >= 0
            between = text[place:found] if self.dollar else text[place:]
            self.inside |= not (self.inside or self.closing or not between or between.isspace())
            place += len(between) + 1
        return ends

    def _keyword(self, sign: str, ends: list[int], place: int) -> bool:
        """Read what stands behind a `$`; whether that was a part of the keyword."""
        if self.closing:
            if sign != self.closing:
                return False
            self.closing = ""
            ended = not self.inside
        elif sign not in _OPENS_OR_ENDS:
            self.inside = True
            return False
        else:
            self.closing = _CLOSES.get(sign, "")
            ended = not self.closing
            self.inside = self.inside and not ended
        if ended:
            ends.append(place + 1)
        return True
