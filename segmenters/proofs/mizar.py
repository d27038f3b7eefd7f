"""Steps of a Mizar article.

';' ends a step. `proof` is a step of its own, and `now`, `hereby`, `begin` end the step that they
stand in (`A1: now`), since the steps of their block follow; `end;` is one by its ';'. A comment
runs from `::` to the end of its line: behind a step on the same line it belongs to that step, on
a line of its own to the step below.

Source: Grabowski, Kornilowicz and Naumowicz, Mizar in a Nutshell (2010), sections 2 and 3. The
equalities of a chain (`.=`) stay in one step; reserved words inside of names are not looked at.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from segmenters.base import Segmenter
from segmenters.proofs.scanning import after_space

_TOKEN = re.compile(r"::[^\r\n]*+|(?P<end>;)|(?P<word>[A-Za-z_'][\w']*+)|[0-9][\w']*+")
_TRAILING = re.compile(r"[^\S\r\n]*+(?:::[^\r\n]*+)?")
_OPENS = frozenset(("proof", "now", "hereby", "begin"))


@dataclass(frozen=True, kw_only=True, slots=True)
class Mizar(Segmenter):
    """Ends a segment after each ';' and where a block opens."""

    @property
    def lookahead(self) -> int | None:
        # In front of "proof" the word is read, and one character behind it.
        return len("proof") + 1

    def _ends(self, text: str) -> Iterable[int]:
        return after_space(text, _step_ends(text))


def _step_ends(text: str) -> Iterator[int]:
    for match in _TOKEN.finditer(text):
        if match.lastgroup == "word" and match["word"] not in _OPENS:
            continue
        if match.lastgroup is None:
            continue
        if match["word"] == "proof":
            yield match.start()
        trailing = _TRAILING.match(text, match.end())
        assert trailing is not None
        yield trailing.end()
