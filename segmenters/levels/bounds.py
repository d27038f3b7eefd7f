r"""A bound on the length of segments: what is longer is split at the next lower kind of place.

    Bound.of("512 characters")      Bound.of(512)      Bound.of("128 tokens")

A segment of more than N units is split from its start: the first piece ends at the last place, no
more than N units away, of the first kind that has one there: a cut of a finer level of the
segmenter, a blank line, the end of a sentence, of a clause (", "), of a line, white space; in code
lines come before sentences and clauses. Places in the first quarter count only if there is no
other. If there is no place at all, it ends anywhere between two characters, but never inside a
surrogate pair, "\r\n", or a character with its combining marks: such a piece may be longer.

Where a piece ends depends on the text up to N units after its start and on one more character, so a
machine (`BoundMachine`) makes the same cuts while text is written, N units late.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt

from segmenters.base import Cuts, Machine
from segmenters.checks import require_integer
from segmenters.places import PARAGRAPH_END

_STOP: Final = re.compile(
    r"[.!?\u2026][\"')\]\u2019\u201d\u00bb]*+\s++|[\u3002\uff01\uff1f][\u300d\u300f\uff09\u201d]*+\s*+"
)
# The end of a clause with its white space, which Chinese and Japanese do not need.
CLAUSE: Final = re.compile(r"[,;:\u2014]\s++|[\uff0c\uff1b\uff1a\u3001]\s*+")
_LINE: Final = re.compile(r"\r\n?|\n")
_SPACE: Final = re.compile(r"\s++")
_PROSE: Final = (PARAGRAPH_END, _STOP, CLAUSE, _LINE, _SPACE)
_CODE: Final = (PARAGRAPH_END, _LINE, _STOP, CLAUSE, _SPACE)
_BY_LINES: Final = frozenset(("line", "statement", "step"))
_WISH: Final = re.compile(r"(\d+)(?: (characters?|tokens?))?")
_COMBINING: Final = frozenset(("Mn", "Me", "Mc"))
_LAST_ALONE: Final = "\u02ff"  # up to here only "\n" belongs to the character before
_JOINER: Final = "\u200d"

Anchors = npt.NDArray[np.int64]
Patterns = tuple[re.Pattern[str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """The most units of a segment: `number` characters or tokens."""

    number: int
    unit: str = "characters"

    @classmethod
    def of(cls, wish: int | str) -> Bound:
        """Read 512, "512 characters" or "128 tokens"; raise ValueError for anything else."""
        if isinstance(wish, str):
            match = _WISH.fullmatch(wish)
            if match is None or int(match[1]) < 1:
                raise ValueError(
                    "longest must be a number of characters, at least 1, or a text such as "
                    f"'512 characters' or '128 tokens', was: {wish!r}"
                )
            unit = "tokens" if (match[2] or "").startswith("token") else "characters"
            return cls(number=int(match[1]), unit=unit)
        require_integer("longest", wish, 1)
        return cls(number=wish)


def patterns_for(level: str) -> Patterns:
    """Return the kinds of places at which segments of a level are split, the best first."""
    return _CODE if level in _BY_LINES else _PROSE


def bounded(
    text: str,
    cuts: Cuts,
    *,
    bound: Bound,
    patterns: Patterns,
    lower: Sequence[Cuts],
    anchors: Anchors | None,
) -> Cuts:
    """Return the cuts with those that the bound adds.

    `lower`: cuts of finer levels, the coarsest first. `anchors`: of tokens, for a bound in tokens.
    """
    limit = _limit_of(bound, anchors, len(text))
    finer = [level.tolist() for level in lower]
    places: list[int] = []
    for start, end in _too_long(cuts, bound, anchors):
        while (most := limit(start)) < end:
            place = split(text, start, most, patterns, finer) or most
            while place < end and joined(text, place, start):
                place += 1
            if place >= end:
                break
            places.append(place)
            start = place
    return np.sort(np.concatenate((cuts, np.array(places, dtype=np.int64)))) if places else cuts


def _limit_of(bound: Bound, anchors: Anchors | None, size: int) -> Callable[[int], int]:
    """Return a function of the start of a segment: the last place where its first piece may end."""
    number = bound.number
    if bound.unit == "characters":
        return lambda start: start + number
    assert anchors is not None
    places = anchors.tolist()

    def limit(start: int) -> int:
        beyond = bisect_left(places, start) + number
        # Tokens that share a character cannot be told apart by a cut.
        return max(places[beyond], start + 1) if beyond < len(places) else size

    return limit


def _too_long(cuts: Cuts, bound: Bound, anchors: Anchors | None) -> list[tuple[int, int]]:
    places = cuts if anchors is None else np.searchsorted(anchors, cuts)
    spans = [*pairwise(cuts.tolist())]
    return [spans[index] for index in np.flatnonzero(np.diff(places) > bound.number).tolist()]


def split(
    text: str, start: int, most: int, patterns: Patterns, finer: Sequence[Sequence[int]]
) -> int | None:
    """Return the best place in (start, most] to end a piece that begins at `start`, or None."""
    least = start + (most - start) // 4
    early = None
    for places in finer:
        at = bisect_right(places, most) - 1
        if at >= 0 and places[at] > start:
            if places[at] >= least:
                return places[at]
            early = early or places[at]
    for pattern in patterns:
        ends = [m.end() for m in pattern.finditer(text, start, most + 1)]
        fit = (end for end in reversed(ends) if end <= most and not joined(text, end, start))
        last = next(fit, None)
        if last is not None and last >= least:
            return last
        early = early or last
    if early is not None:
        return early
    return next((p for p in range(most, start, -1) if not joined(text, p, start)), None)


def joined(text: str, place: int, start: int) -> bool:
    """Return whether the characters around a place belong together; `start`: of the segment."""
    if place >= len(text):
        return False
    before, after = text[place - 1], text[place]
    if after <= _LAST_ALONE:
        return after == "\n" and before == "\r"
    if "\udc00" <= after <= "\udfff":
        return "\ud800" <= before <= "\udbff"
    if after == _JOINER or before == _JOINER or "\U0001f3fb" <= after <= "\U0001f3ff":
        return True
    if "\u1160" <= after <= "\u11ff":  # vowels and finals of a Hangul syllable
        return "\u1100" <= before <= "\u11ff"
    if _is_flag(after) and _is_flag(before):
        first = place - 1
        while first > start and _is_flag(text[first - 1]):
            first -= 1
        return (place - first) % 2 == 1
    return unicodedata.category(after) in _COMBINING


def _is_flag(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"


@dataclass(slots=True, kw_only=True)
class BoundMachine(Machine):
    """Machine of segments with a bound: decides a segment when it ends or becomes too long."""

    inner: Machine
    lower: list[Machine]
    bound: Bound
    patterns: Patterns
    text: str = ""  # from the start of the open segment on
    start: int = 0
    # Of what is known behind the start.
    cuts: list[int] = field(default_factory=list)
    finer: list[list[int]] = field(default_factory=list)
    anchors: list[int] = field(default_factory=list)
    reached: int = 0  # up to here no place can be cut, though the segment is too long

    def __post_init__(self) -> None:
        self.finer = self.finer or [[] for _ in self.lower]

    @property
    def decided(self) -> int:
        return self.start

    def anchored(self, place: int) -> list[int]:
        # A token of a character that is cut off already is none of this segment.
        if self.bound.unit == "characters" or place < self.start:
            return []
        self.anchors.append(place)
        return self._advance(known=self._known())

    def close(self) -> list[int]:
        self.cuts += self.inner.close()
        for places, machine in zip(self.finer, self.lower, strict=True):
            places += machine.close()
        return self._advance(known=self.start + len(self.text), closed=True)

    def _read(self, text: str) -> list[int]:
        self.text += text
        self.cuts += self.inner.push(text)
        for places, machine in zip(self.finer, self.lower, strict=True):
            places += machine.push(text)
        return self._advance(known=self._known())

    def _known(self) -> int:
        return min(machine.decided for machine in (self.inner, *self.lower))

    def _advance(self, *, known: int, closed: bool = False) -> list[int]:
        """Return the cuts that are decided if the inner ones are known up to `known`."""
        found: list[int] = []
        while (place := self._next(known, closed)) is not None:
            found.append(place)
            self.text = self.text[place - self.start :]
            self.start = place
            self.cuts = [cut for cut in self.cuts if cut > place]
            self.finer = [[cut for cut in places if cut > place] for places in self.finer]
            self.anchors = [anchor for anchor in self.anchors if anchor >= place]
        return found

    def _next(self, known: int, closed: bool) -> int | None:
        """Return the end of the open segment or of its first piece, None if it is not known."""
        size = self.start + len(self.text)
        end = self.cuts[0] if self.cuts else None
        most = self._most(closed, size)
        if most is None:  # a token may still come
            return None if end is None or not self._counted(end) else end
        if end is not None and end <= most:
            return end
        if size <= most or known < most:
            return None
        place = self.reached or self._split(most)
        while place < size and joined(self.text, place - self.start, 0):
            place += 1
        self.reached = place
        if end is not None and end <= place:
            place = end
        elif place >= size or known < place:
            return None
        self.reached = 0
        return place

    def _split(self, most: int) -> int:
        finer = [[cut - self.start for cut in places] for places in self.finer]
        reach = most - self.start
        return self.start + (split(self.text, 0, reach, self.patterns, finer) or reach)

    def _most(self, closed: bool, size: int) -> int | None:
        """Return the last place where the first piece may end; None while that is unknown."""
        if self.bound.unit == "characters":
            return self.start + self.bound.number
        if len(self.anchors) > self.bound.number:
            return max(self.anchors[self.bound.number], self.start + 1)
        return size if closed else None

    def _counted(self, end: int) -> bool:
        return bool(self.anchors) and self.anchors[-1] >= end
