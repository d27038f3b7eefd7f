"""The words of the sentence rules: words.txt by section, with the languages that have them."""

import unicodedata
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple


class Entry(NamedTuple):
    """A word in a line. is_foreign: it is a word of another language, too ("~" in the file)."""

    word: str
    language: str
    is_foreign: bool


def entries_of(lines: Iterable[str]) -> dict[str, list[Entry]]:
    """Return the entries of each section, in the order of the file."""
    entries: defaultdict[str, list[Entry]] = defaultdict(list)
    section = ""
    for line in lines:
        if line.startswith("["):
            section = line.strip("[]")
        else:
            language, *words = line.split()
            for word in words:
                # With letters and marks as one character each, or decomposed.
                forms = dict.fromkeys((word, unicodedata.normalize("NFD", word)))
                entries[section] += [Entry(f.lstrip("~"), language, f[0] == "~") for f in forms]
    return entries


_FILE = Path(__file__).with_name("words.txt").read_text(encoding="utf-8")
# The lines of words.txt without comments, on which all cuts depend.
LINES = tuple(line for line in _FILE.splitlines() if line and line[0] != "#")
_ENTRIES = entries_of(LINES)


def _list(section: str) -> frozenset[str]:
    return frozenset(entry.word for entry in _ENTRIES[section])


def _languages(*sections: str) -> dict[str, tuple[str, ...]]:
    """Return the languages that have each word."""
    languages: dict[str, tuple[str, ...]] = {}
    for section in sections:
        for entry in _ENTRIES[section]:
            languages[entry.word] = (*languages.get(entry.word, ()), entry.language)
    return languages


def _bound(section: str) -> dict[str, frozenset[str]]:
    """Return the words that count only in some languages, with these; others count in all."""
    free = {entry.word for entry in _ENTRIES[section] if not entry.is_foreign}
    words = _languages(section).items()
    return {word: frozenset(languages) for word, languages in words if word not in free}


# The words and letters that show each language, its code by its names, and its verbs of saying.
COMMON = _languages("common", "letter")
CODES = {name: entry.language for entry in _ENTRIES["language"] for name in entry[:2]}
SAYING = _languages("saying")
SINGLE = _languages("single")

BEFORE_NAME = _list("before")
BOUND_BEFORE, BOUND_END, BOUND_NUMBER = _bound("before"), _bound("end"), _bound("number")
MAY_END = _list("end") - (BEFORE_NAME - BOUND_BEFORE.keys())
BEFORE_NUMBER, BEFORE_ORDINAL = _list("number"), _list("ordinal")
AFTER = {word: _list(word) for word in ("al", "sig", "es", "med", "ex", "n\u00e1m")}
# Firms and states, and the capitals after them that rather start a sentence ("The", "It").
NAMED, STARTING = _list("named"), frozenset("BHITWY")
LABELS = _list("label")
AND_SO_ON, CLIPPED = _list("more"), _list("clipped")
EXCLAIMED, LETTERS = _list("exclaimed"), _list("letter")
SYMBOLS, PLACING, COPULAS = _list("symbol"), _list("placing"), _list("copula")
THINGS = _list("thing") | _list("answer")
ANSWERS, BEING = _list("answer"), COPULAS | _list("being")
CITED, SYLLABLES = _list("cited"), _list("syllable")
BINDING, NAMING = _list("binding"), _list("naming")
INITIALS = _list("initial")
ARTICLES = _list("article")
SHORT_WORDS, STARTERS = _list("short"), _list("starters")
