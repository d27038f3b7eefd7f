"""Statements of a Metamath database.

`$.` ends a statement (`$c $v $f $e $d $a $p`, the label included), and `${`, `$}` and a file
inclusion `$[ .. $]` are steps of their own. A comment `$( .. $)` between statements is one as
well; inside of a statement it belongs to it. Comments do not nest. A proof behind `$=` stays with
its statement, as it is one statement of the database.

Source: Megill and Wheeler, Metamath (2019), section 4.1. Since `$` stands in keywords alone, white
space around them is not asked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from segmenters.base import Segmenter
from segmenters.proofs.scanning import after_space

_CLOSE = {"(": re.compile(r"\$\)"), "[": re.compile(r"\$\]")}
_TOKEN = re.compile(r"\$(?P<what>[(\[.{}])|[^\s$]++|\$")


@dataclass(frozen=True, kw_only=True, slots=True)
class Metamath(Segmenter):
    """Ends a segment after each statement, scope mark and comment between statements. Causal."""

    @property
    def lookahead(self) -> int | None:
        return 1

    def _ends(self, text: str) -> Iterable[int]:
        return after_space(text, _statement_ends(text))


def _statement_ends(text: str) -> list[int]:
    ends: list[int] = []
    place, inside = 0, False
    while match := _TOKEN.search(text, place):
        place, what = match.end(), match["what"]
        if what is None:
            inside = True
            # Nothing but a keyword matters until the statement is over.
            place = text.find("$", place)
            if place < 0:
                break
        elif what in _CLOSE:
            closing = _CLOSE[what].search(text, place)
            if closing is None:
                break
            place = closing.end()
            if not inside:
                ends.append(place)
        else:
            ends.append(place)
            inside = False
    return ends
