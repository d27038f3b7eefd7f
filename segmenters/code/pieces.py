"""Which pieces of a text are parsed, one by one, and the budget that keeps their time linear.

    stretch    what is between lines too long to be written by hand, which are not parsed
    piece      a part of a stretch that has a tree; it ends where the indentation is least (`Seams`)
    the rest   what is too hard, or what the errors before it cost, is passed over

A piece that is too hard for the parser (`grammars`) is tried again in smaller pieces, twice; what
is hard in these is passed over, twice as much for each time in a row, and what is before and behind
it is parsed on its own. Nothing depends on a clock, so the pieces are the same on any machine, and
what is broken stays local.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from segmenters.code.statements import VISIBLE
from segmenters.code.tables import Table
from segmenters.offsets import line_ends, rows_of

# All sizes and costs are in bytes. Larger pieces cut fewer statements at their ends; but unforeseen
# kinds of text may take time quadratic in a piece, and twice the text takes at most 2.5 times as
# long only in several pieces.
LARGEST, _SMALL = 1 << 17, 1 << 12
# The least that is passed over at a hard place, the most, and the first piece behind the least:
# giving up can cost a hundred scans of the piece.
LEAST_PASSED, _MOST_PASSED, AFTER_HARD = 1 << 11, 1 << 16, 1 << 14
LONG_LINE = 1 << 14
# At an error the parser looks at all tokens of the grammar. What each error costs, and each node
# that it leaves in one; what a stretch may owe; and how much per byte is too much.
ERROR, LEFT, CREDIT, _TOO_MUCH = 64, 8, 1 << 14, 1.5
# The beginning of a piece that is looked at for errors first, in all pieces as long, or twice the
# text could fare differently; stretches too short for such a look; their longest piece that needs
# none, and the first after one full of errors.
_BEGINNING, _SHORT, _LOOK = 1 << 11, 1 << 15, 1 << 9
_CLOSING = np.frombuffer(b")]}", dtype=np.uint8)
_LAST_CHOICE = np.iinfo(np.int32).max


@dataclass(slots=True)
class Budget:
    """What a stretch may cost the parser, and by that the size of its next piece.

    Recovering from an error takes the parser as many steps as some hundred bytes of ordinary code.
    So steps are counted in bytes of such code, and each byte that is parsed pays for one.
    """

    credit: int  # the most that a stretch may owe; text without errors saves no more than this
    is_short: bool
    size: int  # of the next piece
    passed: int = LEAST_PASSED  # what is passed over at the next hard place
    balance: int = 0  # how much more errors may cost

    @classmethod
    def of(cls, length: int) -> Budget:
        """Return the budget of a stretch of some length."""
        credit = min(CREDIT, length // 4)
        return cls(credit, is_short=length < _SHORT, size=LARGEST, balance=credit)

    def charge(self, cost: int, length: int) -> int:
        """Pay what the errors of a piece of this length cost; return what is to be passed over."""
        self.balance = min(self.balance + length - cost, self.credit)
        if self.balance < 0:
            unpaid, self.balance = -self.balance, 0
            self.size = _LOOK if self.is_short else _SMALL
            return unpaid
        if length >= self.passed or self.size < _SMALL:
            self.passed, self.size = LEAST_PASSED, min(2 * self.size, LARGEST)
        return 0

    def shrink(self, length: int, *, whole: bool) -> bool:
        """Make the next piece smaller, since one was too hard; False if it was small already.

        `whole`: whether the parser has read all of the piece, and not only its beginning.
        """
        # The next power of two, so that the pieces are those of twice the text.
        self.size = min(self.size, 1 << (length - 1).bit_length())
        if self.size <= _SMALL:
            return False
        self.size = max(self.size >> 3, _SMALL) if whole else _SMALL
        return True

    def calm(self, length: int) -> None:
        """Count what could be parsed before a hard place: hard places in a row are close."""
        if length >= self.passed:
            self.passed = LEAST_PASSED

    def give_up(self) -> int:
        """Return how much is passed over at least, twice as much at the next place in a row."""
        passed = self.passed
        self.size = AFTER_HARD if passed == LEAST_PASSED else _SMALL
        self.passed = min(2 * passed, _MOST_PASSED)
        return passed


class Piece(NamedTuple):
    """A piece from `start` to `end` and its tree."""

    start: int
    end: int
    tree: Any


class _Try(NamedTuple):
    """What the parser made of a piece: the tree of what is before `end`, or None if it is too hard.

    `reached`: how many bytes the parser has passed, all its tries together.
    """

    end: int
    tree: Any
    reached: int


class Pieces:
    """The pieces of `data`, a text in UTF-8; no tree is kept."""

    def __init__(self, data: bytes, grammar: Any, table: Table) -> None:
        from segmenters.code import grammars

        self.data, self.seams = data, Seams(data)
        self._parse = partial(
            grammars.parse, language=grammar, tags=table.tags, times=table.reads, tail=table.tail
        )
        self._errors, self._usual = grammars.errors, table.steps

    def __iter__(self) -> Iterator[Piece]:
        bounds, start = self.seams.bounds, 0
        for row in self.seams.longer(LONG_LINE):
            yield from self._stretch(start, int(bounds[row]))
            start = int(bounds[row + 1])
        yield from self._stretch(start, len(self.data))

    def _stretch(self, start: int, stop: int) -> Iterator[Piece]:
        """Yield the pieces between two places."""
        seams, budget = self.seams, Budget.of(stop - start)
        attempt = self._unless_suspect if budget.is_short else self._unless_broken
        while start < stop:
            last = stop
            if stop - start > budget.size:
                last = seams.within(start + budget.size // 2, start + budget.size)
            end, tree, reached = attempt(start, last)
            if tree is not None:
                yield Piece(start, end, tree)
                cost = self._cost(tree)[0]
                if budget.is_short and end < last:
                    cost, budget.size = cost * reached // (end - start), _LOOK
                unpaid = budget.charge(cost, end - start)
                start = self._behind(end + unpaid, LEAST_PASSED, stop) if unpaid else end
            elif not budget.shrink(last - start, whole=end == last):
                hard = seams.last(start, start + reached)
                if hard > start:
                    tree, _ = self._parse(self.data[start:hard])
                    if tree is not None:
                        yield Piece(start, hard, tree)
                        budget.calm(hard - start)
                passed = budget.give_up()
                start = self._behind(hard + max(reached, passed), passed, stop)

    def _behind(self, least: int, reach: int, stop: int) -> int:
        """Return where parsing goes on: the best place from `least` on, within reach of it."""
        least = min(least, stop)
        return min(stop, self.seams.first(least, least + reach))

    def _unless_broken(self, start: int, stop: int) -> _Try:
        """Parse a piece, or its beginning alone if this has too many errors or is too hard.

        That of the beginning does not count if a literal that goes on behind it is the cause.
        """
        data = self.data[start:stop]
        if len(data) < _SHORT:
            return _Try(stop, *self._parse(data))
        middle = self.seams.within(start + _BEGINNING // 2, start + _BEGINNING)
        tree, reached = self._parse(self.data[start:middle])
        if tree is None:
            literal = reached // 2, reached
        else:
            cost, places = self._cost(tree)
            if cost <= _TOO_MUCH * (middle - start):
                return _Try(stop, *self._parse(data))
            literal = places[len(places) // 4], middle - start
        whole, far = self._parse(data, passed_over=literal)
        return _Try(middle, tree, reached) if whole is None else _Try(stop, whole, far)

    def _unless_suspect(self, start: int, stop: int) -> _Try:
        """Parse a piece, or its beginning alone if this takes many steps and is full of errors."""
        beginning: list[tuple[int, Any]] = []

        def look(reached: int) -> bool:
            middle = self.seams.within(start + reached // 4, start + reached // 2)
            if middle < stop:
                tree, _ = self._parse(self.data[start:middle])
                if tree is not None and self._cost(tree)[0] > _TOO_MUCH * (middle - start):
                    beginning.append((middle, tree))
            return bool(beginning)

        usual = self._usual if stop - start > _LOOK else 0
        tree, reached = self._parse(self.data[start:stop], usual=usual, look=look)
        for middle, broken in beginning:
            return _Try(middle, broken, reached + middle - start)
        return _Try(stop, tree, reached)

    def _cost(self, tree: Any) -> tuple[int, list[int]]:
        """Return what the errors of a tree cost, and where they are."""
        places, left = self._errors(tree)
        return ERROR * len(places) + LEFT * left, sorted(places)


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
