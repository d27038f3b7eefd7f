"""Lines and definitions of a text in any language that has a grammar.

A long text is parsed in pieces, cut where something starts at the margin behind a blank line, and
a line that nobody wrote by hand is a piece of its own: so time grows with the length of the text
alone, and what cannot be parsed stays in its piece. A piece without a tree has physical lines.
"""

from __future__ import annotations

from functools import lru_cache
from importlib.util import find_spec
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from segmenters.base import Cuts, SegmenterError
from segmenters.code import statements
from segmenters.code.physical import character_ends, line_ends
from segmenters.code.tables import TABLES, Kinds, kinds_of

# Bytes. Recovery from errors can take the square of a piece's length or more in some grammars, most
# of all Haskell's; larger pieces lose fewer statements at their ends.
_PIECE = 1 << 15
_LONG_LINE = 1 << 14  # bytes
_NEVER_FIRST = np.frombuffer(b" \t\r\n\f\v)]}#", dtype=np.uint8)

_Bytes = npt.NDArray[np.uint8]


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
    grammar, kinds, data, ends = _prepare(text, language)
    closes = np.ones(len(ends), dtype=np.bool_)
    for start, stop, tree in _trees(data, ends, grammar):
        first, last = np.searchsorted(ends, [start, stop], side="right")
        if tree is not None and last > first:
            piece = np.frombuffer(data, dtype=np.uint8)[start:stop]
            closes[first:last] = statements.closing(
                tree.root_node, kinds, piece, ends[first:last] - start
            )
    return character_ends(text)[closes]


def definition_cuts(text: str, language: str, lines: Cuts) -> Cuts:
    """Cuts of the top-level definitions: some of `lines`, the cuts of the lines."""
    grammar, kinds, data, ends = _prepare(text, language)
    found = [
        place + start
        for start, _, tree in _trees(data, ends, grammar)
        if tree is not None
        for place in statements.definitions(tree.root_node, kinds)
    ]
    # The line that holds the start of a definition, and the segment that holds the line.
    rows = np.searchsorted(ends, np.array(found, dtype=np.int64), side="right")
    starts = np.concatenate(([0], character_ends(text)))[rows]
    held = lines[np.searchsorted(lines, starts, side="right") - 1]
    return np.unique(np.concatenate((lines[[0, -1]], held)))


@lru_cache(maxsize=32)
def _grammar(language: str) -> tuple[Any, Kinds]:
    wrong = missing(language)
    if wrong:
        raise SegmenterError(wrong)
    from segmenters.code import grammars

    table = TABLES[language]
    grammar = grammars.load(table.module, table.function)
    return grammar, kinds_of(table, grammar)


def _prepare(text: str, language: str) -> tuple[Any, Kinds, bytes, Cuts]:
    grammar, kinds = _grammar(language)
    from segmenters.code import grammars

    data = grammars.encode(text)
    return grammar, kinds, data, line_ends(np.frombuffer(data, dtype=np.uint8))


def _trees(data: bytes, ends: Cuts, grammar: Any) -> list[tuple[int, int, Any]]:
    """Start, stop and tree of each piece; no tree where it would take too much work."""
    from segmenters.code import grammars

    return [
        (start, stop, grammars.parse(data[start:stop], grammar) if short else None)
        for start, stop, short in _pieces(np.frombuffer(data, dtype=np.uint8), ends)
    ]


def _pieces(data: _Bytes, ends: Cuts) -> list[tuple[int, int, bool]]:
    """Start and stop of each piece, and whether its lines are short."""
    bounds = np.unique(np.concatenate(([0], ends, [len(data)])))
    long = np.flatnonzero(np.diff(bounds) > _LONG_LINE)
    places = np.unique(np.concatenate(([0], bounds[long], bounds[long + 1], [len(data)])))
    is_long = set(bounds[long].tolist())
    found: list[tuple[int, int, bool]] = []
    for start, stop in pairwise(places.tolist()):
        if start in is_long:
            found.append((start, stop, False))
            continue
        while stop - start > _PIECE:
            middle = _margin(data, bounds, start)
            found.append((start, middle, True))
            start = middle
        found.append((start, stop, True))
    return found


def _margin(data: _Bytes, bounds: Cuts, start: int) -> int:
    """The best place to end a piece of at most the size of one that begins at `start`."""
    low, high = np.searchsorted(bounds, [start + _PIECE // 2, start + _PIECE], side="right")
    places = bounds[low:high]
    at_margin = ~np.isin(data[places], _NEVER_FIRST)
    after_blank = (places - bounds[low - 1 : high - 1]) <= 2
    for wanted in (at_margin & after_blank, at_margin, at_margin | True):
        if wanted.any():
            return int(places[wanted][-1])
    return int(bounds[high - 1])
