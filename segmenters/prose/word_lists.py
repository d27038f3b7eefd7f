"""The words of the sentence rules: words.txt by section, with the languages that have them."""

from collections import defaultdict
from pathlib import Path

# The words of each section, and the languages of those that are words of another language, too.
_LISTS: dict[str, set[str]] = {}
_BOUND: defaultdict[str, dict[str, frozenset[str]]] = defaultdict(dict)
# The words and letters that show each language, its code by its names, and its verbs of saying.
COMMON: dict[str, tuple[str, ...]] = {}
CODES: dict[str, str] = {}
SAYING: dict[str, frozenset[str]] = {}


def _read(section: str, language: str, *words: str) -> None:
    if section in ("common", "letter"):
        COMMON.update((word, (*COMMON.get(word, ()), language)) for word in words)
    elif section == "language":
        CODES.update(dict.fromkeys((language, *words), language))
    elif section == "saying":
        SAYING.update((word, SAYING.get(word, frozenset()) | {language}) for word in words)
    for word in words:
        bare = word.lstrip("~")
        free = bare in _LISTS.setdefault(section, set()) and bare not in _BOUND[section]
        _LISTS[section].add(bare)
        bound = _BOUND[section]
        if bare == word:
            bound.pop(bare, None)
        elif not free:
            bound[bare] = bound.get(bare, frozenset()) | {language}


_FILE = Path(__file__).with_name("words.txt").read_text(encoding="utf-8")
# The lines of words.txt without comments, on which all cuts depend.
LINES = tuple(line for line in _FILE.splitlines() if line and line[0] != "#")
for _line in LINES:
    if _line.startswith("["):
        _section = _line.strip("[]")
    else:
        _read(_section, *_line.split())


def _list(name: str) -> frozenset[str]:
    return frozenset(_LISTS[name])


BEFORE_NAME = _list("before")
BOUND_BEFORE, BOUND_END, BOUND_NUMBER = _BOUND["before"], _BOUND["end"], _BOUND["number"]
MAY_END = _list("end") - (BEFORE_NAME - BOUND_BEFORE.keys())
BEFORE_NUMBER, BEFORE_ORDINAL = _list("number"), _list("ordinal")
AFTER = {word: _list(word) for word in ("al", "sig", "es", "med")}
# Firms and states, and the capitals after them that rather start a sentence ("The", "It").
NAMED, STARTING = _list("named"), frozenset("BHITWY")
LABELS = _list("label")
AND_SO_ON, CLIPPED = _list("more"), _list("clipped")
EXCLAIMED, LETTERS = _list("exclaimed"), _list("letter")
SYMBOLS, PLACING, COPULAS = _list("symbol"), _list("placing"), _list("copula")
BINDING, NAMING = _list("binding"), _list("naming")
INITIALS = _list("initial")
SHORT_WORDS, STARTERS = _list("short"), _list("starters")
