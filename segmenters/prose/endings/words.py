"""The rules of a period: the word before it, and the first character after it.

The word is searched in a bounded window, and may be an abbreviation, an initial, a symbol, an
ordinal, a number of a list or section, or a plain word.
"""

import re
import unicodedata
from itertools import chain

from segmenters.prose import signs, word_lists
from segmenters.prose.endings import ahead
from segmenters.prose.endings.doubt import (
    OPENERS,
    WINDOW,
    Doubt,
    Rule,
    Table,
    otherwise,
    without_article,
)
from segmenters.prose.endings.language import ANY
from segmenters.prose.endings.letters import COUNTED, LETTER

_ITEM, _LONGEST_ITEM = re.compile(r"\d{1,3}|[A-Za-z]|[ivxIVX]{1,5}"), 5
_INITIALS = re.compile(r"\w(?:\.-?\w)+")
_ACRONYM = re.compile(r"(?:[A-Z]\.){2,5}[A-Z]")
_LONG_ACRONYM = 4  # letters, of which persons hardly have so many
# Numbers of sections: "8.2".
_SECTION = re.compile(r"\d+(?:\.\d+)+")
_ORDINAL, _THOUSANDS = re.compile(r"\d{1,2}|[IVX]+"), re.compile(r"\d{1,3}")
# A period with more text behind it on its line.
_ON_LINE = re.compile(r"\.[ \t\u00a0]{1,8}+(?!\s)")
# Three spaced periods stand for words left out; a fourth ends the sentence.
_OMISSION = re.compile(r"(?:^|(?<=[^.]\s))\.(?: ?\.){2}$")
_OMISSION_WINDOW = 8
_ONLY_BEFORE_NAME = word_lists.BEFORE_NAME - word_lists.BOUND_BEFORE.keys()
_SHORTENED = (
    word_lists.BEFORE_NAME | word_lists.MAY_END | word_lists.CLIPPED | word_lists.BEFORE_NUMBER
)
_KNOWN = frozenset(
    word.lower()
    for words in (_SHORTENED, word_lists.AFTER, word_lists.INITIALS, word_lists.CITED)
    for word in words
)
# Those that count only in some languages, whatever follows, with these.
_LISTS = (
    (word_lists.BEFORE_NAME, word_lists.BOUND_BEFORE),
    (word_lists.MAY_END, word_lists.BOUND_END),
    (word_lists.BEFORE_NUMBER, word_lists.BOUND_NUMBER),
)
_BOUND = {
    word: frozenset(chain.from_iterable(bound.get(word, ()) for _, bound in _LISTS))
    for word in _SHORTENED - word_lists.CLIPPED
    if all(word in bound for words, bound in _LISTS if word in words)
}
# A word behind an open bracket that is no longer than this is abbreviated: "(angl. James)".
_LONGEST_IN_BRACKETS = 6
# Parts of abbreviations ("dr.phil"), and units behind a number ("15 mill. kroner").
_LONGEST_PART, LONGEST_UNIT = 5, 4
# A word in small letters that is no longer may be an abbreviation that no list has.
_LONGEST_DOUBTFUL = 3
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
# Words of German and Dutch end so before a number: "Goethestr. 12", "Hausnr. 5".
_STREETS = ("str", "nr")
# No abbreviation ends with these; what joins letters in a word.
_CLOSING = frozenset(")]\"'\u2019\u201d\u201c\u00bb")
_JOINTS = re.compile(r"(?<=\w)['\u2019-](?=\w)")
_VIRAMA = 9  # its class in `unicodedata.combining`: it takes the vowel from a letter
# Behind these the words are no abbreviations: "5 ms. Then", "the Fed. Then", "das Gen. Dann".
_NOUN = re.compile("[Tt]he|[Dd]as|[Dd]ieses|dem|im|[Ee]in|kein|jedes")
_OWN = {"ms": COUNTED, "ns": COUNTED, "Fed": _NOUN, "Gen": _NOUN, "Pub": _NOUN}
# Before M rather a day follows ("10 a.m. Monday") or a title ("At 5 a.m. Mr. Smith").
_HOURS = ("a.m", "p.m")
_MOST_DAYS = 31
# In these languages the number of a ruler has a period.
_NUMBERING = frozenset(("cs", "sk", "sl", "hr", "de", "hu", "da", "no", "fi", "et", "lv", "is"))
# Letters of Czech and Slovak, in which a period makes a Roman numeral an ordinal.
_CZECH = re.compile("[\u010d\u010f\u011b\u013a\u013e\u0148\u0155\u0159\u0161\u0165\u016f\u017e]")


def ends_before_lower(doubt: Doubt) -> bool:
    """Return whether a small letter starts a sentence: after a plain word and its terminator."""
    word, run = doubt.attached, doubt.run + doubt.spaced
    if run != ".":
        # Quotes report speech: "Who?" he asked. "Alas! my" and "Yahoo! in" go on, not "nice! and".
        return not run.strip("!?") and (len(run) > 1 or word[:1].islower())
    if not word:
        return not _is_omission(doubt, within=False)  # tokenised text
    if word in word_lists.SHORT_WORDS:
        return True
    return (is_plain(word) or _is_foreign(doubt, word)) and not (
        len(word) <= LONGEST_UNIT and _is_counted(doubt.text, doubt.start - len(word))
    )


def _is_foreign(doubt: Doubt, word: str) -> bool:
    """Return whether a word is an abbreviation of other languages only."""
    return (
        len(word) > _LONGEST_DOUBTFUL
        and word.islower()
        and word in _BOUND
        and not doubt.speaks(_BOUND[word])
    )


def is_exclaimed(word: str) -> bool:
    """Return whether the exclamation mark behind a word belongs to a name: "Yahoo! Inc."."""
    return word.lstrip(OPENERS) in word_lists.EXCLAIMED


def is_plain(word: str) -> bool:
    """Return whether a word is surely no abbreviation.

    Few abbreviations are this long; the lists miss more of other languages than of English.
    """
    plain = word.isalpha() and word.islower() and len(word) > (3 if word.isascii() else 4)
    return plain and word not in _SHORTENED and not _CONSONANTS.fullmatch(word)


def _is_indic(letter: str) -> bool:
    return "\u0900" <= letter <= "\u0dff"


def always_ends(word: str) -> bool:
    """Return whether a period behind this word ends a sentence, whatever is around it."""
    bare = word
    if word[-1] in _CLOSING and word[0].isalnum():
        return "." not in word and not _is_indic(word[0])
    if not word.isalpha():
        word = without_article(word)
        bare = _JOINTS.sub("", word)
        if not bare.isalpha():
            return False
    lower = word.lower()
    if lower in _KNOWN and _is_listed_word(word, lower):
        return False
    if not word.strip("IVXivx") and (len(word) <= _LONGEST_ITEM or not word.strip("IVX")):
        return False  # a number
    if (len(word) <= _LONGEST_ITEM and _CONSONANTS.fullmatch(lower)) or lower.endswith(_STREETS):
        return False
    pause = "\u0531" <= word[-1] <= "\u0587"  # in Armenian
    return len(bare) > 1 and not pause and not _is_indic(word[0])


def _is_listed_word(word: str, lower: str) -> bool:
    """Return whether a list has a word that may not end a sentence."""
    return (
        word in word_lists.INITIALS
        or not word_lists.BEFORE_NAME.isdisjoint((lower, word, word.capitalize()))
        or any(lower in words for words in (word_lists.MAY_END, word_lists.AFTER))
        or word in word_lists.CITED
        or not word_lists.BEFORE_NUMBER.isdisjoint((lower, word))
    )


def _is_counted(text: str, place: int) -> bool:
    """Return whether a number is before the word at `place`: "15 mill. kroner"."""
    before = text[max(0, place - 2) : place]
    return len(before) == 2 and before[0].isdigit() and before[1].isspace()


def _is_omission(doubt: Doubt, *, within: bool) -> bool:
    """Return whether words are left out, in the sentence or before."""
    if not doubt.behind_period:
        return False
    first = max(doubt.last if within else 0, doubt.start - _OMISSION_WINDOW)
    return _OMISSION.search(doubt.text[first : doubt.start + 1]) is not None


def _starts_line(text: str, place: int, last: int) -> bool:
    """Return whether only list marks are between the start of the line and `place`."""
    if place <= last:
        return True
    before = text[max(last, place - WINDOW) : place].rstrip(" \t>*#-" + signs.BULLETS)
    return not before or before[-1] in signs.LINE_ENDS


def _is_listed(doubt: Doubt) -> bool:
    """Return whether the word numbers an item or a section at the start of its line."""
    word = doubt.word
    listed = (len(word) <= _LONGEST_ITEM and _ITEM.fullmatch(word)) or _SECTION.fullmatch(word)
    return bool(listed) and _starts_line(doubt.text, doubt.start - len(word), doubt.last)


def _is_label(doubt: Doubt) -> bool:
    """Return whether name and number, with the period, label the rest of their line."""
    number = doubt.word
    if not (number[-1].isdigit() or _ORDINAL.fullmatch(number)):
        return False
    name = doubt.previous
    if name.lower() not in word_lists.LABELS or not _ON_LINE.match(doubt.text, doubt.start):
        return False
    place = doubt.text.rfind(name, doubt.last, doubt.start)
    return place >= 0 and _starts_line(doubt.text, place, doubt.last)


def _is_short_in_brackets(doubt: Doubt) -> bool:
    word = doubt.word
    opened = doubt.raw[0] in "(["
    return opened and word.islower() and len(word) <= _LONGEST_IN_BRACKETS


def _is_range(doubt: Doubt) -> bool:
    """Return whether a word is the second ordinal of a range: "aus dem 1. -3. Jahrhundert"."""
    if doubt.raw[0] not in "-\u2013" or not _ORDINAL.fullmatch(doubt.word):
        return False
    return doubt.previous[-1:] == "." and doubt.previous[:1].isdigit()


def _goes_on_as_date(doubt: Doubt) -> bool:
    """Return whether a number follows that is no sum: "23. 8. 1999", not "1 + 1 = 2. 3 + 1"."""
    following = doubt.following.isdigit()
    return following and not (doubt.next_word and not doubt.shows(ahead.DATE))


def _is_before_month(doubt: Doubt) -> bool:
    """Return whether a number is an ordinal for what is before it: "Montag, 3. Juli"."""
    before = doubt.previous
    return before.lower() in word_lists.BEFORE_ORDINAL or (
        before[-1:] == "," and before[:1].isupper()
    )


NUMBER: Table = (
    Rule(
        "section in digits of India",
        lambda d: d.word[0] >= "\u0900" and bool(_SECTION.fullmatch(d.word)),
        False,
    ),
    Rule("number", lambda d: not _ORDINAL.fullmatch(d.word), True),
    Rule("ordinal before a small letter", lambda d: d.following.islower(), False),
    Rule("number of a date", _goes_on_as_date, lambda d: int(d.word) > _MOST_DAYS),
    Rule("ordinal", _is_before_month, False),
    Rule("small number", otherwise, True),
)


def _is_hour(doubt: Doubt) -> bool:
    """Return whether an hour is before a day or title: "10 a.m. Monday", "At 5 a.m. Mr. Smith"."""
    if doubt.word not in _HOURS:
        return False
    earlier = doubt.earlier
    by = len(earlier) > 1 and earlier[0].endswith((" by", "By"))
    return (doubt.following == "M" or doubt.shows(ahead.DAY)) and not by


def _forms(word: str) -> tuple[str, ...]:
    """Return the forms in which a list may have a word; small letters do not meet capitals."""
    lower = word.lower()
    if word == lower:
        return (lower,)
    return word, lower, word.capitalize()


def _is_before_name(doubt: Doubt) -> bool:
    """Return whether a word abbreviates in the language of the text.

    One in capitals does as in small letters only among others: "SEE DR. LEE", not "its DNA. The".
    """
    bound, word = word_lists.BOUND_BEFORE, doubt.word
    forms = word_lists.BEFORE_NAME.intersection(_forms(word))
    if word in _OWN and _OWN[word].fullmatch(doubt.previous):
        return False
    if forms and _is_capitals(doubt):
        forms &= {word}
    return any(
        form not in bound or doubt.speaks(bound[form]) or _is_in_title(doubt) for form in forms
    )


def _is_in_title(doubt: Doubt) -> bool:
    """Return whether a word rather is a title than a word of its own: "MM. Dupont", "PGS. TS. Lan".

    It is behind another title, or in capitals where no language is shown yet.
    """
    if not doubt.word[0].isupper():
        return False
    before = doubt.previous
    if before[-1:] == "." and not _ONLY_BEFORE_NAME.isdisjoint(_forms(before[:-1])):
        return True
    return doubt.language == ANY and not doubt.languages


def _is_capitals(doubt: Doubt) -> bool:
    """Return whether a word in capitals is behind one that is not."""
    word = doubt.word
    if not (len(word) > 1 and word.isalpha() and word.isupper()):
        return False
    return doubt.previous != "" and not doubt.previous.isupper()


def _may_end(doubt: Doubt) -> bool:
    lower, bound = doubt.lower, word_lists.BOUND_END
    forms = word_lists.MAY_END.intersection((doubt.word, lower))
    if not forms or _is_capitals(doubt) or doubt.word in _ONLY_BEFORE_NAME:
        return False
    if lower in word_lists.BOUND_BEFORE and _is_before_name(doubt):
        return False
    return any(form not in bound or doubt.speaks(bound[form]) for form in forms)


def _is_before_number(doubt: Doubt) -> bool:
    following, bound = doubt.following, word_lists.BOUND_NUMBER
    if not (following.isdigit() or following in "(\u00a7"):
        return False
    if following.isdigit() and doubt.lower.endswith(_STREETS):
        return True
    return any(
        word not in bound or doubt.speaks(bound[word])
        for word in word_lists.BEFORE_NUMBER.intersection((doubt.lower, doubt.word))
    )


def _is_vowelless(doubt: Doubt) -> bool:
    """Return whether a word without a vowel is an abbreviation that no list has."""
    lower = doubt.lower
    return bool(_CONSONANTS.fullmatch(lower)) and not (
        doubt.word.isupper() or _SOUND.fullmatch(lower)
    )


def _ends_vowelless(doubt: Doubt) -> bool:
    """Return whether a sentence ends behind a unit or not: "5 km. Then", "Th. Mann"."""
    word, following = doubt.word, doubt.following
    if following.isdigit():
        return False
    if doubt.previous and COUNTED.fullmatch(doubt.previous):
        return True
    if word[0].isupper() and len(word) == 2:  # an initial
        return False
    return (doubt.upper and doubt.enough) or (following.islower() and len(word) > 2)


def _is_roman_ordinal(doubt: Doubt) -> bool:
    if not _ORDINAL.fullmatch(doubt.word):
        return False
    before = doubt.previous
    if before[:1].isupper() and doubt.following == "(":  # "Karel II. (panoval 1283"
        return doubt.speaks(_NUMBERING)
    return before.lower() in word_lists.BEFORE_ORDINAL or (
        before.islower() and _CZECH.search(before) is not None
    )


# Words that end a sentence as often as not. So few words as "In the U.S." are hardly a sentence.
MAY_END: Table = (
    Rule(
        "abbreviation at an end",
        lambda d: d.lower not in word_lists.NAMED,
        lambda d: (
            (d.upper and d.enough and not (d.starts is False and d.lower == "jr"))
            or ((d.upper or d.following.islower()) and d.lower in word_lists.AND_SO_ON)
            or d.starts is True
        ),
    ),
    Rule("firm or state, and few words", lambda d: not (d.upper and d.enough), False),
    Rule(
        "firm or state",
        otherwise,
        lambda d: d.starts is True or (d.starts is None and d.following in _after_named(d.lower)),
    ),
)


def _is_acronym(doubt: Doubt) -> bool:
    """Return whether three or more dotted capitals are no initials: "the F.B.I."."""
    word = doubt.word
    if not _ACRONYM.fullmatch(word):
        return False
    before = doubt.previous
    is_long = word.count(".") >= _LONG_ACRONYM - 1 and before.islower()
    return is_long or before in word_lists.ARTICLES


def _ends_acronym(doubt: Doubt) -> bool:
    """Return whether a sentence ends; behind "the", a capital rather is of its name."""
    if not (doubt.upper and doubt.enough):
        return False
    if doubt.starts is not None:
        return doubt.starts
    return doubt.following in word_lists.STARTING or doubt.previous != "the"


def _is_cited(doubt: Doubt) -> bool:
    """Return whether a word is of a citation: "Phys. Rev. Lett. 3", "5 Wis. 2d 4"."""
    word = doubt.word
    if word not in word_lists.CITED or doubt.start - len(word) <= doubt.last:
        return False
    before = doubt.previous
    return before[-1:] == "." or before[:1].isdigit() or doubt.following.isdigit()


def _after_named(word: str) -> frozenset[str]:
    """Return the capitals that start a sentence behind a firm or state."""
    return word_lists.STARTING | {"D"} if word in ("co", "corp") else word_lists.STARTING


WORD: Table = (
    Rule("may end", _may_end, MAY_END),
    Rule("abbreviation before a name", _is_before_name, False),
    Rule("abbreviation before a number", _is_before_number, False),
    Rule(
        "abbreviation after a word",
        lambda d: d.lower in word_lists.AFTER,
        lambda d: d.previous.lower() not in word_lists.AFTER[d.lower],
    ),
    Rule("dotted capitals at an end", _is_acronym, _ends_acronym),
    Rule(
        "dotted abbreviation",
        lambda d: "." in d.word,
        lambda d: _dotted_ends(d.word, d.lower) or (d.starts is True and d.word.count(".") == 1),
    ),
    Rule("unknown abbreviation without a vowel", _is_vowelless, _ends_vowelless),
    Rule("ordinal in Roman numerals", _is_roman_ordinal, False),
    Rule("initial of India", lambda d: _is_indian_initial(d), False),
    Rule("abbreviation in a citation", _is_cited, False),
    Rule("word", otherwise, True),
)


def _is_title(word: str) -> bool:
    return word.istitle() and word.lower() in _ONLY_BEFORE_NAME


TOKENISED: Table = (
    Rule(
        "thousands and a period apart",  # "28 . 000"
        lambda d: d.following.isdigit() and _THOUSANDS.fullmatch(d.raw) is not None,
        False,
    ),
    Rule(
        "title and a period apart",
        lambda d: _is_title(d.raw),
        False,
    ),
    Rule("words left out", lambda d: _is_omission(d, within=True), False),
    Rule("period apart", otherwise, True),
)

PERIOD: Table = (
    Rule("period apart", lambda d: d.apart, TOKENISED),
    Rule("plain word", lambda d: always_ends(d.raw), True),
    Rule("no word", lambda d: not d.word, True),
    Rule("number of an item or section", _is_listed, False),
    Rule("label", _is_label, False),
    Rule("short word in brackets", _is_short_in_brackets, lambda d: d.word[-1] in ")]"),
    Rule("letter", lambda d: len(d.word) == 1 and d.word.isalpha(), LETTER),
    Rule("range of ordinals", _is_range, False),
    Rule("number", lambda d: d.word[0].isdigit(), NUMBER),
    Rule("hour before a day", _is_hour, lambda d: d.starts is True),
    Rule("word", otherwise, WORD),
)


def _dotted_ends(word: str, lower: str) -> bool:
    if _INITIALS.fullmatch(word) or all(map(_is_initial, word.split("."))):
        return False
    first, _, rest = lower.rpartition(".")
    short = len(rest) <= _LONGEST_PART and len(first) > 1
    return not (short and (first in word_lists.BEFORE_NAME or rest in _ONLY_BEFORE_NAME))


def _is_indian_initial(doubt: Doubt) -> bool:
    """Return whether a short word is an initial and no verb, as the copula is."""
    word = doubt.word
    ends = word in word_lists.SYLLABLES and doubt.previous[-1:] != "."
    return word[0] >= "\u0900" and not ends and _is_initial(word)


def _is_initial(word: str) -> bool:
    """Return whether a word of an Indic script is one letter with its marks, or names a letter."""
    if word in word_lists.INITIALS:
        return True
    if not _is_indic(word[:1]):
        return False
    joined, count = False, 0
    for char in word:
        count += char.isalpha() and not joined
        joined = unicodedata.combining(char) == _VIRAMA
    return count == 1
