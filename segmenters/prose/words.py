"""Whether a period ends a sentence, by the word before it and the first character after it.

The word is searched in a bounded window, and may be an abbreviation, an initial, a symbol, an
ordinal, a number of a list or section, or a plain word.
"""

import re
import unicodedata
from functools import lru_cache

from segmenters.prose import tables as lists
from segmenters.prose.letters import COUNTED, letter_ends

# How far back the word before a period is searched, in characters.
WINDOW = 24
_QUOTES = "\"'`*_\u2018\u201c\u201e\u00ab\u00bb"
_OPENERS = _QUOTES + "([{\u00bf\u00a1\u2014\u2013-" + lists.BULLETS
_ITEM, _LONGEST_ITEM = re.compile(r"\d{1,3}|[A-Za-z]|[ivxIVX]{1,5}"), 5
_INITIALS = re.compile(r"\w(?:\.-?\w)+")
# Numbers of sections: "8.2".
_SECTION = re.compile(r"\d+(?:\.\d+)+")
_ORDINAL = re.compile(r"\d{1,2}|[IVX]+")
# A period with more text behind it on its line.
_ON_LINE = re.compile(r"\.[ \t\u00a0]{1,8}+(?!\s)")
# Articles that lose their vowel in French and Italian: "l'art. 5".
_ELIDED = re.compile(r"(?:[dl]|\w{1,3}ll|un|qu)['\u2019](?=\w)", re.IGNORECASE)
# Three spaced periods stand for words left out; a fourth ends the sentence.
_OMISSION = re.compile(r"(?:^|(?<=[^.]\s))\.(?: ?\.){2}$")
_OMISSION_WINDOW = 8
_SHORTENED = lists.BEFORE_NAME | lists.MAY_END | lists.CLIPPED
# A word behind an open bracket that is no longer than this is abbreviated: "(angl. James)".
_LONGEST_IN_BRACKETS = 6
# Parts of abbreviations ("dr.phil"), and units behind a number ("15 mill. kroner").
_LONGEST_PART, _LONGEST_UNIT = 5, 4
# Letters of Latin, Greek and Cyrillic that are not vowels; y is one in some languages.
_CONSONANTS = re.compile(
    "[bcdfghjklmnpqrstvwxz\u00e7\u00f0\u00f1\u00fe\u0107\u010d\u010f\u0111\u0144\u0148\u0155\u0159"
    "\u015b\u0161\u0163\u0165\u017a\u017c\u017e\u0219\u021b\u03b2\u03b3\u03b4\u03b6\u03b8\u03ba"
    "\u03bb\u03bc\u03bd\u03be\u03c0\u03c1\u03c3\u03c2\u03c4\u03c6\u03c7\u03c8"
    "\u0431-\u0434\u0436\u0437\u043a-\u043d\u043f-\u0442\u0444-\u0449\u0452\u0453\u0458-\u045c"
    "\u045f\u0491]{2,5}"
)
# "Hmm. Then", "Shh. Quiet".
_SOUND = re.compile(r"[mh]+|s+h+|p+s+t+|b+r+|p+f+|t+s+k+|z+|g+r+")
_VIRAMA = 9  # its class in `unicodedata.combining`: it takes the vowel from a letter
# Before M rather a day follows ("10 a.m. Monday") or a title ("At 5 a.m. Mr. Smith").
_HOURS = ("a.m", "p.m")
# Letters of Czech and Slovak, in which a period makes a Roman numeral an ordinal.
_CZECH = re.compile("[\u010d\u010f\u011b\u013a\u013e\u0148\u0155\u0159\u0161\u0165\u016f\u017e]")


def ends_before_lower(text: str, start: int, run: str) -> bool:
    """Return whether a small letter starts a sentence: after a plain word and its terminator."""
    word = text[max(0, start - WINDOW) : start].rpartition(" ")[2]
    if run != ".":
        # Quotes report speech: "Who?" he asked. "Alas! my" and "Yahoo! in" go on, not "nice! and".
        return not run.strip("!?") and (len(run) > 1 or word[:1].islower())
    if not word:
        return not _is_omission(text, start, 0)  # tokenised text
    if word in lists.SHORT_WORDS:
        return True
    return is_plain(word) and not (
        len(word) <= _LONGEST_UNIT and _is_counted(text, start - len(word))
    )


def is_exclaimed(text: str, start: int) -> bool:
    """Return whether the mark at `start` belongs to a name: "Yahoo! Inc."."""
    word = text[max(0, start - WINDOW) : start].rpartition(" ")[2]
    return word.lstrip(_OPENERS) in lists.EXCLAIMED


def is_plain(word: str) -> bool:
    """Return whether a word is surely no abbreviation.

    Few abbreviations are this long; the lists miss more of other languages than of English.
    """
    plain = word.isalpha() and word.islower() and len(word) > (3 if word.isascii() else 4)
    return plain and word not in _SHORTENED and not _CONSONANTS.fullmatch(word)


@lru_cache(maxsize=1 << 15)
def always_ends(word: str) -> bool:
    """Return whether `period_ends` is true behind this word, whatever is around it."""
    lower = word.lower()
    return (
        len(word) > 1
        and word.isalpha()
        and not "\u0531" <= word[-1] <= "\u0587"  # a pause in Armenian
        and word[0] < "\u0900"
        and not (len(word) <= _LONGEST_ITEM and _ITEM.fullmatch(word))
        and lists.BEFORE_NAME.isdisjoint((lower, word, word.capitalize()))
        and not any(lower in words for words in (lists.MAY_END, lists.AFTER, lists.BEFORE_NUMBER))
        and not _CONSONANTS.fullmatch(lower)
        and not _ORDINAL.fullmatch(word)
    )


def _is_counted(text: str, place: int) -> bool:
    """Return whether a number is before the word at `place`: "15 mill. kroner"."""
    before = text[max(0, place - 2) : place]
    return len(before) == 2 and before[0].isdigit() and before[1].isspace()


def period_ends(
    text: str, start: int, following: str, last: int, upper: bool, starts: bool | None
) -> bool:
    """Return whether the period at `start` ends the sentence that began at `last`.

    `upper`: the first visible character after it, `following`, may start a sentence. `starts`: the
    next word often does; None: it is not read.
    """
    tail = text[max(0, start - WINDOW) : start]
    if not tail or tail[-1].isspace():  # tokenised text
        word = (tail.split() or [""])[-1]
        title = word.istitle() and word.lower() in lists.BEFORE_NAME
        return not title and not _is_omission(text, start, last)
    *earlier, word = tail.rsplit(None, 2)
    if always_ends(word):
        return True
    bracketed, ranging = word[0] in "([", word[0] in "-\u2013"
    if not word[0].isalnum():
        word = word.lstrip(_OPENERS)
    if len(word) > 3 and ("'" in word or "\u2019" in word):  # an article and two letters
        word = _ELIDED.sub("", word, count=1)
    if not word:
        return True
    before = earlier[-1] if earlier else ""
    listed = len(word) <= _LONGEST_ITEM and _ITEM.fullmatch(word)
    if (listed or _SECTION.fullmatch(word)) and _starts_line(text, start - len(word), last):
        return False
    if before.lower() in lists.LABELS and _labels(text, start, before, word, last):
        return False
    if bracketed and word.islower() and len(word) <= _LONGEST_IN_BRACKETS:
        return word[-1] in ")]"
    enough = start - last > WINDOW or len(text[last:start].split()) > 3
    if len(word) == 1 and word.isalpha():
        return letter_ends(text, start, last, earlier, following, upper)
    if ranging and _ORDINAL.fullmatch(word) and before[-1:] == "." and before[:1].isdigit():
        return False  # "aus dem 1. -3. Jahrhundert"
    if word[:1].isdigit():
        return _number_ends(word, before, following)
    by = len(earlier) > 1 and earlier[0].endswith((" by", "By"))
    if word in _HOURS and following == "M" and not by:
        return starts is True
    return _word_ends(word, before, following, upper and enough, starts)


def _is_omission(text: str, start: int, last: int) -> bool:
    first = max(last, start - _OMISSION_WINDOW)
    return _OMISSION.search(text[first : start + 1]) is not None


def _starts_line(text: str, place: int, last: int) -> bool:
    """Return whether only list marks are between the start of the line and `place`."""
    if place <= last:
        return True
    before = text[max(last, place - WINDOW) : place].rstrip(" \t>*#-" + lists.BULLETS)
    return not before or before[-1] in lists.LINE_ENDS


def _labels(text: str, start: int, name: str, number: str, last: int) -> bool:
    """Return whether name and number, with the period at `start`, label the rest of their line."""
    if not (number[-1].isdigit() or _ORDINAL.fullmatch(number)) or not _ON_LINE.match(text, start):
        return False
    place = text.rfind(name, last, start)
    return place >= 0 and _starts_line(text, place, last)


def _number_ends(word: str, before: str, following: str) -> bool:
    if not _ORDINAL.fullmatch(word):
        return True
    if following.islower():
        return False
    if following.isdigit():  # of a date: "23. 8. 1999"
        return int(word) > 31
    # "Montag, 3. Juli"
    return not (before.lower() in lists.BEFORE_ORDINAL or (before[-1:] == "," and before.istitle()))


def _word_ends(word: str, before: str, following: str, upper: bool, starts: bool | None) -> bool:
    lower = word.lower()
    if lower in lists.MAY_END and word not in lists.BEFORE_NAME:
        # "In the U.S. Senate": so few words are hardly a sentence.
        if starts is None and following == "D" and lower in ("co", "corp"):
            return upper
        if lower not in lists.NAMED:
            small = following.islower() and lower in lists.AND_SO_ON
            return upper or small or starts is True
        return upper and (following in lists.STARTING if starts is None else starts)
    if not lists.BEFORE_NAME.isdisjoint((lower, word, word.capitalize())) and (
        lower in lists.BEFORE_NAME or not word.islower()
    ):
        return False
    if lower in lists.AFTER:
        return before.lower() not in lists.AFTER[lower]
    if "." in word:
        return _dotted_ends(word, lower) or (starts is True and word.count(".") == 1)
    if (following.isdigit() or following in "(\u00a7") and lower in lists.BEFORE_NUMBER:
        return False
    if _CONSONANTS.fullmatch(lower) and not (word.isupper() or _SOUND.fullmatch(lower)):
        # An unknown abbreviation, of a unit or not: "5 km. Then", "Th. Mann".
        initial = word[0].isupper() and len(word) == 2
        counted = before and COUNTED.fullmatch(before)
        acronym = following.islower() and len(word) > 2
        return bool(upper or counted or acronym) and not (following.isdigit() or initial)
    if _ORDINAL.fullmatch(word) and (
        before.lower() in lists.BEFORE_ORDINAL or (before.islower() and _CZECH.search(before))
    ):
        return False
    return word[0] < "\u0900" or not _is_initial(word)


def _dotted_ends(word: str, lower: str) -> bool:
    if _INITIALS.fullmatch(word) or all(map(_is_initial, word.split("."))):
        return False
    first, _, rest = lower.rpartition(".")
    short = len(rest) <= _LONGEST_PART and len(first) > 1
    return not (short and (first in lists.BEFORE_NAME or rest in lists.BEFORE_NAME))


def _is_initial(word: str) -> bool:
    """Return whether a word of an Indic script is one letter with its marks."""
    if not "\u0900" <= word[:1] <= "\u0dff":
        return False
    joined, count = False, 0
    for char in word:
        count += char.isalpha() and not joined
        joined = unicodedata.combining(char) == _VIRAMA
    return count == 1
