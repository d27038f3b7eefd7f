"""Whether a sentence ends behind a single letter: a symbol (x, the set S, answer B) or an initial.

A letter is a symbol next to a sign of mathematics, behind a word that names or places symbols ("the
set S", "the answer is B"), or where it stood alone before, without a period, as no initial does.
Among other symbols it rather is one, too, unless names stand there ("a theorem of E. Noether"). A
small letter is no initial, but may abbreviate. Only a window of the text before it is read.
"""

import re

from segmenters.prose import tables as lists

# How far back other letters are searched, in characters.
_WINDOW = 400
_LONGEST_WORD = 24
# Signs next to which a letter is a symbol, and a relation between symbols.
_SIGN = re.compile(r"[=<>+*/|\\^$\u00d7\u2190-\u22ff\u27c0-\u2aff]")
_RELATION = re.compile(r" [=<>+] |[\u2190-\u22ff\u27c0-\u2aff]")
_APART = re.compile(r"[\s(\[]([A-Za-z])(?=[\s,;:.)\]])")
_STOPS = (".", "!", "?")
_CHOOSING = lists.PLACING - lists.BINDING
_MARKING = lists.SYMBOLS | _CHOOSING
# Letters that are words in the languages of `BINDING`, of Slavic ones also, and at the start of a
# sentence.
_FEW_WORDS, _WORDS = frozenset("Iaioey"), frozenset("AIOEYaioeyuvwzks")
_FIRST_WORDS = frozenset("AIOEYUVWZKSaioeyuvwzks")
# Small letters that hardly abbreviate: some of Latin, vowels that are words, and Greek ones.
_PLAIN = frozenset(
    "xyjwqi\u00e0\u00e1\u00e8\u00e9\u00ed\u00e5\u00f6\u00f8\u00fa\u044f\u0454\u044e"
    "\u03b1\u03b2\u03b3\u03b4\u03b5\u03b6\u03b8\u03bb\u03be\u03c1\u03c4\u03c6\u03c8\u03c9"
)
# The first letters of German abbreviations of two words: "z. B.", "v. Chr.".
_ABBREVIATED = frozenset(("zB", "uU", "iA", "oB", "vC", "nC", "iV", "iR", "dR", "uA"))
# An initial and a name; a capital or number within a sentence.
_NAMED = re.compile(r"(?<!\w)[A-Z]\. ?(?:[A-Z]\. ?)*([A-Z][a-z]+)")
_PROPER = re.compile(r"(?<=\s)[^\W\d_a-z]\w|\d")
COUNTED = re.compile(r".*\d|[IVXLC]+")


def letter_ends(
    text: str, start: int, last: int, earlier: list[str], following: str, upper: bool
) -> bool:
    """Return whether the period at `start`, behind a letter, ends the sentence from `last` on.

    `earlier`: the words before the letter, of which the last is alone. `upper`: the character after
    the period, `following`, may start a sentence; a small one is asked about where it may, too.
    """
    letter, before = text[start - 1], earlier[-1].lstrip("([") if earlier else ""
    if letter.lower() == letter.upper():  # a script without capitals
        return letter >= "\u1100" or not before
    if not before:
        return False
    if letter == "I":  # the pronoun: "you and I. Did", "Albert I. Jones"
        return before.islower() and before not in lists.BEFORE_ORDINAL
    if letter + following in _ABBREVIATED:
        return _symbols(text, max(0, start - _WINDOW), start - 1, letter)[0]
    if letter.islower() and not following.islower():
        if not upper:
            return following.isdigit() and letter in _PLAIN
        if _small_ends(letter, before):
            return True
    if before in lists.SYMBOLS or _SIGN.search(before):
        return True
    if before[-1] == ":":  # "Answer: A. Then"
        return before[:-1].lower() in lists.SYMBOLS
    if start - 2 - len(before) <= last and before.lower() in _CHOOSING and before != "Mark":
        return True  # "Choose B. Then"
    initial = letter.isupper() or not upper
    if before[-1] == "," and initial:  # "x, Y. So", "title, J. Smith"
        return _is_one(before[:-1])
    listed = letter.isascii() and before.islower()
    return listed and _is_symbol(text, start, last, earlier, initial)


def _small_ends(letter: str, before: str) -> bool:
    """Return whether a small letter and a period end a sentence before a capital."""
    if COUNTED.fullmatch(before) or before in ("a.", "p."):
        return True  # a unit, or the year of Slavic languages, or "5 p. m."
    behind_word = letter.isascii() and before.isalpha() and before.islower()
    return behind_word or letter in _PLAIN


def _is_symbol(text: str, start: int, last: int, earlier: list[str], initial: bool) -> bool:
    """Return whether a letter behind a small word is a symbol; `initial`: it may be one."""
    letter, before = text[start - 1], earlier[-1].strip("([,;")
    two = earlier[0].rpartition(" ")[2].strip("(,") if len(earlier) > 1 else ""
    binding = before in lists.BINDING
    if binding and initial and _is_named(two, before):
        return False
    if _is_one(before) or (binding and (_is_one(two) or two in lists.SYMBOLS)):
        return True  # "A and B. So", "an element of S. So"
    placed = before in lists.PLACING
    if placed and not binding:
        return True
    first = max(0, start - _WINDOW)
    alone, others = _symbols(text, first, start - 1, letter)
    if not (binding and len(before) > 1):
        others -= _WORDS
    sentence = max(last, first)
    if alone or not binding:
        return alone or _is_stated(before, two, text[sentence:start], others)
    if others or not initial:
        named = _NAMED.finditer(text, sentence, start) if initial else ()
        return all(name[1].lower() in lists.STARTERS for name in named)
    return placed and not _PROPER.search(text, sentence + 1, start - 1)


def _symbols(text: str, first: int, end: int, letter: str) -> tuple[bool, set[str]]:
    """Return whether a letter is among the symbols of text[first:end], and the other ones in it."""
    found = {*_RELATION.findall(text, first, end)}
    for match in _APART.finditer(text, first, end):
        place, found_letter = match.start(), match[1]
        # One behind a full stop may be a word, and one before a period an initial.
        opens = found_letter in _FIRST_WORDS and text[place - 1 : place] in _STOPS
        if opens or text[match.end()] == ".":
            before = text[max(first, place - _LONGEST_WORD) : place].rpartition(" ")[2]
            if before.rstrip(":") not in _MARKING:
                continue
        found.add(found_letter)
    others = found - _FEW_WORDS - {letter}
    return letter in found and (letter not in _WORDS or bool(others)), others


def _is_stated(before: str, two: str, sentence: str, others: set[str]) -> bool:
    """Return whether a letter that no preposition binds is a symbol: "the answer is B"."""
    if lists.COPULAS.isdisjoint((before, two)):  # "is B", "is clearly B"
        return before.isalpha() and not all(map(str.isupper, others))
    known = bool(others) or (two in ("it", "It") and sentence[-1].isupper())
    return known or not lists.SYMBOLS.isdisjoint(sentence.lower().split())


def _is_one(word: str) -> bool:
    """Return whether a word is a letter that is no word."""
    return len(word) == 1 and word.isascii() and word.isalpha() and word not in _FEW_WORDS


def _is_named(word: str, binding: str) -> bool:
    """Return whether a name rather follows these two words: "work of J. Doe", "Roe and J. Doe"."""
    if word[:1].isupper() and len(word) > 1 and word not in lists.SYMBOLS:
        return True
    if binding == "in":  # "Theorem 2.1 in J. Doe"
        return word[:1].isdigit()
    return word in lists.NAMING and binding not in lists.PLACING
