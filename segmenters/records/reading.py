r"""The machine that reads records: which lines start one, and what stays open over line ends.

A format is a row of a table. At the start of each line, outside of what is open, `starts` is tried
on the next `head` characters; the name of the group that matches tells what starts there:

    l1, l2, l3   a record of this level (l2: a section, which is a record too)
    comment, tag a run of lines that the record in the line below joins
    blank        nothing; comments above it are a record of their own
    others       what a subclass makes of them

A line that matches nothing goes on with the record before. Literals (quoted text, comments,
here-documents) and brackets stay open over line ends, but for no more than LONGEST characters, nor
beyond a line that matches `resets`: what is never closed must not swallow the text after it. The
machine reads left to right and keeps no more than `head` and `reach` characters, so batch and
online cuts are equal by construction.
"""

from __future__ import annotations

import re
from array import array
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from segmenters.base import Cuts, Machine

# No literal is longer: it is the largest cell of a spreadsheet.
LONGEST: Final = 32_767
LINE: Final = r"(?P<line>\r\n?|\n)"


class Literal(NamedTuple):
    """Text that is read by other rules: quoted text, a comment, a here-document.

    Patterns of what opens it, of what ends it (with `{tag}` for the group `tag` or `own` in the
    first one), and of what is no end; whether it goes on over line ends.
    """

    start: str
    end: str = ""
    skips: str = ""
    lines: bool = True


class Patterns(NamedTuple):
    """The compiled patterns of a format."""

    starts: re.Pattern[str]
    tokens: re.Pattern[str]
    resets: re.Pattern[str] | None
    plain: bool  # nothing stays open


@lru_cache(maxsize=256)
def _inside(literal: Literal, tag: str) -> re.Pattern[str]:
    """Return the pattern of what matters inside a literal."""
    ends = [f"(?P<skip>{literal.skips})"] if literal.skips else []
    ends += [f"(?P<end>{literal.end.replace('{tag}', re.escape(tag))})"] if literal.end else []
    return re.compile("|".join([*ends, LINE]))


@lru_cache(maxsize=128)
def patterns_of(format: Format) -> Patterns:
    """Compile the patterns of a format."""
    tokens = [f"(?P<o{i}>{literal.start})" for i, literal in enumerate(format.literals)]
    tokens += [f"(?P<open>[{re.escape(format.opens)}])"] if format.opens else []
    tokens += [f"(?P<close>[{re.escape(format.closes)}])"] if format.closes else []
    tokens += [f"(?P<join>(?:{format.joins})(?:\\r\\n?|\\n))"] if format.joins else []
    tokens += [f"(?P<mark>{format.marks})"] if format.marks else []
    return Patterns(
        starts=re.compile(format.starts),
        tokens=re.compile("|".join([*tokens, LINE])),
        resets=re.compile(format.resets) if format.resets else None,
        plain=not tokens,
    )


_BITS = 3  # of a level in `Reading.found`


@dataclass(slots=True, kw_only=True)
class Reading(Machine):
    """Reads the records of one format; subclasses read what a table cannot say."""

    format: Format
    rest: str = ""  # what is read and undecided, behind one character of context
    context: int = 0
    fresh: bool = True  # at the start of a line
    seen: bool = False  # something has started
    above: bool = False  # the line above is a comment, or what else the next record joins
    blank: bool = True  # the line above is blank
    inside: int = -1  # the literal that is open
    tag: str = ""
    depth: int = 0
    joined: bool = False  # the line before goes on in this one
    opened: int = 0  # where what is open began
    ended: int = 0  # the level of the record that the next visible character starts
    # Cuts since the last call, each a place and the level in its last bits: a whole text may have
    # millions, and a list takes many times the memory.
    found: array[int] = field(default_factory=lambda: array("q"))

    @property
    def patterns(self) -> Patterns:
        return patterns_of(self.format)

    def _read(self, text: str) -> list[int]:
        return self.cuts_of(text, final=False)[0].tolist()

    def close(self) -> list[int]:
        return self.cuts_of("", final=True)[0].tolist()

    @property
    def decided(self) -> int:
        # A cut follows a line end, so that inside a line all is known.
        waits = self.fresh or "\n" in self.rest or "\r" in self.rest
        return self.size - 1 - (len(self.rest) - self.context if waits else 0)

    def cuts_of(self, text: str, *, final: bool) -> tuple[Cuts, npt.NDArray[np.int8]]:
        """Return places and levels, int64 and int8 [cuts], of the cuts that the piece decides."""
        base = self.size - len(self.rest)
        text = self.rest + text
        place, head = self.context, self.format.head
        while place < len(text):
            if self.fresh:
                if not final and len(text) - place < head:
                    break
                self.fresh = False
                place = self.start(text, place, base)
            place = self._scan(text, place, base, final=final)
            if not self.fresh:
                break
        self.context = min(place, 1)
        self.rest = text[place - self.context :]
        codes, self.found = np.asarray(self.found), array("q")
        levels = (codes & ~(-1 << _BITS)).astype(np.int8)
        codes >>= _BITS  # in place: no copy
        return codes, levels

    def start(self, text: str, place: int, base: int) -> int:
        """Decide whether a record starts with the line at `place`; return where to read on."""
        if self.goes_on(text, place, base):
            return place
        match = self.patterns.starts.match(text, place, place + self.format.head)
        kind = (match.lastgroup or "") if match else ""
        if match is not None and (level := self.level(kind, match)):
            self.emit(base + place, level)
        self.above = self.joins_below(kind)
        self.blank = kind == "blank"
        return place

    def goes_on(self, text: str, place: int, base: int) -> bool:
        """Return whether something open goes on in the line at `place`."""
        if self.inside < 0 and not self.depth and not self.joined:
            return False
        end, resets = place + self.format.head, self.patterns.resets
        sure = self.joined or self.tag  # a here-document may hold anything
        broken = resets is not None and not sure and resets.match(text, place, end)
        if broken or base + place - self.opened > LONGEST:
            self.inside, self.tag, self.depth, self.joined = -1, "", 0, False
            return False
        if self.joined:  # comments and blank lines may leave it open
            match = self.patterns.starts.match(text, place, end) if self.format.keeps else None
            self.joined = match is not None and match.lastgroup in ("comment", "blank")
        return True

    def level(self, kind: str, match: re.Match[str]) -> int:
        """Return the level of the record that a line starts, 0 for none; `kind`: its group."""
        if kind in self.format.above:
            return 0 if self.above else 1
        return int(kind[1]) if kind[:1] == "l" and kind[1:].isdigit() else 0

    def joins_below(self, kind: str) -> bool:
        """Return whether the record in the next line belongs to this line."""
        return kind in self.format.above

    def emit(self, place: int, level: int) -> None:
        """Cut at a place; below a comment the record has begun, and gets the higher level."""
        if self.above:
            if self.found:
                known = self.found[-1]
                self.found[-1] = max(known, known >> _BITS << _BITS | level)
        elif self.seen:
            self.found.append(place << _BITS | level)
        self.seen = True

    def _scan(self, text: str, place: int, base: int, *, final: bool) -> int:
        """Read up to behind the next line end, or as far as the text is known."""
        patterns, size = self.patterns, len(text)
        if patterns.plain:
            return self._skip(text, place, final=final)
        literals, reach = self.format.literals, self.format.reach
        while place < size:
            is_open = self.inside >= 0
            pattern = _inside(literals[self.inside], self.tag) if is_open else self.tokens()
            match = pattern.search(text, place)
            known = match.start() if match else size
            if not final and known + reach > size:
                return max(place, min(known, size - reach + 1))
            if match is None:
                return size
            if match.lastgroup == "next":
                place = match.start()
                self.emit(base + place, self.ended)
                self.ended = 0
                continue
            place = match.end()
            if match.lastgroup == "line":
                if is_open and not literals[self.inside].lines:
                    self.inside = -1
                self.fresh = True
                return place
            if self._token(match, base):
                return place
        return place

    def _skip(self, text: str, place: int, *, final: bool) -> int:
        """Return what follows the next line end of a format without literals."""
        match = self.patterns.tokens.search(text, place)
        if match is None or (match.end() == len(text) and not final and match[0] == "\r"):
            return match.start() if match else len(text)
        self.fresh = True
        return match.end()

    def _token(self, match: re.Match[str], base: int) -> bool:
        """Follow a token; return whether it ends the line."""
        kind, place = match.lastgroup or "", base + match.start()
        if kind == "end":
            self.inside, self.tag = -1, ""
        elif kind == "join":
            self.joined = self.fresh = True
            self.opened = place
        elif kind in ("mark", "sign"):
            self.mark(match, place)
        elif kind == "close":
            self.depth = max(0, self.depth - 1)
        elif kind == "open":
            self.nest(place)
        elif kind != "skip":
            self.inside = int(kind[1:])
            groups = match.groupdict()
            self.tag = groups.get("tag") or groups.get("own") or ""
            self.opened = self.opened if self.depth else place
        return kind == "join"

    def tokens(self) -> re.Pattern[str]:
        """Return the pattern of what matters outside of literals."""
        return self.patterns.tokens

    def nest(self, place: int) -> None:
        """Open a bracket, inside of which no record starts."""
        self.opened = self.opened if self.depth else place
        self.depth += 1

    def mark(self, match: re.Match[str], place: int) -> None:
        """Follow a token of `marks`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """One row of the table: the names of its levels, and patterns.

    `above`: the kinds of lines that the record in the line below joins. `opens`, `closes`: brackets
    inside of which no record starts. `joins`: what before a line end continues the line; with
    `keeps`, comments and blank lines in between do not end it. `marks`: tokens for `reading`, a
    subclass. `reach`: the most characters that a token may read.
    """

    names: tuple[str, ...] = ("record",)
    starts: str
    head: int
    above: tuple[str, ...] = ("comment", "tag")
    literals: tuple[Literal, ...] = ()
    opens: str = ""
    closes: str = ""
    joins: str = ""
    keeps: bool = False
    marks: str = ""
    resets: str = ""
    reach: int = 4
    reading: type[Reading] = Reading
