"""Lines and definitions of a text in any language that has a grammar.

A long text is parsed in pieces that end where the indentation is least. Text that is too hard to
parse within a fixed budget (grammars.py) is cut at physical lines: a stretch around the hard place,
twice as long for each time in a row; the text before and after it is parsed on its own. Errors are
counted against the bytes parsed, since recovering from one costs a parser as much as hundreds of
tokens; bytes by which they are too many are passed over. Lines too long to be written by hand are
not parsed (minified.py cuts those of some languages). So time is linear in the text, the cuts are
the same on any machine, and what is broken stays local.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from functools import lru_cache, partial
from importlib.util import find_spec
from typing import Any

import numpy as np
import numpy.typing as npt

from segmenters.base import Cuts, SegmenterError, tally
from segmenters.code.masks import encode
from segmenters.code.minified import LANGUAGES, statement_ends
from segmenters.code.statements import VISIBLE, closing, definitions, methods
from segmenters.code.tables import TABLES, Kinds, grammar_of, kinds_of
from segmenters.places import character_ends, line_ends, rows_of
from segmenters.registry import installed

# Bytes. Larger pieces cut fewer statements at their ends; but unforeseen kinds of text may take
# time quadratic in a piece, and twice the text takes at most 2.5 times as long only in several
# pieces.
_PIECE = 1 << 17
_SMALL_PIECE = 1 << 12
# The shortest stretch that is not parsed, the longest, and the first piece after it: giving up can
# cost a hundred scans of the piece.
_GIVEN_UP, _MOST_GIVEN_UP, _AFTER_HARD = 1 << 11, 1 << 16, 1 << 14
_LONG_LINE = 1 << 14
# At an error the parser looks at all tokens of the grammar. Bytes that it may owe, and that each
# error counts, and each node that it leaves in one; and so many per byte are too many.
_CREDIT, _ERROR, _LEFT, _TOO_MANY = 1 << 14, 64, 8, 1.5
# Bytes at the beginning of a piece that are looked at for errors first, in all pieces as many, or
# twice the text could fare differently; texts too short for such a look; their longest piece that
# needs none, and the first after one full of errors.
_BEGINNING, _SHORT, _LOOK = 1 << 11, 1 << 15, 1 << 9
_CLOSING = np.frombuffer(b")]}", dtype=np.uint8)
_NONE = np.empty(0, dtype=np.int64)
_LAST_CHOICE = np.iinfo(np.int32).max
# What is tallied where physical lines replace logical ones; the first ends in a language.
NO_GRAMMAR = "physical lines: no grammar of "
LANGUAGE_UNKNOWN = "physical lines: unknown language"
IN_DOCUMENT = "physical lines: listings in no known language"
TOO_HARD = "physical lines: too hard to parse"


def missing(language: str) -> str | None:
    """Return how to install a missing grammar or do without it; None if it can be used."""
    if not _installed(language):
        wrong = f"that is not installed ({_install(language)})"
    elif fault := _fault(*grammar_of(language)):
        wrong = f"of another version ({fault}; {_install(language)})"
    else:
        return None
    return f"language {language!r} needs a grammar {wrong}, or fallback=True for physical lines"


def _installed(language: str) -> bool:
    return bool(find_spec("tree_sitter") and find_spec(grammar_of(language)[0]))


@lru_cache(maxsize=64)
def _fault(module: str, function: str) -> str:
    """Return why tree-sitter cannot use an installed grammar; empty if it can."""
    from segmenters.code import grammars

    try:
        grammars.load(module, function)
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        return str(error)
    return ""


def _install(language: str) -> str:
    how = "install -U" if _installed(language) else "install"
    return f"pip {how} tree-sitter {grammar_of(language)[0].replace('_', '-')}"


def cure(rule: str) -> str | None:
    """Return what helps where physical lines replaced logical ones; None for other rules."""
    if rule == LANGUAGE_UNKNOWN:
        return "name it by a field (lang, path), the file name or language="
    if rule.startswith(NO_GRAMMAR):
        language = rule.removeprefix(NO_GRAMMAR)
        return _install(language) if language in TABLES else f"there are: {', '.join(TABLES)}"
    return "exclude generated, minified and broken files" if rule == TOO_HARD else None


def versions(language: str) -> dict[str, str]:
    """Return the installed versions of tree-sitter and of the grammar."""
    return installed("tree-sitter", grammar_of(language)[0].replace("_", "-"))


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
    held = np.zeros(len(lines), dtype=np.bool_)
    for some in starts:
        held[np.searchsorted(lines, np.asarray(some), side="right") - 1] = True
    return lines[held]


class _Reading:
    """A text in UTF-8 and its physical lines, parsed piece by piece; no tree is kept."""

    def __init__(self, text: str, language: str, *, coarse: bool = False) -> None:
        self._grammar, self._kinds = _grammar(language)
        self._text, self._language, self._size = text, language, len(text)
        from segmenters.code import grammars

        table = TABLES[language]
        self._parse = partial(grammars.parse, tags=table.tags, times=table.reads, tail=table.tail)
        self._errors, self._usual = grammars.errors, table.steps
        self._data = encode(text, language)
        self._seams = Seams(self._data)
        self._ends = self._seams.ends
        self._character_ends = self._ends if text.isascii() else character_ends(text)
        self._coarse = coarse

    def ends(self) -> tuple[Cuts, Cuts, Cuts]:
        """Return where logical lines end and, if asked for, functions and definitions begin."""
        closes = np.ones(len(self._ends), dtype=np.bool_)  # where nothing is parsed, all do
        inner, outer = array("q"), array("q")
        size, parsed = self._size, 0
        for start, stop, tree in self.pieces():
            first, last = rows_of(self._ends, start, stop, side="right")
            parsed += size if stop == len(self._data) else self._start(last)
            parsed -= self._start(first)
            ends = self._ends[first:last] - start
            functions: list[Any] | None = [] if self._coarse else None
            data = self._data[start:stop]
            closes[first:last] = closing(tree, self._kinds, data, ends, functions)
            if functions is not None:
                found = definitions(tree.root_node, self._kinds, data)
                outer.frombytes(self._starts(start, found))
                inner.frombytes(self._starts(start, methods(functions, self._kinds)))
        self._data = self._seams.data = b""  # so much less while the rest is written
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
            for row in self._seams.longer(_LONG_LINE)
        ]
        if not spans:
            return lines, 0
        found = (
            place
            for first, last in spans
            for place in statement_ends(self._text, first, last, self._language)
        )
        added = np.fromiter(found, dtype=np.int64)
        return np.union1d(lines, added), sum(last - first for first, last in spans)

    def _starts(self, piece: int, places: list[int]) -> bytes:
        """Return where the lines of places in a piece start: int64 [places], characters."""
        own = np.array(places, dtype=self._ends.dtype) + piece
        rows = self._ends.searchsorted(own, side="right")
        starts = np.zeros(len(rows), dtype=np.int64)
        starts[rows > 0] = self._character_ends[rows[rows > 0] - 1]
        return starts.tobytes()

    def pieces(self) -> Iterator[tuple[int, int, Any]]:
        """Yield start, stop and tree of each piece that has one."""
        bounds, start = self._seams.bounds, 0
        for row in self._seams.longer(_LONG_LINE):
            yield from self._parse_stretch(start, int(bounds[row]))
            start = int(bounds[row + 1])
        yield from self._parse_stretch(start, len(self._data))

    def _parse_stretch(self, start: int, stop: int) -> Iterator[tuple[int, int, Any]]:
        """Yield the pieces between two places that have a tree; hard ones have none."""
        seams, given_up, size, short = self._seams, _GIVEN_UP, _PIECE, stop - start < _SHORT
        debt = credit = -min(_CREDIT, (stop - start) // 4)
        while start < stop:
            last = stop if stop - start <= size else seams.within(start + size // 2, start + size)
            parse = self._parse_unless_suspect if short else self._parse_unless_broken
            end, tree, reached = parse(start, last)
            if tree is not None:
                yield start, end, tree
                owed = self._broken(tree)[0]
                if short and end < last:
                    owed, size = owed * reached // (end - start), _LOOK
                debt = max(debt + owed - (end - start), credit)
                if debt > 0:
                    least = min(end + debt, stop)
                    start = min(stop, seams.first(least, least + _GIVEN_UP))
                    size, debt = _LOOK if short else _SMALL_PIECE, 0
                    continue
                if end - start >= given_up or size < _SMALL_PIECE:
                    given_up, size = _GIVEN_UP, min(2 * size, _PIECE)
                start = end
                continue
            # The next power of two, so that the pieces are those of twice the text.
            size = min(size, 1 << (last - start - 1).bit_length())
            if size > _SMALL_PIECE:  # what is hard in a large piece may be easy in small ones
                size = max(size >> 3, _SMALL_PIECE) if end == last else _SMALL_PIECE
                continue
            hard = seams.last(start, start + reached)
            if hard > start:
                tree, _ = self._parse(self._data[start:hard], self._grammar)
                if tree is not None:
                    yield start, hard, tree
                    if hard - start >= given_up:
                        given_up = _GIVEN_UP
                start = hard
            least = min(max(start + reached, start + given_up), stop)
            start = min(stop, seams.first(least, least + given_up))
            size = _AFTER_HARD if given_up == _GIVEN_UP else _SMALL_PIECE
            given_up = min(2 * given_up, _MOST_GIVEN_UP)

    def _parse_unless_broken(self, start: int, stop: int) -> tuple[int, Any, int]:
        """Parse a piece, or its beginning alone if this has too many errors or is too hard.

        That of the beginning does not count if a literal that goes on behind it is the cause.
        """
        data = self._data[start:stop]
        if len(data) < _SHORT:
            return stop, *self._parse(data, self._grammar)
        middle = self._seams.within(start + _BEGINNING // 2, start + _BEGINNING)
        tree, reached = self._parse(self._data[start:middle], self._grammar)
        if tree is None:
            literal = reached // 2, reached
        else:
            owed, wrong = self._broken(tree)
            if owed <= _TOO_MANY * (middle - start):
                return stop, *self._parse(data, self._grammar)
            literal = wrong[len(wrong) // 4], middle - start
        whole, far = self._parse(data, self._grammar, passed_over=literal)
        return (middle, tree, reached) if whole is None else (stop, whole, far)

    def _parse_unless_suspect(self, start: int, stop: int) -> tuple[int, Any, int]:
        """Parse a piece, or its beginning alone if this takes many steps and is full of errors.

        Then the last number is that of all bytes parsed for it.
        """
        beginning: list[tuple[int, Any]] = []

        def look(reached: int) -> bool:
            middle = self._seams.within(start + reached // 4, start + reached // 2)
            if middle < stop:
                tree, _ = self._parse(self._data[start:middle], self._grammar)
                if tree is not None and self._broken(tree)[0] > _TOO_MANY * (middle - start):
                    beginning.append((middle, tree))
            return bool(beginning)

        usual = self._usual if stop - start > _LOOK else 0
        data = self._data[start:stop]
        tree, reached = self._parse(data, self._grammar, usual=usual, look=look)
        for middle, broken in beginning:
            return middle, broken, reached + middle - start
        return stop, tree, reached

    def _broken(self, tree: Any) -> tuple[int, list[int]]:
        """Return how many bytes the errors of a tree count, and where they are."""
        wrong, left = self._errors(tree)
        return _ERROR * len(wrong) + _LEFT * left, sorted(wrong)


class Seams:
    """The starts of the lines of a text, ranked as places to cut it; all in bytes.

    Lines with the least indentation come first, above all after a blank line, since they most
    likely begin a definition or a statement; lines that start with a closing bracket come last.
    `bounds`: where the lines of `data`, UTF-8, start, and the end; `ends`: where those with a line
    end end.
    """

    def __init__(self, data: bytes) -> None:
        self.data, ends = data, line_ends(np.frombuffer(data, dtype=np.uint8))
        last = [len(data)] if data and not (len(ends) and ends[-1] == len(data)) else []
        self.bounds = np.concatenate(([0], ends, last), dtype=ends.dtype, casting="unsafe")
        self.ends = self.bounds[1 : len(ends) + 1]

    def longer(self, size: int) -> list[int]:
        """Return the numbers of the lines of more bytes than this."""
        if self.bounds[-1] <= size:
            return []
        return np.flatnonzero(self.bounds[1:] - self.bounds[:-1] > size).tolist()

    def _ranks(self, start: int, stop: int) -> npt.NDArray[Any]:
        """Return the ranks of some lines, which depend on these and on the line before them."""
        before = min(start, 1)
        bounds = self.bounds[start - before : stop + 1].astype(np.int64)
        data, (starts, stops) = self.data[bounds[0] : bounds[-1]], (bounds[:-1], bounds[1:])
        visible = np.flatnonzero(np.frombuffer(data.translate(VISIBLE), dtype=np.bool_))
        visible = np.append(visible + bounds[0], bounds[-1])
        first = visible[visible[:-1].searchsorted(starts)]
        blank = first >= stops
        rank = 2 * (first - starts) + 1
        rank[1:] -= blank[:-1]
        codes = np.frombuffer(self.data, dtype=np.uint8)
        rank[blank | np.isin(codes.take(first, mode="clip"), _CLOSING)] = _LAST_CHOICE
        return rank[before:]

    def last(self, low: int, high: int) -> int:
        """Return the best line start in (low, high], the last of equals; `low` if there is none."""
        start, stop = rows_of(self.bounds[:-1], low, high, side="right")
        if start == stop:
            return low
        return int(self.bounds[stop - 1 - np.argmin(self._ranks(start, stop)[::-1])])

    def within(self, low: int, high: int) -> int:
        """Return the last best line start in (low, high], else the next line end."""
        best = self.last(low, high)
        return best if best > low else self.first(low + 1, low + 1)

    def first(self, low: int, high: int) -> int:
        """Return the first best line start in [low, high], else the next line end."""
        start, stop = rows_of(self.bounds, low, high + 1)
        stop = min(stop, len(self.bounds) - 1)
        return int(
            self.bounds[start + np.argmin(self._ranks(start, stop)) if start < stop else start]
        )
