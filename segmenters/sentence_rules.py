"""Causal sentence boundaries: whether a sentence ends is known at the next non-space character.

One regular expression, linear in the text, finds the candidates: a run of terminators with the
quotes and brackets that close behind it, a blank line, a bullet. A short decision keeps or drops
each of them by the word before (abbreviation, initial, list number), which is looked for in a
bounded window, and by the first character behind the white space. Trailing white space stays with
the sentence before, so a boundary stands right in front of a character that is not white space.

The rules do not read the next word (whether it likes to start sentences), do not pair quotes, and
know no language: what is written without capitals or terminators (Thai) stays in one piece.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator

from segmenters.abbreviations import BEFORE_NAME, BEFORE_NUMBER, BEFORE_ORDINAL, MAY_END

# Ends a sentence only before white space: . ! ? ellipsis and the doubled marks.
PLAIN = ".!?\u2026\u203c\u2047\u2048\u2049"
# Ends a sentence with or without white space behind it: ideographic and full-width stops, danda,
# Burmese, Ethiopic, Khmer, Urdu and Arabic, Armenian.
STRONG = (
    "\u3002\uff01\uff1f\uff61\uff0e"
    "\u0964\u0965\u104a\u104b\u1362\u1367\u1368\u17d4\u17d5\u06d4\u061f\u0589"
)
# Closes behind a terminator and belongs to its sentence. German closes with U+201C, and with either
# guillemet; * and _ are Markdown's.
CLOSERS = (
    "\"'`)]}*_\u2019\u201d\u201c\u00bb\u00ab\u203a\u2039"
    "\u300d\u300f\uff09\u3011\u300b\u3009\u3015\uff3d\uff02"
)
BULLETS = "\u2022\u2023\u2043"
_LINE_ENDS = "\n\r\u2028\u2029"

# What may not start a sentence: it continues or closes the one before.
_CONTINUES = frozenset(",;:)]}%" + PLAIN + STRONG + "\u201d\uff0c\u3001\uff1b\uff1a")
_CONTINUES_STRONG = _CONTINUES | frozenset("\u300d\u300f\u300b\u3009\uff09\u3011")
# Particles and the copula after a Japanese closing quote: the quoting sentence goes on.
_AFTER_QUOTE = frozenset("\u3068\u306a\u306b\u3092\u306e\u304c\u306f\u3067\u3082\u3001\u3063")
_CJK_CLOSERS = frozenset("\u300d\u300f\uff09\u300b\u3009")
_QUOTES = "\"'`*_\u2018\u201c\u201e\u00ab\u00bb"
_OPENERS = _QUOTES + "([{\u00bf\u00a1\u2014\u2013-" + BULLETS
_ABBREVIATIONS = BEFORE_NAME | MAY_END
_STRONG_SET, _PLAIN_SET = frozenset(STRONG), frozenset(PLAIN)

# Each branch consumes what it looks at (possessive quantifiers), so no character is scanned twice:
# a failing `[.]+\s` would be tried again from each period of a run.
_T, _C = re.escape(PLAIN + STRONG), re.escape(CLOSERS)
_CANDIDATE = re.compile(
    rf"[{_T}{_LINE_ENDS}{BULLETS}]"
    rf"(?:(?<=[{_T}])[{_T}{_C}]*+(?P<note>(?: ?\[\d{{1,3}}\])*+)(?P<gap>\s*+)"
    rf"|(?<=[{_LINE_ENDS}])(?:(?=\s)|(?<=\u2029))(?P<lines>\s*+)"
    rf"|(?<=\s[{BULLETS}]))"
)
# The word before a period is looked for this far back, in characters.
_WINDOW = 24
_ITEM = re.compile(r"\d{1,3}|[A-Za-z]|[ivxIVX]{1,5}")
_INITIALS = re.compile(r"\w(?:\.\w)+")
_PLAIN_WORD = re.compile(r"[a-z]{4,}$")


def tables() -> str:
    """A digest of the lists and patterns, so that a changed table changes the fingerprint."""
    known = [
        *map(sorted, (BEFORE_NAME, MAY_END, BEFORE_NUMBER, BEFORE_ORDINAL)),
        _CANDIDATE.pattern,
    ]
    return hashlib.sha256(repr(known).encode()).hexdigest()[:16]


def candidates(text: str) -> Iterator[tuple[re.Match[str], int]]:
    """Places that might start a sentence, with the match that found them, in order."""
    for match in _CANDIDATE.finditer(text):
        place = match.end()
        if text[place - 1] in BULLETS:
            place -= 1
        yield match, place


def sentence_ends(text: str) -> list[int]:
    """Character offsets, increasing, at which a sentence ends and another starts."""
    ends: list[int] = []
    # Leading white space belongs to the first sentence.
    last, length = len(text) - len(text.lstrip()), len(text)
    for match, place in candidates(text):
        if last < place < length and _is_end(text, match, place, last):
            ends.append(place)
            last = place
    return ends


def _is_end(text: str, match: re.Match[str], place: int, last: int) -> bool:
    """Whether a sentence ends at `place`; the sentence in question starts at `last`."""
    gap = match["gap"]
    if gap is None:
        lines = match["lines"]
        return lines is None or _is_blank_line(match.group())
    if gap and _is_blank_line(gap):
        return True
    start, following = match.start(), text[place]
    run = text[start : match.start("note")]
    if not _STRONG_SET.isdisjoint(run):
        return _ends_strong(run, following)
    if not gap:
        return run[0] in "!?" and _is_ideograph(following)
    if following in _CONTINUES or (following == "[" and "\n" not in gap):
        return False  # "[" may open the number of a note, which belongs to the sentence before
    if following.islower():
        return _ends_before_lower(text, start, run)
    if text[start - 1 : start] == "[" and run[-1] == "]":
        return False  # "[...]" stands for words left out
    if run[0] != "." or run[1:2] in _PLAIN_SET:
        return True
    return _period_ends(text, start, following, last)


def _is_blank_line(gap: str) -> bool:
    return gap.count("\n") > 1 or gap.count("\r") > 1 or "\u2029" in gap


def _is_ideograph(char: str) -> bool:
    """Whether the character belongs to a script that is written without spaces (CJK)."""
    return "\u3041" <= char <= "\u9fff" or "\U00020000" <= char <= "\U0003ffff"


def _ends_strong(run: str, following: str) -> bool:
    if (
        following in _CONTINUES_STRONG
        or following == "["
        or (run[0] == "\uff0e" and following.isdigit())
    ):
        return False
    return not (run[-1] in _CJK_CLOSERS and following in _AFTER_QUOTE)


def _ends_before_lower(text: str, start: int, run: str) -> bool:
    """Informal text: a small letter starts a sentence after a plain word and its terminator.

    Without quotes or brackets in between: those report speech ("Who?" he asked).
    """
    if run != ".":
        # "Alas! my" and "Yahoo! in" go on, "nice! and" does not.
        word = text[max(0, start - _WINDOW) : start].rpartition(" ")[2]
        return not run.strip("!?") and (len(run) > 1 or word[:1].islower())
    match = _PLAIN_WORD.search(text, max(0, start - _WINDOW), start)
    return match is not None and match.group() not in _ABBREVIATIONS


def _period_ends(text: str, start: int, following: str, last: int) -> bool:
    """Whether the single period at `start`, before white space and `following`, ends a sentence."""
    tail = text[max(0, start - _WINDOW) : start]
    if not tail or tail[-1].isspace():
        return True
    *earlier, word = tail.split()
    word = word.lstrip(_OPENERS)
    lower = word.lower()
    if _ITEM.fullmatch(word) and _starts_line(text, start - len(word), last):
        return False
    if len(word) == 1 and word.isalpha():
        # An initial, unless it is the pronoun: "you and I. Did", "Albert I. Jones".
        return word == "I" and bool(earlier) and earlier[-1].islower()
    if lower in MAY_END:
        return following.isupper() or following in _QUOTES
    if lower in BEFORE_NAME or _INITIALS.fullmatch(word):
        return False
    if lower in BEFORE_NUMBER:
        return not following.isdigit()
    ordinal = word.isdigit() and len(word) < 3 and earlier
    return not (ordinal and earlier[-1].lower() in BEFORE_ORDINAL)


def _starts_line(text: str, place: int, last: int) -> bool:
    """Whether only a list's own marks stand between `place` and the start of its line."""
    if place <= last:
        return True
    before = text[max(last, place - _WINDOW) : place].rstrip(" \t>*#-" + BULLETS)
    return not before or before[-1] in _LINE_ENDS
