"""Whether a sentence ends behind a single letter: a symbol (x, the set S, answer B) or an initial.

A letter is a symbol next to a sign of mathematics, behind a word that names or places symbols ("the
set S", "the answer is B"), or where it stood alone before, without a period, as no initial does.
Among other symbols it rather is one, too, unless names stand there ("a theorem of E. Noether"). A
small letter is no initial, but may abbreviate. Only a window of the text before it is read.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from segmenters.prose import word_lists
from segmenters.prose.endings.doubt import Doubt, Rule, Table, otherwise

# How far back other letters are searched, in characters.
_WINDOW = 400
_LONGEST_WORD = 24
# Signs next to which a letter is a symbol, and a relation between symbols.
_SIGN = re.compile(r"[=<>+*/|\\^$\u00d7\u2190-\u22ff\u27c0-\u2aff]|\d[\u00b0\u00ba]")
_RELATION = re.compile(r" [=<>+] |[\u2190-\u22ff\u27c0-\u2aff]")
_APART = re.compile(r"[\s(\[]([A-Za-z])(?=[\s,;:.)\]])")
_STOPS = (".", "!", "?")
_CHOOSING = word_lists.PLACING - word_lists.BINDING
_MARKING = word_lists.SYMBOLS | _CHOOSING
# Letters that are words in the languages of `BINDING`, of Slavic ones also, and at the start of a
# sentence.
_FEW_WORDS, _WORDS = frozenset("Iaioey"), frozenset("AIOEYaioeyuvwzks")
_PREPOSITIONS, _SLAVIC = frozenset("kosuvwz"), frozenset(("cs", "sk", "pl", "sl", "hr"))
_FIRST_WORDS = frozenset("AIOEYUVWZKSaioeyuvwzks")
# Small letters that hardly abbreviate: some of Latin, vowels that are words, and Greek ones.
_PLAIN = frozenset(
    "xyjwqi\u00e0\u00e1\u00e8\u00e9\u00ed\u00e5\u00f6\u00f8\u00fa\u044f\u0454\u044e\u0435"
    "\u03b1\u03b2\u03b3\u03b4\u03b5\u03b6\u03b8\u03bb\u03be\u03c1\u03c4\u03c6\u03c8\u03c9"
)
# The first letters of German abbreviations of two words: "z. B.", "v. Chr.".
_ABBREVIATED = frozenset(("zB", "uU", "iA", "oB", "vC", "nC", "iV", "iR", "dR", "uA"))
# In these, "i" or "o" is a word at an end.
_SAYING_I = frozenset(("tr", "no", "da", "sv"))
# An initial and a name; a capital or number within a sentence.
_NAMED = re.compile(r"(?<!\w)[A-Z]\. ?(?:[A-Z]\. ?)*([A-Z][a-z]+)")
_PROPER = re.compile(r"(?<=\s)[^\W\d_a-z]\w|\d")
# A number and the sign of a unit: "at 37 C. It", not "in 1990 K. Roe".
_MEASURED = re.compile(r"[+\u2212-]?\d{1,3}(?:[.,]\d+)?[CFKVW]")
COUNTED = re.compile(r".*\d|[IVXLC]+")


def _is_small_before_others(doubt: Doubt) -> bool:
    """Return whether a small letter is before what is neither a capital, a quote nor small."""
    return doubt.before.islower() and not doubt.following.islower() and not doubt.upper


def _is_abbreviation(doubt: Doubt) -> bool:
    codes = word_lists.SINGLE.get(doubt.before, ())
    if not (codes and doubt.following.isupper()) or COUNTED.fullmatch(doubt.bare_previous):
        return False
    return doubt.speaks(codes)


def _is_small_end(doubt: Doubt) -> bool:
    """Return whether a small letter and a period end a sentence before a capital."""
    letter, before = doubt.before, doubt.bare_previous
    if not (letter.islower() and doubt.upper):
        return False
    if COUNTED.fullmatch(before) or before in ("a.", "p."):
        return True  # a unit, or the year of Slavic languages, or "5 p. m."
    behind_word = letter.isascii() and before.isalpha() and before.islower()
    return behind_word or letter in _PLAIN


def _is_counted(word: str) -> bool:
    """Return whether a word is a number: "1600", "6to", "XII"."""
    return word[:1].isdigit() or COUNTED.fullmatch(word) is not None


def _is_measured(doubt: Doubt) -> bool:
    """Return whether a unit ends a sentence: "at 37 C. It", not "Roe v. Doe, 5 F. Supp. 2d"."""
    if not (
        doubt.upper and doubt.enough and _MEASURED.fullmatch(doubt.bare_previous + doubt.before)
    ):
        return False
    return doubt.before != "F" or not doubt.earlier[0].endswith(",")


def _joined(doubt: Doubt) -> str:
    """Return a letter with the one before it and its period."""
    before = doubt.bare_previous
    return (before + doubt.before).lower() if before[-1] == "." else ""


def _names_symbol(word: str) -> bool:
    return word in word_lists.SYMBOLS or word.lower() in word_lists.THINGS


def _is_named_symbol(doubt: Doubt) -> bool:
    before = doubt.bare_previous
    return _names_symbol(before) or _SIGN.search(before) is not None


def _is_answer(doubt: Doubt) -> bool:
    """Return whether a letter is what an answer is said to be, in any language."""
    if doubt.bare_previous not in word_lists.BEING:
        return False
    sentence = doubt.text[_sentence_start(doubt) : doubt.start]
    return not word_lists.ANSWERS.isdisjoint(sentence.lower().split())


def _is_chosen(doubt: Doubt) -> bool:
    """Return whether a letter is behind the first word of a sentence: "Choose B. Then"."""
    before = doubt.bare_previous
    first = doubt.start - 2 - len(before) <= doubt.last
    return first and before.lower() in _CHOOSING and before != "Mark"


def _may_be_initial(doubt: Doubt) -> bool:
    return doubt.before.isupper() or not doubt.upper


class Symbols(NamedTuple):
    """What stands before a letter. alone: whether it stood there without a period, as a symbol.

    others: other letters that did, and relations between symbols (" = ").
    """

    alone: bool
    others: set[str]


def _symbols(text: str, first: int, end: int, letter: str) -> Symbols:
    """Return the symbols in text[first:end] before a letter."""
    letters, relations = set[str](), {*_RELATION.findall(text, first, end)}
    for match in _APART.finditer(text, first, end):
        place, found_letter = match.start(), match[1]
        # One behind a full stop may be a word, and one before a period an initial.
        opens = found_letter in _FIRST_WORDS and text[place - 1 : place] in _STOPS
        if opens or text[match.end()] == ".":
            before = text[max(first, place - _LONGEST_WORD) : place].rpartition(" ")[2]
            if before.rstrip(":") not in _MARKING:
                continue
        letters.add(found_letter)
    others = (letters - _FEW_WORDS - {letter}) | relations
    return Symbols(letter in letters and (letter not in _WORDS or bool(others)), others)


def _is_one(word: str) -> bool:
    """Return whether a word is a letter that is no word."""
    return len(word) == 1 and word.isascii() and word.isalpha() and word not in _FEW_WORDS


class Before(NamedTuple):
    """The two words before a letter. binds: whether the nearer one is between symbols or names."""

    word: str
    earlier: str
    binds: bool

    @classmethod
    def of(cls, doubt: Doubt) -> Before:
        word, earlier = doubt.bare_previous.strip("([,;"), doubt.earlier
        preposition = word in _PREPOSITIONS and doubt.speaks(_SLAVIC)  # "spolu s J. Novakem"
        binds = preposition or word in word_lists.BINDING
        two = earlier[0].rpartition(" ")[2].strip("(,") if len(earlier) > 1 else ""
        return cls(word, two, binds)


def _is_behind_name(doubt: Doubt) -> bool:
    """Return whether a person rather follows: "work of J. Doe", "Roe and J. Doe"."""
    word, earlier, binds = Before.of(doubt)
    if not (binds and _may_be_initial(doubt)):
        return False
    if earlier[:1].isupper() and len(earlier) > 1 and earlier not in word_lists.SYMBOLS:
        return True
    if word == "in":  # "Theorem 2.1 in J. Doe"
        return earlier[:1].isdigit()
    return earlier in word_lists.NAMING and word not in word_lists.PLACING


def _is_beside_symbol(doubt: Doubt) -> bool:
    word, earlier, binds = Before.of(doubt)
    return _is_one(earlier) or earlier in word_lists.SYMBOLS if binds else _is_one(word)


def _is_placed(doubt: Doubt) -> bool:
    word, _, binds = Before.of(doubt)
    return word in word_lists.PLACING and not binds


def _symbols_before(doubt: Doubt) -> Symbols:
    """Return the symbols before a letter; what may be a word counts only behind a longer one."""
    word, _, binds = Before.of(doubt)
    first = max(0, doubt.start - _WINDOW)
    alone, others = _symbols(doubt.text, first, doubt.start - 1, doubt.before)
    return Symbols(alone, others if binds and len(word) > 1 else others - _WORDS)


def _is_stated(doubt: Doubt) -> bool:
    """Return whether a letter that no preposition binds is a symbol: "the answer is B"."""
    word, earlier, _ = Before.of(doubt)
    alone, others = _symbols_before(doubt)
    if alone:
        return True
    if word_lists.COPULAS.isdisjoint((word, earlier)):  # "is B", "is clearly B"
        return word.isalpha() and not all(map(str.isupper, others))
    sentence = doubt.text[_sentence_start(doubt) : doubt.start]
    stated = bool(others) or (earlier in ("it", "It") and sentence[-1].isupper())
    return stated or not word_lists.SYMBOLS.isdisjoint(sentence.lower().split())


def _is_without_name(doubt: Doubt) -> bool:
    """Return whether no person is named in the sentence before a letter."""
    if not _may_be_initial(doubt):
        return True
    names_before = _NAMED.finditer(doubt.text, _sentence_start(doubt), doubt.start)
    return all(name[1].lower() in word_lists.STARTERS for name in names_before)


def _is_placed_without_name(doubt: Doubt) -> bool:
    within = _sentence_start(doubt) + 1, doubt.start - 1
    return Before.of(doubt).word in word_lists.PLACING and not _PROPER.search(doubt.text, *within)


def _sentence_start(doubt: Doubt) -> int:
    """Return where the sentence of a letter starts, or the window before it."""
    return max(doubt.last, doubt.start - _WINDOW, 0)


# Of an ASCII letter behind a word in small letters.
BEHIND_SMALL_WORD: Table = (
    Rule("initial of a person", _is_behind_name, False),
    Rule("letter beside a symbol", _is_beside_symbol, True),  # "x B. So", "an element of S. So"
    Rule("letter in a place of symbols", _is_placed, True),
    Rule("letter that is stated", lambda d: not Before.of(d).binds, _is_stated),
    Rule("letter that stood alone before", lambda d: _symbols_before(d).alone, True),
    Rule(
        "letter among symbols or names",
        lambda d: bool(_symbols_before(d).others) or not _may_be_initial(d),
        _is_without_name,
    ),
    Rule("letter in a place of symbols and names", otherwise, _is_placed_without_name),
)


# A small letter is asked about where it may start a sentence, too.
LETTER: Table = (
    Rule(
        "letter of a script without capitals",
        lambda d: d.before.lower() == d.before.upper(),
        lambda d: d.before >= "\u1100" or d.before in word_lists.SYLLABLES,
    ),
    Rule("letter without a word before it", lambda d: not d.bare_previous, False),
    Rule(
        "pronoun",  # "you and I. Did", "Albert I. Jones"
        lambda d: d.before == "I",
        lambda d: (
            _is_named_symbol(d)  # "in phase I. It"
            or (d.bare_previous.islower() and d.bare_previous not in word_lists.BEFORE_ORDINAL)
        ),
    ),
    Rule(
        "German abbreviation of two words",
        lambda d: d.before + d.following in _ABBREVIATED and not d.speaks(_SAYING_I),
        lambda d: _symbols(d.text, max(0, d.start - _WINDOW), d.start - 1, d.before)[0],
    ),
    Rule(
        "before or after Christ",  # "700 a. C. en Roma", "en el siglo V d. C. Luego"
        lambda d: d.before in "ad" and d.following == "C" and _is_counted(d.bare_previous),
        False,
    ),
    Rule(
        "Christ", lambda d: d.before == "C" and d.bare_previous in ("a.", "d."), lambda d: d.upper
    ),
    Rule(
        "abbreviation with spaces, at an end",  # "itd." as "i t. d. Potem"
        lambda d: d.before.islower() and _joined(d) in word_lists.MAY_END,
        lambda d: d.upper,
    ),
    Rule(
        "small letter before a sign or number",
        _is_small_before_others,
        lambda d: d.following.isdigit() and d.before in _PLAIN and d.bare_previous[-1] != ".",
    ),
    Rule("letter that abbreviates in a language", _is_abbreviation, False),  # Czech "p. Dvorak"
    Rule("small letter", _is_small_end, True),
    Rule("letter that a word or sign makes a symbol", _is_named_symbol, True),
    Rule(
        "letter behind a colon",  # "Answer: A. Then"
        lambda d: d.previous[-1] == ":",
        lambda d: _names_symbol(d.bare_previous[:-1].lower()),
    ),
    Rule("letter that is chosen", _is_chosen, True),
    Rule("letter that answers", _is_answer, True),  # "Die Antwort ist B. Das"
    Rule(
        "letter behind a comma",  # "x, Y. So", "title, J. Smith"
        lambda d: d.previous[-1] == "," and _may_be_initial(d),
        lambda d: _is_one(d.bare_previous[:-1]),
    ),
    Rule(
        "initial behind a name or number",
        lambda d: not (d.before.isascii() and d.bare_previous.islower()),
        _is_measured,
    ),
    Rule("initial or symbol", otherwise, BEHIND_SMALL_WORD),
)
