"""Signs of kinds of text: patterns, and what a text must hold for each of them to match.

What must be there (`Need`) is known of all rows by one look at a text, many times as fast as their
patterns, of which most texts lack most.
"""

import re
from collections.abc import Callable, Iterator
from itertools import chain, islice
from typing import Final, NamedTuple

from segmenters.asked import Asked

_LINES = re.MULTILINE
# Characters that many texts lack.
_RARE: Final = "$\\<|[]{`#*=@+~_:(^'.-/>;%\""
_FIRST_WORD = re.compile(r"[ \t]*+([A-Za-z]++|[^\sA-Za-z]{1,4}+)")
_MOST_TIMES = 3  # that the signs of a format count


class Head:
    """The first characters of a text, and what is known of all of them by one look."""

    def __init__(self, text: str) -> None:
        self.text = text

    @Asked
    def chars(self) -> frozenset[str]:
        """Return which rare characters it has."""
        text = self.text
        return frozenset([char for char in _RARE if char in text])

    @Asked
    def rows(self) -> list[str]:
        """Return its lines, without their ends."""
        return self.text.split("\n")

    @Asked
    def firsts(self) -> list[str]:
        """Return the first word of each line, or the signs in front of it; "" of a blank line."""
        return [match[1] if match else "" for match in map(_FIRST_WORD.match, self.rows)]

    @Asked
    def words(self) -> frozenset[str]:
        """Return the first words of all lines."""
        return frozenset(self.firsts)

    @Asked
    def capitals(self) -> frozenset[str]:
        """Return the first words of all lines in capitals."""
        return frozenset(map(str.upper, self.words))

    @Asked
    def begins(self) -> frozenset[str]:
        """Return the characters with which the first words begin."""
        return frozenset([word[:1] for word in self.words])


class Need(NamedTuple):
    """What a text must hold for a pattern to match: at least one of these."""

    chars: frozenset[str] = frozenset()  # rare ones
    texts: tuple[tuple[str, str], ...] = ()  # a rare character of each, "" for none, and the text
    words: frozenset[str] = frozenset()  # with which lines begin
    capitals: frozenset[str] = frozenset()  # words, in any case
    begins: frozenset[str] = frozenset()  # characters

    def __call__(self, head: Head) -> bool:
        """Return whether a text holds one."""
        chars = head.chars
        if not chars.isdisjoint(self.chars):
            return True
        for sign, text in self.texts:
            if (not sign or sign in chars) and text in head.text:
                return True
        return not (
            head.words.isdisjoint(self.words)
            and head.begins.isdisjoint(self.begins)
            and (not self.capitals or head.capitals.isdisjoint(self.capitals))
        )


ALWAYS: Final = Need()  # of patterns that match at the start of a text, where that costs little


def has(signs: str) -> Need:
    """Return the need of one of some rare characters."""
    return Need(chars=frozenset(signs))


def first_words(words: str) -> Need:
    """Return the need of a line that begins with one of some words."""
    return Need(words=frozenset(words.split()))


def first_words_in_any_case(words: str) -> Need:
    return Need(capitals=frozenset(words.split()))


def line_begins(signs: str) -> Need:
    """Return the need of a line that begins with one of some characters."""
    return Need(begins=frozenset(signs))


def holds(*texts: str) -> Need:
    return Need(texts=tuple((next(filter(text.count, _RARE), ""), text) for text in texts))


def either(*needs: Need) -> Need:
    """Return the need of what any of some needs asks for."""
    chars, texts, *others = zip(*needs, strict=True)
    every = frozenset().union(*chars)
    rest = tuple(row for row in dict.fromkeys(chain(*texts)) if every.isdisjoint(row[1]))
    return Need(every, rest, *(frozenset().union(*each) for each in others))


class Sign(NamedTuple):
    """A row: its name, the kind that it means, and how often its pattern must match for that."""

    name: str
    kind: str
    times: int
    pattern: re.Pattern[str]
    needs: Need
    find: Callable[[str], re.Match[str] | None]  # the first match; of the start of a text at once

    def may_match(self, head: Head) -> bool:
        return self.needs is ALWAYS or self.needs(head)

    def search(self, head: Head) -> str | None:
        """Return the first match, or None."""
        match = self.find(head.text) if self.may_match(head) else None
        return match and match.group()

    def found(self, head: Head) -> str | None:
        """Return the first match if there are enough of them."""
        first = self.search(head)
        if first is None or self.times == 1:
            return first
        return first if self._count(head, self.times) == self.times else None

    def times_in(self, head: Head) -> int:
        """Return how often the pattern matches; more than a few times count as these."""
        return self._count(head, _MOST_TIMES) if self.may_match(head) else 0

    def _count(self, head: Head, most: int) -> int:
        return sum(1 for _ in islice(self.pattern.finditer(head.text), most))


class Signs:
    """Signs of which most texts have none, which one look tells."""

    def __init__(self, *rows: Sign) -> None:
        self.rows = rows
        self.needs = either(*(row.needs for row in rows))
        # An option of a pattern is for that one only.
        at_start = (row.pattern.pattern for row in rows if row.needs is ALWAYS)
        groups = (f"(?i:{each[4:]})" if each[:4] == "(?i)" else each for each in at_start)
        self.at_start = re.compile("|".join(groups) or "(?!)", _LINES)

    def __iter__(self) -> Iterator[Sign]:
        return iter(self.rows)

    def may_match(self, head: Head) -> bool:
        """Return False only if no sign matches."""
        return self.needs(head) or self.at_start.match(head.text) is not None


def sign(name: str, kind: str, times: int, pattern: str, needs: Need = ALWAYS) -> Sign:
    compiled = re.compile(pattern, _LINES)
    anchored = pattern.removeprefix("(?i)").startswith(r"\A")
    find = compiled.match if anchored else compiled.search
    return Sign(name, kind, times, compiled, needs, find)
