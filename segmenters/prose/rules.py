"""Causal sentence boundaries: the next visible character decides whether a sentence ends.

One regular expression, linear in the text, finds candidates: a run of terminators with the quotes,
brackets and emoji that close after it, a blank line, a bullet, a smiling face. Each is kept or
dropped according to the word before (abbreviation, initial, list number), searched in a bounded
window, and to the first visible character after it. Trailing white space stays with the sentence
before. The next word is read only by option (`ahead`). The rules pair only quotes that may face
either way (`quotes`), and know no language beyond lists of words. Thai and Lao are cut at white
space, coarsely.
"""

import hashlib
import re
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence

import numpy as np

from segmenters.base import Ruling
from segmenters.prose import candidate_pattern, word_lists
from segmenters.prose.candidates import Places, candidates
from segmenters.prose.endings.doubt import QUOTES, WINDOW, Doubt, is_blank_line, ruling
from segmenters.prose.endings.habits import Habits
from segmenters.prose.endings.language import ANY
from segmenters.prose.endings.table import ALPHABETS, ENDS, is_bracketed, is_inserted
from segmenters.prose.endings.words import before_capital, is_exclaimed
from segmenters.prose.line_ends import openings
from segmenters.prose.quotes import Quotes
from segmenters.prose.signs import BULLETS, CONTINUES, PLAIN, RARE

# What may follow a usual end, besides capitals beyond ASCII.
_USUAL = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789(" + QUOTES)
_CONTINUES = CONTINUES | {"["}
_PLAIN_SET, _USUAL_SIGNS = frozenset(PLAIN), frozenset(".!?")
_BULLETS = frozenset(BULLETS)
# Fewer places than these are sorted faster without numpy.
_FEW = 256
# The rules of what the tables are not asked about.
_BLANK_LINE, _LINE_END, _BULLET = "blank line", "line end", "bullet"
_OPENING = "item, paragraph or phrase begins"


def tables() -> str:
    """Return a digest of the lists and patterns, for fingerprints."""
    data = [word_lists.LINES, candidate_pattern.PATTERNS[1].pattern, RARE.pattern]
    return hashlib.sha256(repr(data).encode()).hexdigest()[:16]


def sentence_ends(
    text: str,
    *,
    next_word: bool = False,
    language: str = ANY,
    position: int = 0,
    last: int | None = None,
    signs: str = "",
    starts: Sequence[int] = (),
    quoted: Sequence[tuple[str, int]] = (),
    thai: Callable[[str, Sequence[int]], list[int]] | None = None,
    log: list[Ruling] | None = None,
) -> list[int]:
    """Return character offsets, increasing, at which a sentence ends and another starts.

    `next_word`: read the next word where the next character leaves a doubt. `language`: its code,
    for its abbreviations; ANY: as far as the text shows it (`language`). A scan may resume at
    `position`, that of a letter, if the sentence there is known to start at `last`, behind ones of
    `signs` (`habits`); `quoted`: what is open there (`Quotes.open`). `starts`: where sentences
    start for another reason, increasing. `thai`: chooses from places behind white space of Thai
    those at which sentences start. `log` gets what decided at each candidate: then the tables are
    asked about all of them, without shortcuts, which is slower and cuts the same.
    """
    ends: list[int] = []
    scan = candidates(text, position, next_word=next_word, lanes=log is None)
    length, text = len(text), scan.text
    if last is None:
        last = length - len(text.lstrip())  # leading white space belongs to the first sentence
    others = openings(text, position, starts, next_word=next_word, pauses=scan.pauses, thai=thai)
    sure = _united(scan.sure, others) if others else scan.sure
    habits, quotes = Habits(text, ends, last, signs), Quotes(text, position, quoted)
    usual = _USUAL - {"I"} if next_word else _USUAL
    for match in scan:
        kind = match.lastgroup
        if kind == "never":
            continue
        start, place = match.span()
        if kind == "gap":
            if match.end("spaced") > start + 1:
                place = _place(text, match, quotes, scan.wide)
                if place < match.end():  # what opens there may end at once
                    scan.resume(place)
        elif kind is None and text[place - 1] in _BULLETS:
            place -= 1
        if sure and (passed := _between(sure, last, place)):
            ends += passed
            last = passed[-1]
            if log is not None:
                log += [Ruling(end, True, _OPENING) for end in passed]
        if not last < place < length:
            continue
        end = None
        if kind == "simple" or (kind == "gap" and log is None and _is_single(text, start, place)):
            end = _usual_end(text, start, place, last, usual)
        if end is not None:
            rule = ""
        elif kind == "always":  # a full stop beyond doubt, if it is in no bracket
            end = not is_bracketed(text, start, last) or is_blank_line(match["always"])
        elif kind == "lines":
            end = is_blank_line(match[0])
            rule = _BLANK_LINE if end else _LINE_END
        elif kind is None:
            rule, end = _BULLET, True
        else:
            doubt = Doubt(
                text, match, place, last, next_word=next_word, habits=habits, language=language
            )
            rule, end = ruling(doubt, ENDS)
        if log is not None:
            log.append(Ruling(place, end, rule))
        if end:
            ends.append(last := place)
    passed = _between(sure, last, length)
    ends += passed
    if log is not None:
        log += [Ruling(end, True, _OPENING) for end in passed]
    return ends


def _united(first: Places, second: Places) -> Places:
    """Return the places of both, increasing."""
    if len(first) + len(second) < _FEW:
        return array("q", sorted({*first, *second}))
    return array("q", np.union1d(first, second).tobytes())


def _between(places: Places, first: int, end: int) -> Places:
    """Return those of some places, increasing, that are behind `first` and before `end`."""
    return places[bisect_right(places, first) : bisect_left(places, end)]


def _usual_end(text: str, start: int, place: int, last: int, usual: frozenset[str]) -> bool | None:
    """Return what the tables say of a terminator and white space; None: ask them."""
    following, before, sign, gap = (
        text[place],
        text[start - 1],
        text[start],
        text[start + 1 : place],
    )
    single = gap == " "
    if not single and gap[-1].isspace() and is_blank_line(gap):
        return True
    if before == "[" or sign not in _USUAL_SIGNS or (sign == "." and before.isspace()):
        return None
    begins = following in usual or (following > "\x7f" and following.isupper())
    # Else what is behind a plain word counts only if it continues the sentence.
    continues = sign != "." or following in _CONTINUES or following.islower() or not gap.isspace()
    if continues and not (begins and (single or following.isalnum())):
        return None
    if sign != "?":
        tail = text[start - WINDOW : start] if start > WINDOW else text[:start]
        word = tail[tail.rfind(" ") + 1 :]
        if sign == "!":
            if is_exclaimed(word):
                return None
        elif text[start + 1] not in _PLAIN_SET and not (ends := before_capital(word)):
            return ends if begins else None
    first = max(last + 1, start - 2 * WINDOW)
    if text.find("(", first, start) >= 0 or text.find("[", first, start) >= 0:
        return following >= ALPHABETS or not is_inserted(text, start, place, last)
    return True


def _is_single(text: str, start: int, place: int) -> bool:
    """Return whether a blank line, or nothing but white space, is behind one terminator."""
    gap = text[start + 1 : place]
    return gap == " " or is_blank_line(gap) or gap.isspace()


def _place(text: str, match: re.Match[str], quotes: Quotes, wide: bool) -> int:
    """Return where the next sentence would start: behind the signs, or in them at a quote."""
    start, apart = match.span("spaced")
    opening = -1
    if start - match.start() > 1:
        opening = quotes.opening(match.start(), start, wide=wide)
    if opening > 0:
        return opening
    if apart > start and (opening := quotes.opening_apart(start, apart)) > 0:
        return opening
    return match.end()
