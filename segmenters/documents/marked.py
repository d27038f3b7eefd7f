r"""Prose in Markdown or reStructuredText: sentences that no code span and no formula is cut by.

A code span (`a. b`, ``a. b``) and a formula ($x$, $$x$$) are hidden from the causal rules, which
read a shadow of the text that is as long as the text. A display ends its sentence if its last
character does. A dollar opens a formula before a character that is no space, and closes one behind
such a character unless a digit follows (pandoc's rule, "Math"), so prices are no formulas. What is
not closed in its paragraph is text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from segmenters.base import Segmenter
from segmenters.prose import rules as sentence_rules

# Spans are short; a bound keeps the time of hostile text linear.
_SPAN = 300
_HIDDEN = re.compile(
    rf"(?<!`)`(?P<code>[^`\n]{{1,{_SPAN}}}+(?:\n(?![ \t]*+\n)[^`\n]{{1,{_SPAN}}}+)?)`(?!`)"
    rf"|(?<!`)``(?P<literal>[^`\n]{{1,{_SPAN}}}+(?:`[^`\n]{{1,{_SPAN}}}+){{0,4}})``(?!`)"
    r"|(?<![\\$])\$\$(?P<display>(?:[^$\n]++|\n(?![ \t]*+\n))++)\$\$"
    rf"|(?<![\\$\w])\$(?P<formula>(?![\s$])[^$\n]{{1,{_SPAN}}}(?<![\s\\]))\$(?![\d$])"
)
_LETTER = "x"
_STOPS = (".", "?", "!")


@dataclass(frozen=True, kw_only=True, slots=True)
class Marked(Segmenter):
    """Sentences of prose with code spans and formulas, which stay whole."""

    @property
    def lookahead(self) -> int | None:
        # Whether a span is one depends on what closes it.
        return None

    def versions(self) -> dict[str, str]:
        return {"tables": sentence_rules.tables()}

    def _ends(self, text: str) -> Iterable[int]:
        return sentence_rules.sentence_ends(_HIDDEN.sub(_shadow, text))


def _shadow(match: re.Match[str]) -> str:
    """As many characters as the span has, by which no sentence ends inside of it."""
    start, end = match.span(match.lastgroup or 0)
    sign = match.string[match.start() : start]
    if match.lastgroup in ("code", "literal"):
        return sign + _LETTER * (end - start) + sign
    length = match.end() - match.start()
    if match.lastgroup == "display" and match.string[start:end].rstrip().endswith(_STOPS):
        return "$" * (length - 1) + match.string[start:end].rstrip()[-1]
    return "$" * length
