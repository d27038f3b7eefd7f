"""Lines and definitions of a text in any language that has a grammar.

A text is parsed as one piece, if it is short enough, else in pieces that end where the indentation
is least. What takes too much work to parse (grammars.py) has physical lines: the stretch about the
place where the work went, twice as long for each time in a row; what stands before and behind it is
parsed on its own. A line that nobody wrote by hand is not parsed. So time grows with the length of
the text alone, the same text has the same cuts on any machine, and what is broken stays local.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache, partial
from importlib.util import find_spec
from typing import Any

import numpy as np

from segmenters.base import Cuts, SegmenterError, cuts_from_ends
from segmenters.code import statements
from segmenters.code.physical import character_ends, line_ends
from segmenters.code.pieces import Seams
from segmenters.code.tables import TABLES, Kinds, kinds_of

# Bytes. Larger pieces lose fewer statements at their ends; but the time of an unforeseen kind of
# text may grow with the square of a piece, and stays below 2.5 times for twice the text only if
# there are several pieces.
_PIECE = 1 << 17
_GIVEN_UP = 1 << 11  # the shortest stretch that is not parsed
# The longest such stretch, and the first piece behind it: to give up can cost a hundred scans of
# the piece.
_AFTER_HARD = 1 << 14
_LONG_LINE = 1 << 14


def missing(language: str) -> str | None:
    """What to do about a grammar that is not installed, in one line; None if it is."""
    table = TABLES[language]
    if find_spec("tree_sitter") and find_spec(table.module):
        return None
    return (
        f"language {language!r} needs a grammar that is not installed "
        f"(pip install tree-sitter {table.package}), or fallback=True for physical lines"
    )


def versions(language: str) -> dict[str, str]:
    """The installed versions of tree-sitter and of the grammar."""
    from importlib.metadata import version

    return {name: version(name) for name in ("tree-sitter", TABLES[language].package)}


def logical_ends(text: str, language: str) -> Cuts:
    """Where logical lines end, in characters. Raises SegmenterError for a missing grammar."""
    return _Reading(text, language).logical_ends()


def levels(text: str, language: str) -> tuple[Cuts, Cuts]:
    """Cuts of the lines, and of the top-level definitions: some of the former."""
    reading = _Reading(text, language)
    lines = cuts_from_ends(reading.logical_ends(), len(text))
    return lines, reading.definition_cuts(lines)


@lru_cache(maxsize=32)
def _grammar(language: str) -> tuple[Any, Kinds]:
    wrong = missing(language)
    if wrong:
        raise SegmenterError(wrong)
    from segmenters.code import grammars

    table = TABLES[language]
    grammar = grammars.load(table.module, table.function)
    return grammar, kinds_of(table, grammar)


class _Reading:
    """A text in UTF-8, its physical lines, and the pieces of it that have a tree."""

    def __init__(self, text: str, language: str) -> None:
        self._grammar, self._kinds = _grammar(language)
        from segmenters.code import grammars

        self._parse = partial(grammars.parse, tags=bool(TABLES[language].tags))
        self._data = grammars.encode(text)
        self._codes = np.frombuffer(self._data, dtype=np.uint8)
        self._ends = line_ends(self._codes)
        self._character_ends = character_ends(text)
        self._trees = list(self._parse_pieces())

    def logical_ends(self) -> Cuts:
        """Where logical lines end, in characters."""
        closes = np.ones(len(self._ends), dtype=np.bool_)
        for start, stop, tree in self._trees:
            first, last = np.searchsorted(self._ends, [start, stop], side="right")
            closes[first:last] = statements.closing(
                tree.root_node,
                self._kinds,
                self._codes[start:stop],
                self._ends[first:last] - start,
            )
        return self._character_ends[closes]

    def definition_cuts(self, lines: Cuts) -> Cuts:
        """Cuts of the top-level definitions, some of `lines`, the cuts of the lines."""
        found = [
            place + start
            for start, _, tree in self._trees
            for place in statements.definitions(tree.root_node, self._kinds)
        ]
        # The line that holds the start of a definition, and the segment that holds the line.
        rows = np.searchsorted(self._ends, np.array(found, dtype=np.int64), side="right")
        starts = np.concatenate(([0], self._character_ends))[rows]
        held = lines[np.searchsorted(lines, starts, side="right") - 1]
        return np.array(sorted({*lines[[0, -1]].tolist(), *held.tolist()}), dtype=np.int64)

    def _parse_pieces(self) -> Iterator[tuple[int, int, Any]]:
        """Start, stop and tree of each piece that has one."""
        seams = Seams(self._codes, self._ends)
        bounds = seams.bounds
        long = np.flatnonzero(np.diff(bounds) > _LONG_LINE)
        start = 0
        for stop, following in [
            *zip(bounds[long], bounds[long + 1], strict=True),
            (len(self._data), 0),
        ]:
            yield from self._parse_stretch(seams, start, int(stop))
            start = int(following)

    def _parse_stretch(self, seams: Seams, start: int, stop: int) -> Iterator[tuple[int, int, Any]]:
        """The pieces between two places that have a tree; around hard places there is none."""
        given_up, size = _GIVEN_UP, _PIECE
        while start < stop:
            end = stop if stop - start <= size else seams.within(start + size // 2, start + size)
            tree, reached = self._parse(self._data[start:end], self._grammar)
            if tree is not None:
                yield start, end, tree
                if end - start >= given_up:
                    given_up, size = _GIVEN_UP, min(2 * size, _PIECE)
                start = end
                continue
            hard = seams.last(start, start + reached)
            if hard - start >= given_up:
                tree, _ = self._parse(self._data[start:hard], self._grammar)
                if tree is not None:
                    yield start, hard, tree
                    given_up = _GIVEN_UP
                start = hard
            least = min(max(start + reached, start + given_up), stop)
            start = min(stop, seams.first(least, least + given_up))
            given_up, size = min(2 * given_up, _AFTER_HARD), _AFTER_HARD
