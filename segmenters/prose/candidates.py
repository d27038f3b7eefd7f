"""Where a sentence may end: the candidates that are asked about, and ends beyond doubt.

Long texts are looked at as arrays: each character has a class (a number), and the classes of the
characters beside a sign rule most signs out, or leave only the word before a period to be looked
up. What is decided so is what the tables of `endings` decide, as the tests compare. Short texts, as
they are while they are being written, cost less without arrays.
"""

from __future__ import annotations

import re
from array import array
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from segmenters.prose import candidate_pattern, signs
from segmenters.prose.endings.doubt import WINDOW, is_inserted
from segmenters.prose.endings.foresight import ASK, END, Foresight

# Texts shorter than this are looked at with regular expressions only.
LONG = 6000
# Arrays hold so many characters at a time, with so many before and behind them.
BLOCK, _BEFORE, _BEHIND = 1 << 16, 2 * WINDOW, 12
# Candidates behind which more white space is are asked about.
_MOST_SPACES = _BEHIND - 3

# The classes: those of scripts, then others, then those with which a candidate begins, of which the
# last may be of a script as well.
_RARE, _THAI, _WIDE = range(3)
(_OTHER, _SPACE, _BLANK, _SMALL, _COMMA, _CAPITAL, _DIGIT, _WORD, _OPENER, _SQUARE) = range(3, 13)
_QUOTE = 13
(_NEWLINE, _LINE_END, _PERIOD, _EXCLAMATION, _QUESTION, _TERMINATOR, _DIVIDER) = range(33, 40)
(_ROUND, _CLOSING, _ANGLE, _BULLET, _COLON, _FACE, _WIDE_TERMINATOR, _ASTRAL) = range(40, 48)
_FIRST, _CLASSES = _NEWLINE, 64
_MAY_BE_WIDE = (_WIDE, _WIDE_TERMINATOR, _ASTRAL)
Places: TypeAlias = "array[int]"
# From here on no letter is known as a capital or as one of a word, which only is slower.
_LETTERS = 0x2000
# White space and signs that are read as others are below.
_SIGNS = 0x3001


def _is(*classes: int) -> npt.NDArray[np.bool_]:
    """Return for each class whether it is one of these."""
    members = np.zeros(_CLASSES, bool)
    members[[*classes]] = True
    return members


_IS_SPACE = _is(_SPACE, _BLANK, _NEWLINE, _LINE_END)
_IS_WORD = _is(_SMALL, _CAPITAL, _DIGIT, _WORD)
_IS_SIGN = _is(_PERIOD, _EXCLAMATION, _QUESTION)
# How many line ends these are; separators of Unicode are counted apart.
_SEPARATOR = 16
_LINES = np.zeros(_CLASSES, np.uint8)
_LINES[_NEWLINE], _LINES[_LINE_END] = 1, _SEPARATOR
# What closes behind a sign; what is no part of a candidate behind a sign and white space.
_IS_QUOTE = _is(_QUOTE, _CLOSING)
_STARTS = _is(_SMALL, _CAPITAL, _DIGIT, _WORD, _OPENER, _ROUND)


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
    """Return the characters of spans of codes, both ends included."""
    codes = (np.arange(first, last + 1, dtype=np.uint32) for first, last in spans)
    return b"".join(span.tobytes() for span in codes).decode("utf-32")


def _codes(text: str) -> npt.NDArray[np.uint32]:
    """Return the code of each character."""
    # In the machine's own order, behind a mark of it: that needs no module of a codec.
    return np.frombuffer(text.encode("utf-32", "surrogatepass"), np.uint32)[1:]


@cache
def _table(size: int) -> npt.NDArray[np.uint8]:
    """Return the class of each character below `size`; U+FFFF stands for all beyond."""
    table = np.full(size, _OTHER, np.uint8)
    letters, first = _chars((0, min(size, _LETTERS) - 1)), _chars((0, min(size, _SIGNS) - 1))
    characters = {
        _WORD: "".join(filter(str.isalnum, letters)),
        _CAPITAL: "".join(filter(str.isupper, letters)),
        _BLANK: "".join(filter(str.isspace, first)),
        _SMALL: "abcdefghijklmnopqrstuvwxyz",
        _DIGIT: "0123456789",
        _SQUARE: "[",
        _SPACE: " ",
        _COMMA: ",",
        _OTHER: signs.CLOSERS + signs.GERMAN_CLOSERS,
        _QUOTE: "\"'\u2019\u201d]",
        _WIDE: _chars((0x3001, 0x9FFF), (0xF900, 0xFAFF), (0xFF01, 0xFFEF)),
        _THAI: _chars((0x0E01, 0x0EDF)),
        _OPENER: "`*\u2018\u201e\u00ab",
        _TERMINATOR: signs.PLAIN + signs.STRONG,
        _WIDE_TERMINATOR: "".join(filter(signs.WIDE.match, signs.PLAIN + signs.STRONG)),
        _RARE: "".join(c for c in signs.MAYBE_RARE.findall(first) if signs.usual(c) != c),
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
        codes = _codes(chars)
        table[codes[codes < size]] = value
    return table


@cache
def _ascii_table() -> bytes:
    return _table(256).tobytes()


def _classes(text: str, first: int, end: int) -> npt.NDArray[np.uint8]:
    """Return the class of each character from `first` to `end`, "\0" where there is no text."""
    before, behind = max(0, -first), max(0, end - len(text))
    part = "\0" * before + text[max(0, first) : end] + "\0" * behind
    if part.isascii():
        return np.frombuffer(part.encode().translate(_ascii_table()), np.uint8)
    return _table(1 << 16).take(_codes(part), mode="clip")


@dataclass(slots=True)
class Candidates:
    """The candidates of a text, from a position on.

    `starts`: where those start that are asked about, as far as `pattern` matches there (None:
    wherever it does); `places`: where the next sentence starts, if that is known without a match,
    else 0; `sure`: where sentences end beyond doubt, in order; `wide`: whether the text may hold
    Chinese or Japanese, `pauses`: Thai or Lao, in which white space ends sentences.
    """

    text: str
    pattern: re.Pattern[str]
    position: int
    starts: Places | None
    places: Places
    sure: Places
    wide: bool
    pauses: bool


def candidates(text: str, position: int, *, foreseen: Foresight, lanes: bool) -> Candidates:
    """Return the candidates of a text from `position` on; without `lanes`, all are asked about."""
    text = signs.with_line_ends(text)
    size, plain = len(text) - position, text.isascii()
    starts, places, sure = None, array("q"), array("q")
    if size < LONG:
        special = not plain and signs.RARE_WIDE_OR_THAI.search(text) is not None
        text = signs.usual(text) if special else text
        wide, pauses = special and signs.WIDE.search(text) is not None, special
    else:
        kinds: set[int] = set()
        starts = array("q") if lanes else None
        is_usual = False
        for begin in range(position, len(text), BLOCK):
            span = begin - _BEFORE, min(begin + BLOCK, len(text)) + _BEHIND
            classes = _classes(text, *span)
            kinds |= _kinds(classes)
            if not (is_usual or kinds.isdisjoint((_RARE, _ASTRAL))):
                text, is_usual = signs.usual(text), True
                classes = _classes(text, *span)
            if starts is not None:
                _sort(text, classes, span[0], foreseen, (starts, places, sure))
        wide = _WIDE in kinds or _WIDE_TERMINATOR in kinds
        wide = wide or (_ASTRAL in kinds and signs.WIDE.search(text) is not None)
        pauses = _THAI in kinds
    kind = 0 if plain else 1 if wide else 2
    pattern = candidate_pattern.PATTERNS[kind] if lanes else candidate_pattern.without_lanes(kind)
    return Candidates(text, pattern, position, starts, places, sure, wide, pauses)


def _kinds(classes: npt.NDArray[np.uint8]) -> set[int]:
    """Return which of the classes of scripts are there."""
    if classes.min() >= _OTHER and classes.max() < _WIDE_TERMINATOR:
        return set()
    special = (_RARE, _THAI, _WIDE, _WIDE_TERMINATOR, _ASTRAL)
    return {kind for kind in special if (classes == kind).any()}


def _sort(
    text: str,
    classes: npt.NDArray[np.uint8],
    first: int,
    foreseen: Foresight,
    found: tuple[Places, Places, Places],
) -> None:
    """Add the candidates of a block to `starts`, `places` and `sure`.

    `classes`: those of the characters of the block and around it, from `first` on.
    """
    places = np.flatnonzero(classes[_BEFORE:-_BEHIND] >= _FIRST) + _BEFORE
    kinds = classes[places]
    asked = _OPEN_BEFORE[kinds, classes[places - 1]] & _OPEN_BEHIND[kinds, classes[places + 1]]
    places = places[asked]
    kinds, before, behind = classes[places], classes[places - 1], classes[places + 1]
    # A quote behind a sign closes, but may open between ideographs.
    quoted = _IS_QUOTE[behind] & _IS_SIGN[kinds] & _kinds(classes).isdisjoint(_MAY_BE_WIDE)
    # Where what follows starts, and how many line ends are before it.
    gap = nexts = places + 1 + quoted
    lines = np.zeros(len(places), np.uint8)
    for _ in range(_MOST_SPACES):
        space = classes[nexts]
        is_space = _IS_SPACE[space]
        if not is_space.any():
            break
        lines += _LINES[space]
        nexts = nexts + is_space
    # No candidates are single line ends, short dividers, and signs before blank lines.
    visible, more = ~_IS_SPACE[classes[nexts]], lines % _SEPARATOR
    single = (kinds == _NEWLINE) & (lines == 0)
    blank = visible & (kinds == _NEWLINE) & (more > 0)
    asked = ~(blank | (visible & single) | (_IS_SIGN[kinds] & (more > 1)))
    asked &= (kinds != _DIVIDER) | (classes[places - 5] == _DIVIDER)
    # A sign behind a word, then white space, and a letter or the like.
    usual = (nexts > gap) & _STARTS[classes[nexts]] & _IS_SIGN[kinds] & _IS_WORD[before]
    indices = np.flatnonzero(asked & usual)
    starts, nexts = places + first, nexts + first
    # As arrays: lists of numbers take five times the memory.
    asking = [array("q", each[indices].tobytes()) for each in (starts, nexts)]
    verdict = np.fromiter(foreseen.verdicts(text, *asking), np.int8, len(indices))
    brackets = np.flatnonzero((classes == _SQUARE) | (classes == _ROUND))
    if len(brackets):
        start = places[indices]
        opened = brackets[np.searchsorted(brackets, start) - 1]
        near = (opened < start) & (opened >= start - 2 * WINDOW) & (verdict == END)
        for index in np.flatnonzero(near).tolist():
            if is_inserted(text, asking[0][index], asking[1][index], -1):
                verdict[index] = ASK
    asked[indices] = verdict == ASK
    decided = np.concatenate((nexts[indices[verdict == END]], nexts[blank]))
    known = np.zeros_like(nexts)
    known[indices] = nexts[indices]
    for all_found, block in zip(found, (starts[asked], known[asked], decided), strict=True):
        all_found.frombytes(block.tobytes())
