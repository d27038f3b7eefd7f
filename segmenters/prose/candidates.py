"""Where a sentence may end: the candidates that are asked about, and ends beyond doubt.

Long texts are looked at as arrays: each character has a class (a number), and the classes of the
characters beside a sign rule most signs out, or leave only the word before a period to be looked
up. What is decided so is what the tables of `endings` decide, as the tests compare. Short texts, as
they are while they are being written, cost less without arrays.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from segmenters.prose import candidate_pattern, signs
from segmenters.prose.endings.doubt import WINDOW
from segmenters.prose.endings.words import before_capital, is_exclaimed

# Texts shorter than the first are looked at with regular expressions only, and candidates of those
# shorter than the second are searched with one.
SHORT, LONG = 400, 6000
# Arrays hold so many characters at a time, with so many before and behind them.
BLOCK, _BEFORE, _BEHIND = 1 << 16, 4 * WINDOW, 3

# The classes: those of scripts, then others, then those with which a candidate begins, of which the
# last may be of a script as well.
_RARE, _THAI, _WIDE = range(3)
(_OTHER, _SPACE, _BLANK, _SMALL, _COMMA, _CAPITAL, _I, _DIGIT, _WORD, _SQUARE, _QUOTE) = range(
    3, 14
)
(_NEWLINE, _LINE_END, _PERIOD, _EXCLAMATION, _QUESTION, _TERMINATOR, _DIVIDER) = range(32, 39)
(_ROUND, _CLOSING, _ANGLE, _BULLET, _COLON, _FACE, _WIDE_TERMINATOR, _ASTRAL) = range(39, 47)
_FIRST, _CLASSES = _NEWLINE, 64
Places: TypeAlias = "array[int]"
# From here on no letter is known as a capital or as one of a word, which only is slower.
_LETTERS = 0x2000


def _is(*classes: int) -> npt.NDArray[np.bool_]:
    """Return for each class whether it is one of these."""
    members = np.zeros(_CLASSES, bool)
    members[[*classes]] = True
    return members


_IS_SPACE = _is(_SPACE, _BLANK, _NEWLINE, _LINE_END)
_IS_WORD = _is(_SMALL, _CAPITAL, _I, _DIGIT, _WORD)
_IS_SIGN = _is(_PERIOD, _EXCLAMATION, _QUESTION)
_IS_BRACKET = _is(_SQUARE, _ROUND)
# What starts a sentence behind a sign and white space, and behind a sign and one space.
_STARTS = _is(_CAPITAL, _I, _DIGIT)
_STARTS_BEHIND_SPACE = _is(_CAPITAL, _I, _DIGIT, _QUOTE, _ROUND)


def _open_pairs(pairs: dict[tuple[int, ...], npt.NDArray[np.bool_]]) -> npt.NDArray[np.bool_]:
    """Return for pairs of classes, the first one of a candidate's first character, if it is asked.

    `pairs`: for some of the first, which the second must be.
    """
    table = np.ones((_CLASSES, _CLASSES), bool)
    for kinds, needed in pairs.items():
        table[[*kinds]] = needed
    return table


# A candidate that no branch of the pattern matches, by what is before it and behind it.
_OPEN_BEFORE = _open_pairs(
    {
        (_DIVIDER,): _is(_DIVIDER),
        (_ROUND, _CLOSING): _is(_COLON, _DIVIDER),
        (_BULLET,): _IS_SPACE,
        (_COLON,): ~_is(_SMALL, _DIGIT, _COMMA) & ~_IS_SPACE,
    }
)
_OPEN_BEHIND = _open_pairs(
    {
        (_PERIOD, _EXCLAMATION, _QUESTION): ~_is(_SMALL, _COMMA),
        (_NEWLINE, _DIVIDER, _ROUND, _CLOSING, _ANGLE): _IS_SPACE,
    }
)


def _chars(*spans: tuple[int, int]) -> str:
    return "".join(chr(code) for first, last in spans for code in range(first, last + 1))


@cache
def _table() -> npt.NDArray[np.uint8]:
    """Return the class of each character up to U+FFFF, which stands for all beyond."""
    table = np.full(1 << 16, _OTHER, np.uint8)
    letters = [chr(code) for code in range(_LETTERS)]
    characters = {
        _WORD: filter(str.isalnum, letters),
        _CAPITAL: filter(str.isupper, letters),
        _BLANK: filter(str.isspace, _chars((0, 0x3000))),
        _SMALL: "abcdefghijklmnopqrstuvwxyz",
        _DIGIT: "0123456789",
        _I: "I",
        _SPACE: " ",
        _COMMA: ",",
        _SQUARE: "[",
        _OTHER: signs.CLOSERS + signs.LATE,
        _WIDE: _chars((0x3001, 0x9FFF), (0xF900, 0xFAFF), (0xFF01, 0xFFEF)),
        _THAI: _chars((0x0E01, 0x0EDF)),
        _QUOTE: "`*\u2018\u201e\u00ab",
        _TERMINATOR: signs.PLAIN + signs.STRONG,
        _WIDE_TERMINATOR: filter(signs.WIDE.match, signs.PLAIN + signs.STRONG),
        _RARE: filter(signs.is_rare, [*letters, *_chars((_LETTERS, 0x2FFF))]),
        _PERIOD: ".",
        _EXCLAMATION: "!",
        _QUESTION: "?",
        _LINE_END: signs.LINE_ENDS,
        _NEWLINE: "\n",
        _BULLET: signs.BULLETS,
        _DIVIDER: signs.DIVIDERS,
        _ROUND: "(",
        _CLOSING: ")",
        _ANGLE: ">",
        _COLON: ";:\u1361",
        _FACE: "\u263a",
        _ASTRAL: "\uffff",
    }
    for value, chars in characters.items():
        table[[*map(ord, chars)]] = value
    return table


@cache
def _ascii_table() -> bytes:
    return _table()[:256].tobytes()


def _classes(text: str, first: int, end: int) -> npt.NDArray[np.uint8]:
    """Return the class of each character from `first` to `end`, "\0" where there is no text."""
    before, behind = max(0, -first), max(0, end - len(text))
    part = "\0" * before + text[max(0, first) : end] + "\0" * behind
    if part.isascii():
        return np.frombuffer(part.encode().translate(_ascii_table()), np.uint8)
    codes = np.frombuffer(part.encode("utf-32-le", "surrogatepass"), np.uint32)
    return _table().take(codes, mode="clip")


@dataclass(slots=True)
class Candidates:
    """The candidates of a text, from a place on.

    `starts`: where those start that are asked about, as far as `pattern` matches there (None:
    wherever it does); `sure`: where sentences end beyond doubt, in order; `wide`: whether the text
    may hold Chinese or Japanese, `pauses`: Thai or Lao, in which white space ends sentences. What
    is behind `end` is still to come, from `starts[index]` on.
    """

    text: str
    pattern: re.Pattern[str]
    starts: Places | None
    sure: Places
    wide: bool
    pauses: bool
    end: int = 0
    index: int = 0

    def __iter__(self) -> Iterator[re.Match[str]]:
        """Yield what the pattern matches; each match starts behind the one before."""
        return self._searched() if self.starts is None else self._matched(self.starts)

    def _searched(self) -> Iterator[re.Match[str]]:
        end = -1
        while end != self.end:
            end = self.end
            for candidate in self.pattern.finditer(self.text, end):
                self.end = end = candidate.end()
                yield candidate
                if self.end != end:
                    break

    def _matched(self, starts: Places) -> Iterator[re.Match[str]]:
        match, text = self.pattern.match, self.text
        while self.index < len(starts):
            start = starts[self.index]
            self.index += 1
            if start >= self.end and (candidate := match(text, start)):
                self.end = candidate.end()
                yield candidate

    def resume(self, place: int) -> None:
        """Go on from a place in the last match."""
        self.end = place
        if self.starts is not None:
            self.index = bisect_left(self.starts, place)


def candidates(text: str, position: int, *, next_word: bool, lanes: bool) -> Candidates:
    """Return the candidates of a text from `position` on; without `lanes`, all are asked about."""
    size, plain = len(text) - position, text.isascii()
    starts, sure = None, array("q")
    if size < (LONG if plain else SHORT):
        text = signs.usual(text)
        wide = not plain and signs.WIDE.search(text) is not None
        pauses = not plain
    else:
        if lanes and size >= LONG:
            starts = array("q")
        text, kinds = _read(text, position, next_word, starts, sure)
        wide = _WIDE in kinds or _WIDE_TERMINATOR in kinds
        wide = wide or (_ASTRAL in kinds and signs.WIDE.search(text) is not None)
        pauses = _THAI in kinds
    kind = 0 if plain else 1 if wide else 2
    pattern = candidate_pattern.PATTERNS[kind] if lanes else candidate_pattern.without_lanes(kind)
    return Candidates(text, pattern, starts, sure, wide, pauses, position)


def _read(
    text: str, position: int, next_word: bool, starts: Places | None, sure: Places
) -> tuple[str, set[int]]:
    """Return the text with usual terminators, and which classes of scripts it has.

    To `starts`, if there is one, and `sure` is added what they are in `Candidates`.
    """
    kinds: set[int] = set()
    is_usual = False
    for begin in range(position, len(text), BLOCK):
        span = begin - _BEFORE, min(begin + BLOCK, len(text)) + _BEHIND
        classes = _classes(text, *span)
        kinds |= _kinds(classes)
        if not (is_usual or kinds.isdisjoint((_RARE, _ASTRAL))):
            text, is_usual = signs.usual(text), True
            classes = _classes(text, *span)
        if starts is not None:
            _sort(text, classes, begin, next_word, starts, sure)
    return text, kinds


def _kinds(classes: npt.NDArray[np.uint8]) -> set[int]:
    """Return which of the classes of scripts are there."""
    if classes.min() >= _OTHER and classes.max() < _WIDE_TERMINATOR:
        return set()
    special = (_RARE, _THAI, _WIDE, _WIDE_TERMINATOR, _ASTRAL)
    return {kind for kind in special if (classes == kind).any()}


def _sort(
    text: str,
    classes: npt.NDArray[np.uint8],
    begin: int,
    next_word: bool,
    starts: Places,
    sure: Places,
) -> None:
    """Add where candidates of a block start that are asked about, and its ends beyond doubt.

    `classes`: those of the characters of the block, which starts at `begin`, and around it.
    """
    first = begin - _BEFORE
    places = np.flatnonzero(classes[_BEFORE:-_BEHIND] >= _FIRST) + _BEFORE
    kinds, before, behind = classes[places], classes[places - 1], classes[places + 1]
    second, third = classes[places + 2], classes[places + 3]
    undecided = _OPEN_BEFORE[kinds, before] & _OPEN_BEHIND[kinds, behind]
    # A blank line, in front of which a sign is not asked about.
    line = behind == _NEWLINE
    blank = (kinds == _NEWLINE) & line & ~_IS_SPACE[second] & (places < len(text) - first - 2)
    undecided &= ~(blank | (_IS_SIGN[kinds] & line & (second == _NEWLINE) & ~_IS_SPACE[third]))
    # A sign behind a word, then a space, a line end or two spaces, then a capital or the like.
    single = (behind == _SPACE) & _STARTS_BEHIND_SPACE[second]
    double = (behind == _SPACE) & (second == _SPACE) & _STARTS[third]
    usual = single | double | (line & _STARTS[second])
    usual &= _IS_SIGN[kinds] & _IS_WORD[before]
    if next_word:
        usual &= np.where(double, third, second) != _I
    indices = np.flatnonzero(usual)
    brackets = np.flatnonzero(_IS_BRACKET[classes])
    if len(brackets):
        start = places[indices]
        opened = brackets[np.searchsorted(brackets, start) - 1]
        indices = indices[(opened >= start) | (opened < start - 2 * WINDOW)]
    words = _words(text, (places[indices] + first).tolist())
    verdicts = map(_verdict, kinds[indices].tolist(), words)
    verdict = np.fromiter(verdicts, np.int8, len(indices))
    undecided[indices] = verdict == _ASK
    ends = indices[verdict == _END]
    decided = np.concatenate((places[ends] + 2 + double[ends], places[blank] + 2))
    decided.sort()
    starts.frombytes((places[undecided] + first).tobytes())
    sure.frombytes((decided + first).tobytes())


def _words(text: str, starts: list[int]) -> Iterator[str]:
    """Return what is between the last space and each place, in a window."""
    for start in starts:
        tail = text[start - WINDOW : start] if start > WINDOW else text[:start]
        yield tail[tail.rfind(" ") + 1 :]


_GO_ON, _END, _ASK = range(3)


def _verdict(kind: int, word: str) -> int:
    """Return what the tables say of a sign behind a word and before a capital or the like."""
    if kind == _QUESTION:
        return _END
    if kind == _EXCLAMATION:
        return _ASK if is_exclaimed(word) else _END
    ends = before_capital(word)
    return _ASK if ends is None else int(ends)
