"""Lines and definitions of a text in any language that has a grammar.

The text is parsed in pieces (`pieces`); what is too hard to parse within their budget is cut at
physical lines, as are lines too long to be written by hand, inside of which the statements of some
languages are cut without a parser (`minified`). So time is linear in the text.
"""

from __future__ import annotations

from array import array
from functools import lru_cache
from typing import Any

import numpy as np

from segmenters.base import Cuts, SegmenterError, tally
from segmenters.code.advice import TOO_HARD, missing
from segmenters.code.masks import encode
from segmenters.code.minified import LANGUAGES, statement_ends
from segmenters.code.pieces import LONG_LINE, Pieces
from segmenters.code.statements import closing, definitions, methods
from segmenters.code.tables import TABLES, Kinds, grammar_of, kinds_of
from segmenters.offsets import character_ends, distinct, rows_of

_NONE = np.empty(0, dtype=np.int64)


def logical_ends(text: str, language: str) -> Cuts:
    """Return where logical lines end (characters). Raises SegmenterError without a grammar."""
    return _Reading(text, language).ends()[0]


def levels(text: str, language: str) -> tuple[Cuts, Cuts, Cuts]:
    """Return the ends of logical lines, of functions and of top-level definitions."""
    return _Reading(text, language, coarse=True).ends()


@lru_cache(maxsize=32)
def _grammar(language: str) -> tuple[Any, Kinds]:
    wrong = missing(language)
    if wrong:
        raise SegmenterError(wrong)
    from segmenters.code import grammars

    grammar = grammars.load(*grammar_of(language))
    return grammar, kinds_of(TABLES[language], grammar)


def _held(lines: Cuts, *starts: array[int]) -> Cuts:
    """Return the starts of the segments that hold these starts of lines."""
    holds = np.zeros(len(lines), dtype=np.bool_)
    for some in starts:
        holds[np.searchsorted(lines, np.asarray(some), side="right") - 1] = True
    return lines[holds]


class _Reading:
    """A text and its physical lines, parsed piece by piece."""

    def __init__(self, text: str, language: str, *, coarse: bool = False) -> None:
        grammar, self._kinds = _grammar(language)
        self._text, self._language, self._size = text, language, len(text)
        self._pieces = Pieces(encode(text, language), grammar, TABLES[language])
        self._ends = self._pieces.seams.ends
        self._character_ends = self._ends if text.isascii() else character_ends(text)
        self._coarse = coarse

    def ends(self) -> tuple[Cuts, Cuts, Cuts]:
        """Return where logical lines end and, if asked for, functions and definitions begin."""
        closes = np.ones(len(self._ends), dtype=np.bool_)  # where nothing is parsed, all do
        inner, outer = array("q"), array("q")
        size, parsed, data = self._size, 0, self._pieces.data
        for start, stop, tree in self._pieces:
            first, last = rows_of(self._ends, start, stop, side="right")
            end = size if stop == len(data) else self._start(last)
            parsed += end - self._start(first)
            ends = self._ends[first:last] - start
            functions: list[Any] | None = [] if self._coarse else None
            piece = data[start:stop]
            closes[first:last] = closing(tree, self._kinds, piece, ends, functions)
            if functions is not None:
                places = definitions(tree.root_node, self._kinds, piece)
                outer.frombytes(self._starts(start, places))
                inner.frombytes(self._starts(start, methods(functions, self._kinds)))
        data = self._pieces.data = self._pieces.seams.data = b""  # so much less in the rest
        lines = np.zeros(np.count_nonzero(closes) + 1, dtype=np.int64)
        lines[1:] = self._character_ends[closes]
        del closes
        lines, minified = self._with_minified(lines)
        tally(f"logical {self._language}", parsed)
        tally(f"minified {self._language}", minified)
        tally(TOO_HARD, size - parsed - minified)
        if not self._coarse:
            return lines[1:], _NONE, _NONE
        return lines[1:], _held(lines, outer, inner), _held(lines, outer)

    def _start(self, row: int) -> int:
        """Return where a physical line starts, in characters."""
        return int(self._character_ends[row - 1]) if row else 0

    def _with_minified(self, lines: Cuts) -> tuple[Cuts, int]:
        """Add the statements inside of long lines; return also how many characters these have."""
        if self._language not in LANGUAGES:
            return lines, 0
        spans = [
            (self._start(row), self._size if row == len(self._ends) else self._start(row + 1))
            for row in self._pieces.seams.longer(LONG_LINE)
        ]
        if not spans:
            return lines, 0
        places = (
            place
            for first, last in spans
            for place in statement_ends(self._text, first, last, self._language)
        )
        added = np.fromiter(places, dtype=np.int64)
        return distinct(lines, added), sum(last - first for first, last in spans)

    def _starts(self, piece: int, places: list[int]) -> bytes:
        """Return where the lines of places in a piece start: int64 [places], characters."""
        offsets = np.array(places, dtype=self._ends.dtype) + piece
        rows = self._ends.searchsorted(offsets, side="right")
        starts = np.zeros(len(rows), dtype=np.int64)
        starts[rows > 0] = self._character_ends[rows[rows > 0] - 1]
        return starts.tobytes()
