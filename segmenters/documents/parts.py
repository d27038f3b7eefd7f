r"""A part of a document: where it ends, what kind of text it is, and how its segmenter reads it.

`Marked` reads prose in Markdown or reStructuredText: sentences that no code span and no formula is
cut by. A code span (`a. b`, ``a. b``) and a formula ($x$, $$x$$) are hidden from the causal rules,
which read a shadow of the text that is as long as the text. A display ends its sentence if its last
character does. A dollar opens a formula before a character that is no space, and closes one behind
such a character unless a digit follows (pandoc's rule, "Math"), so prices are no formulas. What is
not closed in its paragraph is text.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from segmenters.base import Cuts, Segmenter
from segmenters.prose import rules

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


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class View:
    """What a segmenter reads in place of the raw characters: unescaped, or without prefixes.

    `places[i]`: where in the document (characters) a segment begins that begins with `text[i]` in
    the view; what is between two characters of the view goes with the latter.
    """

    text: str
    places: Cuts


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """The text from the end of the part before up to `end` (characters).

    `kind`: "line" (one segment), "lines" (physical lines), "prose", "marked" (prose with code spans
    and formulas), "tagged" (prose between tags), "code", or the name of a format, for a document
    inside of the document. `language`: what the document calls the language of its code, such as
    "python" or "c++". `view`: how the part is read, where not as it is.
    """

    end: int
    kind: str
    language: str | None = None
    view: View | None = None


def spliced(text: str, pieces: Iterable[tuple[int, int, int]]) -> View:
    """Return a view of pieces of the text, each (place, start, end).

    Its segment would begin at `place`; what is between `place` and `start` is not seen, such as
    the "> " of a quotation.
    """
    seen: list[str] = []
    places: list[Cuts] = []
    for place, start, end in pieces:
        if end > start:
            seen.append(text[start:end])
            row = np.arange(start, end, dtype=np.int64)
            row[0] = place
            places.append(row)
    return view_of(seen, places)


def view_of(seen: list[str], places: list[Cuts]) -> View:
    """Return the view of texts that follow each other, and of their places."""
    joined = np.concatenate(places) if places else np.empty(0, dtype=np.int64)
    return View(text="".join(seen), places=joined)


@dataclass(frozen=True, kw_only=True, slots=True)
class Marked(Segmenter):
    """Sentences of prose with code spans and formulas, which stay whole."""

    # Whether a span is one depends on what closes it.
    lookahead = None

    def versions(self) -> dict[str, str]:
        return {"tables": rules.tables()}

    def _ends(self, text: str) -> Iterable[int]:
        return rules.sentence_ends(_HIDDEN.sub(_shadow, text))


def _shadow(match: re.Match[str]) -> str:
    """Return as many characters as the span has, by which no sentence ends inside of it."""
    start, end = match.span(match.lastgroup or 0)
    sign = match.string[match.start() : start]
    if match.lastgroup in ("code", "literal"):
        return sign + _LETTER * (end - start) + sign
    length = match.end() - match.start()
    if match.lastgroup == "display" and match.string[start:end].rstrip().endswith(_STOPS):
        return "$" * (length - 1) + match.string[start:end].rstrip()[-1]
    return "$" * length
