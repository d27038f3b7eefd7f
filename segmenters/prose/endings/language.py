"""The language that a text shows: the one of which most words and letters are before a place.

Nothing is counted before a word asks that abbreviates in one language and is a word of its own in
another. So a text that changes is followed soon; what is still to come is never read.
"""

import re
from itertools import compress
from struct import Struct

from segmenters.prose import word_lists

# The code of any language, and how many characters before a place show which it is.
ANY, _WINDOW = "xx", 512
_WORD, _NAME = re.compile(r"\w+"), re.compile(r"[a-z]+")
# Small letters for capitals and white space for what is in no word: a third of the time of _WORD.
_IN_WORDS = (code if _WORD.match(chr(code)) else ord(" ") for code in range(128))
_ASCII_WORDS = bytes(_IN_WORDS).lower().ljust(256)
# The languages, and for each of their frequent words a number with a count of 16 bits per language:
# their sum counts all at once, which takes a third of the time of a Counter.
_LANGUAGES = sorted({language for codes in word_lists.COMMON.values() for language in codes})
_ALONE = [frozenset([language]) for language in _LANGUAGES]
_COUNT = {
    word: sum(1 << (16 * _LANGUAGES.index(language)) for language in codes)
    for word, codes in word_lists.COMMON.items()
}
_COUNTS = Struct(f"<{len(_LANGUAGES)}H")


def languages(text: str, place: int) -> frozenset[str]:
    """Return the codes of the languages that the text before a place shows, most alike; or none.

    It shows none until it has a frequent word or a letter of one.
    """
    before = text[max(0, place - _WINDOW) : place]
    if before.isascii():
        words = before.encode().translate(_ASCII_WORDS).decode().split()
    else:
        before = before.lower()
        words = [*_WORD.findall(before), *({*before} & word_lists.LETTERS)]
    total = sum(filter(None, map(_COUNT.get, words)))
    if not total:
        return frozenset()
    counts = _COUNTS.unpack(total.to_bytes(_COUNTS.size, "little"))
    most = max(counts)
    if counts.count(most) == 1:  # the rest takes as long as all sums
        return _ALONE[counts.index(most)]
    return frozenset(compress(_LANGUAGES, map(most.__eq__, counts)))


def code_of(name: str | None) -> str:
    """Return the code of a language by what data sets call it ("deu_Latn", "German"), or ANY."""
    match = _NAME.match((name or "").strip().lower())
    return word_lists.CODES.get(match[0], ANY) if match else ANY
