"""What the tables say of a word, its signs and the character behind, before they read any further.

Most sentences end behind signs and words that decide alone. What the tables say of them is found
out once, with a doubt that knows nothing else, and kept; so are the rules that are left where one
asks for more: the rules above are not true, wherever the same word and signs are.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

from segmenters.prose.endings.doubt import WINDOW, Doubt, Signs, Table
from segmenters.prose.endings.language import ANY, code_of
from segmenters.prose.endings.table import ENDS
from segmenters.prose.endings.words import LONGEST_UNIT, always_ends, is_exclaimed, is_plain

GO_ON, END, ASK = range(3)
# So many words are kept for all signs together, and signs of so many characters.
_MOST, _LONGEST = 1 << 16, 32
# A word of which the tables say what they say of all plain ones.
_PLAIN = "sentence"
# More of the same sign or space than count.
_MANY = re.compile(r"(([.!?\s])\2\2)\2+")
# Characters that no rule tells apart before it asks for more, but for one "I", by one of them.
_ALIKE = {
    other: alike[0]
    for alike in ("SABCDEFGHJKLMNOPQRTUVWXYZ", string.ascii_lowercase, string.digits)
    for other in alike[1:]
}


class _Further(Exception):
    """A rule asked for more than a word and its signs."""


class _Near(Doubt):
    """A doubt that knows its signs, and that no bracket is open."""

    def __init__(self, signs: Signs, *, next_word: bool, language: str) -> None:
        self.run, self.gap, self.following, self.spaced, self.emoji, self.unmarked = signs
        self.next_word, self.language, self.is_inserted = next_word, language, False

    def behind(self, word: str) -> _Near:
        """Return the doubt that also knows a word, with a space if it is apart."""
        near = object.__new__(_Near)
        near.__dict__ |= self.__dict__
        near.before, near.behind_period = word[-1], "." in word[-2:]
        if word != " ":
            near.raw = word.rstrip()
        return near

    def __getattr__(self, name: str) -> Any:
        raise _Further


def _foreseen(doubt: _Near, table: Table) -> bool | Table:
    """Return whether the sentence ends, or the rules that are left."""
    for number, (_, when, ends) in enumerate(table):
        try:
            if when(doubt):
                if isinstance(ends, tuple):
                    return _foreseen(doubt, ends)
                return ends if isinstance(ends, bool) else ends(doubt)
        except _Further:
            return table[number:]
    raise AssertionError("the last rule is true of every doubt")


class _Plain(dict[str, bool]):
    """Of words before no small letter: whether the tables see no difference to plain ones."""

    def __missing__(self, word: str) -> bool:
        if len(self) > _MOST:
            self.clear()
        plain = self[word] = word[-1] != " " and always_ends(word) and not is_exclaimed(word)
        return plain


_plain = _Plain()


class Words(dict[str, "bool | Table"]):
    """What is foreseen of the words in front of some signs.

    `rest`: what is foreseen of the signs alone; `plain`: of plain words; `is_before_small`: whether
    a small letter, a comma or nothing between follows, so that other words are plain.
    """

    def __init__(self, signs: Signs, all_signs: Foresight) -> None:
        self.signs, self.all_signs = signs, all_signs
        self.near = _Near(signs, next_word=all_signs.next_word, language=all_signs.language)
        self.rest = self.plain = _foreseen(self.near, ENDS)
        if not isinstance(self.rest, bool):
            self.plain = _foreseen(self.near.behind(_PLAIN), self.rest)
        following = signs.following
        self.is_before_small = not signs.gap or following == "," or following.islower()

    def __missing__(self, word: str) -> bool | Table:
        if isinstance(self.rest, bool):
            return self.rest
        self.all_signs.make_room()
        if self._is_plain(word):
            ends = self.plain
        else:
            ends = _foreseen(self.near.behind("1" if word.isdigit() else word), self.rest)
        self[word] = ends
        return ends

    def _is_plain(self, word: str) -> bool:
        if not self.is_before_small:
            return _plain[word]
        if word[-1] == " " or "\u0531" <= word[-1] <= "\u0587":  # in Armenian, a pause
            return False
        if self.signs.run != "." and self.signs.following.islower():
            return word[0].islower()
        return len(word) > LONGEST_UNIT and is_plain(word)


class Foresight(dict[str, Words]):
    """What is foreseen of signs, with the white space and the character behind them, by word."""

    def __init__(self, *, next_word: bool, language: str) -> None:
        self.next_word, self.language, self.size = next_word, language, 0

    def __missing__(self, text: str) -> Words:
        if _MANY.search(text):
            words = self[_MANY.sub(r"\1", text)]
        elif alike := _ALIKE.get(text[-1]):
            words = self[text[:-1] + alike]
        else:
            run = text[:-1].rstrip()
            words = Words(Signs(run, text[len(run) : -1], text[-1]), self)
        if len(text) <= _LONGEST:
            self.make_room()
            self[text] = words
        return words

    def ends(self, signs: str, word: str) -> bool | Table:
        """Return whether a sentence ends at signs behind a word, or the rules that are left."""
        words = self[signs]
        return words.plain if not words.is_before_small and _plain[word] else words[word]

    def verdicts(self, text: str, starts: Iterable[int], places: Iterable[int]) -> Iterator[int]:
        """Yield what is foreseen of signs in a text, by where they start and what follows starts.

        They are right behind a word, and in no bracket.
        """
        for start, place in zip(starts, places, strict=True):
            word = text[start - WINDOW if start > WINDOW else 0 : start].rsplit(None, 1)[-1]
            ends = self.ends(text[start : place + 1], word)
            yield END if ends is True else GO_ON if ends is False else ASK

    def make_room(self) -> None:
        """Forget all before it is too much."""
        self.size += 1
        if self.size > _MOST:
            self.clear()
            self.size = 0


@cache
def foresight(next_word: bool, language: str) -> Foresight:
    """Return what is foreseen in texts of a language."""
    code = code_of(language)
    return Foresight(next_word=next_word, language=language if code == ANY else code)
