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
from collections.abc import Callable, Sequence

from segmenters.prose import ahead
from segmenters.prose import tables as lists
from segmenters.prose.habits import Habits, run_ends
from segmenters.prose.openings import openings
from segmenters.prose.quotes import OPENERS, Quotes, is_wide
from segmenters.prose.words import (
    WINDOW,
    always_ends,
    ends_before_lower,
    is_exclaimed,
    is_plain,
    period_ends,
)

_PLACED = ("simple", "always", "lines")
# What may follow a usual end.
_USUAL = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")
# Particles and the copula after a Japanese closing quote: the quoting sentence goes on.
_AFTER_QUOTE = frozenset("\u3068\u306a\u306b\u3092\u306e\u304c\u306f\u3067\u3082\u3001\u3063")
_CJK_BRACKETS = (("\uff08", "\uff09"), ("\u300a", "\u300b"), ("(", ")"))
# Words of Chinese that end sentences, as letters of Hiragana do, but no names.
_LAST_WORDS = re.compile("[\u3041-\u309f\u4e86\u5417\u5462\u5427\u554a\u5440\u561b\u7684]")
_CLOSE_QUOTES = frozenset(
    "\u300d\u300f\uff09\u300b\u3009\u301e\u301f\uff63\ufe42\ufe44" + lists.EITHER + lists.LATE
)
_DASHES = frozenset("-\u2013\u2014")
_CLOSING_QUOTES = "\"'\u2019\u201d"
_QUOTES = "\"'`*_\u2018\u201c\u201e\u00ab\u00bb"
_MENTIONS = frozenset("\"'`\u2018\u201c\u201e\u00ab")
_OPENERS = _MENTIONS | frozenset("([{")
_STRONG_SET, _PLAIN_SET = frozenset(lists.STRONG), frozenset(lists.PLAIN)
_TERMINATORS = _STRONG_SET | _PLAIN_SET

# How far back an open bracket is searched, in characters.
_BRACKET_WINDOW = 160
_ADDRESS, _ADDRESS_WINDOW = re.compile(r"<[^<>\s]+@[^<>\s]+$"), 48
_ARMENIAN = re.compile("[\u0531-\u0587]")
# Glued to the next sentence without doubt: "on Monday.The", "1,000.The".
_DAY, _THOUSANDS = re.compile(r"[A-Z][a-z]{2,5}day"), re.compile(r"\d,\d\d\d\Z")


def tables() -> str:
    """Return a digest of the lists and patterns, for fingerprints."""
    known = [*map(sorted, lists.LISTS), lists.AMONG_WIDE.pattern, lists.RARE.pattern]
    return hashlib.sha256(repr(known).encode()).hexdigest()[:16]


def sentence_ends(
    text: str,
    *,
    next_word: bool = False,
    position: int = 0,
    last: int | None = None,
    signs: str = "",
    starts: Sequence[int] = (),
    quoted: Sequence[tuple[str, int]] = (),
    thai: Callable[[str, Sequence[int]], list[int]] | None = None,
) -> list[int]:
    """Return character offsets, increasing, at which a sentence ends and another starts.

    `next_word`: read the next word where the next character leaves a doubt. A scan may resume at
    `position`, that of a letter, if the sentence there is known to start at `last`, behind ones of
    `signs` (`habits`); `quoted`: what is open there (`Quotes.open`). `starts`: where sentences
    start for another reason, increasing. `thai`: chooses from places behind white space of Thai
    those at which sentences start.
    """
    ends: list[int] = []
    length, text = len(text), lists.usual(text)
    if last is None:
        last = length - len(text.lstrip())  # leading white space belongs to the first sentence
    items = openings(text, position, starts, next_word=next_word, thai=thai)
    item = next(items, length)
    habits = Habits(text, ends, last, signs)
    usual = _USUAL - {"I"} if next_word else _USUAL
    quotes = Quotes(text, position, quoted)
    pattern = lists.candidates(text)
    matches = pattern.finditer(text, position)
    while match := next(matches, None):
        kind = match.lastgroup
        if kind == "never":
            continue
        place = match.end() if kind in _PLACED else _place(text, match, quotes)
        if kind == "gap" and place < match.start("spaced"):  # what opens there may end at once
            matches = pattern.finditer(text, place)
        while item < place:
            if last < item:
                ends.append(last := item)
            item = next(items, length)
        if not last < place < length:
            continue
        if kind == "simple" and text[place] in usual and _is_usual(text, match.start(), last):
            end = True
        elif kind == "always":  # a full stop beyond doubt, if it is in no bracket
            end = not _is_bracketed(text, match.start(), last) or _is_blank_line(match["always"])
        elif kind == "lines":
            end = _is_blank_line(match[0])
        else:  # a bullet, or what is not decided yet
            end = kind is None or _is_end(text, match, place, last, next_word, habits)
        if end:
            ends.append(last := place)
    while item < length:
        if last < item:
            ends.append(last := item)
        item = next(items, length)
    return ends


def _is_usual(text: str, start: int, last: int) -> bool:
    """Return whether the terminator at `start` is a usual end, at which `_is_end` is true."""
    if text[start - 1] == "[" or text[start - 1].isspace():
        return False
    if text[start] == "!" and is_exclaimed(text, start):
        return False
    if text[start] == "." and text[start + 1] not in _PLAIN_SET:
        tail = text[start - WINDOW : start] if start > WINDOW else text[:start]
        if not (tail and always_ends(tail.split()[-1])):
            return False
    first = max(last + 1, start - 2 * WINDOW)
    return text.find("(", first, start) < 0 and text.find("[", first, start) < 0


def _place(text: str, match: re.Match[str], quotes: Quotes) -> int:
    """Return where the next sentence would start."""
    place = match.end()
    if text[place - 1] in lists.BULLETS:
        return place - 1
    if match["gap"] is not None:
        start, apart = match.span("spaced")
        if start - match.start() > 1 and (opening := quotes.opening(match.start(), start)) > 0:
            return opening
        if apart > start and (opening := quotes.opening_apart(start, apart)) > 0:
            return opening
    return place


def _is_bracketed(text: str, start: int, last: int) -> bool:
    """Return whether a bracket of Chinese or Japanese that the sentence opened is open."""
    first = max(last, start - _BRACKET_WINDOW)
    return any(
        text.find(opener, first, start) > text.rfind(closer, first, start)
        and (opener != "(" or is_wide(text, start))
        for opener, closer in _CJK_BRACKETS
    )


def _is_inserted(text: str, start: int, place: int, last: int) -> bool:
    """Return whether a bracket is open that the sentence did not begin with: "(cf. No. 5. It"."""
    first = max(last + 1, start - 2 * WINDOW)
    for opener, closer in ("()", "[]"):
        opened = text.rfind(opener, first, start)
        if opened >= 0 and text[opened - 1].isspace() and text.find(closer, opened, place) < 0:
            return True
    return False


def _is_end(
    text: str, match: re.Match[str], place: int, last: int, next_word: bool, habits: Habits
) -> bool:
    """Return whether the sentence that starts at `last` ends at `place`."""
    start, following = match.start(), text[place]
    if match.lastgroup == "simple":
        gap = match["simple"]
        run = text[start : place - len(gap)]
        if gap != " " and _is_blank_line(gap):
            return True
    elif match["gap"] is None:
        return _ends_unmarked(match, start > last, following)
    else:
        run = text[start : min(place, match.start("spaced"))]
        gap = match["gap"] if place == match.end() else text[start + len(run) : place]
        ends = _STRONG_SET if gap else _TERMINATORS
        if run[-1] in ends and _is_bracketed(text, start, last):
            return bool(gap) and _is_blank_line(gap)
        found = _decided(text, match, place, run, gap, next_word)
        if found is not None:
            return found
    if following in lists.CONTINUES or (following == "[" and "\n" not in gap):
        # "[" may open the number of a note, which belongs to the sentence before.
        return _ends_before_mark(text, match, place, run, next_word)
    if run[0] == "." and _ARMENIAN.match(text, start - 1):
        return False  # a pause in Armenian
    if following.islower():
        if next_word and run[0] in "!?" and ahead.shows(ahead.SPEAKER, text, place):
            return False
        if ends_before_lower(text, start, run + (match["spaced"] or "")):
            return True
        small = habits.small(start)
        if small <= 0 or run != ".":
            return small > 0 and run_ends(run, small)
    if text[start - 1 : start] == "[" and "]" in run:
        return False  # "[...]" stands for words left out
    if len(run) > 1 and not following.isalnum() and _mentions(text, start):
        return following in _QUOTES  # press "?" (or "h")
    # below U+0590: Latin, Greek, Cyrillic and Armenian
    if following < "\u0590" and _is_inserted(text, start, place, last):
        return False
    said = following in "\u2013\u2014" and run[-1] in _CLOSE_QUOTES
    if said or run[0] != "." or run[1:2] in _PLAIN_SET:
        return _ends_question(text, match, place, last, run, gap, next_word)
    if gap == "  " and following.isupper() and text.endswith(" . . ", 0, start):
        return True  # words left out, and two spaces, as between sentences
    if following.isdigit() and text[place - 1 : place].isdigit():
        return False
    upper = following.isupper() or following in _QUOTES
    begins = upper or following.islower()
    starts = begins and ahead.starts_sentence(text, place) if next_word else None
    if next_word and ahead.shows(ahead.DAY, text, place):
        following, starts = "M", False
    if next_word and text[start - 1 : start].isdigit() and not ahead.shows(ahead.DATE, text, place):
        following = "A"  # "1 + 1 = 2. 3 + 1 = 4."
    return period_ends(text, start, following, last, upper, starts)


def _mentions(text: str, start: int) -> bool:
    """Return whether the terminator at `start` is right behind a quote that opens."""
    before = text[start - 2 : start - 1]
    return text[start - 1 : start] in _MENTIONS and (not before.strip() or before in _OPENERS)


def _ends_before_mark(
    text: str, match: re.Match[str], place: int, run: str, next_word: bool
) -> bool:
    """Return whether a sentence ends before a sign that seldom starts one."""
    start, following = match.start(), text[place]
    attached = not text[start - 1 : start].isspace()
    if following == "\u201d" and (match["spaced"] or text[place - 1] in lists.LINE_ENDS):
        return True  # it closes nothing, so it opens
    if run != "." or not attached:
        return False
    if following == ",":
        word = text[max(0, start - WINDOW) : start].rpartition(" ")[2]
        return place - start > 1 and is_plain(word)
    return next_word and ahead.shows(ahead.OMISSION, text, place)


def _ends_question(
    text: str, match: re.Match[str], place: int, last: int, run: str, gap: str, next_word: bool
) -> bool:
    following = text[place]
    if following in _DASHES and "\n" not in gap and run[0] != ";":
        # Long dashes name the speaker of what a dash began, or quotes: "- Why? - she asked."
        if next_word and ahead.speaks_behind_dash(text, place):
            return False
        turn = text[last : last + 1] not in _DASHES
        return run[-1] in "!?" and (following == "-" or turn)
    if run == "!" and following.isupper() and is_exclaimed(text, match.start()):
        return next_word and ahead.starts_sentence(text, place)
    quoted = next_word and following == "I" and run[-1] in _CLOSING_QUOTES
    return not (quoted and ahead.shows(ahead.SPEAKER, text, place))


def _decided(
    text: str, match: re.Match[str], place: int, run: str, gap: str, next_word: bool
) -> bool | None:
    """Decide by script, quotes, blank lines or missing white space; None if they do not."""
    following = text[place]
    if gap and _is_blank_line(gap):
        return True
    if not _STRONG_SET.isdisjoint(run):
        opens = following == "\u201d" and gap  # it closes nothing
        return bool(opens) or _ends_strong(run, following)
    if not gap:
        if next_word and run == "." and ahead.starts_glued(text, match.start(), place):
            return True
        return _ends_glued(text, match.start(), run, following, bool(match["emoji"]))
    return None


def _ends_unmarked(match: re.Match[str], in_sentence: bool, following: str) -> bool:
    """Return whether a line end, a face, a divider or an address ends the sentence."""
    gap, sign = match["unmarked"], match[0][0]
    if not gap or _is_blank_line(gap):
        return bool(gap)
    if sign in lists.DIVIDERS:
        return (following.isalnum() and not following.islower()) or following in _QUOTES
    if sign == ">":
        # The line of a mail's header: "From: Ann Lee <lee@c.org> Date: ..."
        before = match.string[max(0, match.start() - _ADDRESS_WINDOW) : match.start()]
        return bool((following.isupper() or following.isdigit()) and _ADDRESS.search(before))
    return in_sentence and following.isupper()


def _is_blank_line(gap: str) -> bool:
    return gap.count("\n") > 1 or gap.count("\r") > 1 or "\u2029" in gap


def _is_ideograph(char: str) -> bool:
    """Return whether the character is of a script written without spaces (CJK)."""
    return "\u3041" <= char <= "\u9fff" or "\U00020000" <= char <= "\U0003ffff"


def _ends_strong(run: str, following: str) -> bool:
    if (
        following in lists.CONTINUES_STRONG
        or following == "["
        or (run[0] == "\uff0e" and following.isdigit())
    ):
        return False
    # Behind the title of a work and before particles.
    return not (run[-1] == "\u300b" or (run[-1] in _CLOSE_QUOTES and following in _AFTER_QUOTE))


def _ends_glued(text: str, start: int, run: str, following: str, emoji: bool) -> bool:
    """Return whether a sentence ends without white space: "so.Then", but not "www.Site"."""
    if _is_ideograph(following) or (following in OPENERS and is_wide(text, start)):
        return _ends_among_wide(text[start - 1 : start], run, following)
    if not following.isupper() or run.strip(".!?"):
        return False
    before = text[start - 1 : start]
    if _ARMENIAN.match(before):
        return False
    if emoji or before.isupper() or not before.isalpha():
        return emoji or (
            run == "." and _THOUSANDS.search(text, max(0, start - 5), start) is not None
        )
    word = text[max(0, start - WINDOW) : start].rsplit(None, 1)[-1]
    if run == "." and _DAY.fullmatch(word):
        return True
    if len(run) > 1 or run != ".":
        return word.isalpha() and word[1:].islower()
    return len(word) > 3 and is_plain(word)


def _ends_among_wide(before: str, run: str, following: str) -> bool:
    """Return whether a terminator of ASCII ends a sentence of Chinese or Japanese."""
    if run[0] == "." and run != "..":
        # Not in numbers and names.
        sure = run == "." and not (following in OPENERS or _LAST_WORDS.match(before))
        if sure or not _is_ideograph(before):
            return False
    return run[0] in ".!?" and _ends_strong(run, following)
