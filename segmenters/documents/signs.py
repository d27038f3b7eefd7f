"""Signs of kinds of text: patterns, and what a text must hold for each of them to match.

What must be there (`Need`) is known of all rows by one look at a text, many times as fast as their
patterns, of which most texts lack most.
"""

import re
from collections.abc import Callable
from functools import cached_property
from itertools import islice
from typing import Final, NamedTuple

_LINES = re.MULTILINE
# Characters that many texts lack.
_RARE: Final = "$\\<|[]{`#*=@+~_:(^'.-/>;%\""
_FIRST_WORD = re.compile(r"[ \t]*+([A-Za-z]++|[^\sA-Za-z]{1,4}+)")
_MOST_TIMES = 3  # that the signs of a format count


class Head:
    """The first characters of a text, and what is known of all of them by one look."""

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def chars(self) -> frozenset[str]:
        """Return which rare characters it has."""
        return frozenset(char for char in _RARE if char in self.text)

    @cached_property
    def rows(self) -> list[str]:
        """Return its lines, without their ends."""
        return self.text.split("\n")

    @cached_property
    def firsts(self) -> list[str]:
        """Return the first word of each line, or the signs in front of it; "" of a blank line."""
        return [match[1] if match else "" for match in map(_FIRST_WORD.match, self.rows)]

    @cached_property
    def words(self) -> frozenset[str]:
        """Return the first words of all lines."""
        return frozenset(self.firsts)

    @cached_property
    def capitals(self) -> frozenset[str]:
        """Return the first words of all lines in capitals."""
        return frozenset(map(str.upper, self.words))

    @cached_property
    def begins(self) -> frozenset[str]:
        """Return the characters with which the first words begin."""
        return frozenset(word[:1] for word in self.words)


Need = Callable[[Head], bool]


def has(signs: str) -> Need:
    """Return whether a text has one of some rare characters."""
    return lambda head: not head.chars.isdisjoint(signs)


def first_words(words: str) -> Need:
    """Return whether a line begins with one of some words."""
    members = frozenset(words.split())
    return lambda head: not head.words.isdisjoint(members)


def first_words_in_any_case(words: str) -> Need:
    members = frozenset(words.split())
    return lambda head: not head.capitals.isdisjoint(members)


def line_begins(signs: str) -> Need:
    """Return whether a line begins with one of some characters."""
    return lambda head: not head.begins.isdisjoint(signs)


def holds(*texts: str) -> Need:
    """Return whether a text holds one of some texts."""
    if len(texts) == 1:
        return lambda head: texts[0] in head.text
    return lambda head: any(text in head.text for text in texts)


def has_run(signs: str) -> Need:
    """Return whether a line below another begins with one of some characters four times."""
    runs = [(sign, f"\n{sign * 4}") for sign in signs]
    return lambda head: any(sign in head.chars and run in head.text for sign, run in runs)


def either(*needs: Need) -> Need:
    return lambda head: any(need(head) for need in needs)


def both(*needs: Need) -> Need:
    return lambda head: all(need(head) for need in needs)


def always(head: Head) -> bool:
    return True


class Sign(NamedTuple):
    """A row: its name, the kind that it means, and how often its pattern must match for that."""

    name: str
    kind: str
    times: int
    pattern: re.Pattern[str]
    needs: Need
    find: Callable[[str], re.Match[str] | None]  # the first match; of the start of a text at once

    def search(self, head: Head) -> str | None:
        """Return the first match, or None."""
        match = self.find(head.text) if self.needs(head) else None
        return match and match.group()

    def found(self, head: Head) -> str | None:
        """Return the first match if there are enough of them."""
        first = self.search(head)
        if first is None or self.times == 1:
            return first
        return first if self._count(head, self.times) == self.times else None

    def times_in(self, head: Head) -> int:
        """Return how often the pattern matches; more than a few times count as these."""
        return self._count(head, _MOST_TIMES) if self.needs(head) else 0

    def _count(self, head: Head, most: int) -> int:
        return sum(1 for _ in islice(self.pattern.finditer(head.text), most))


def sign(name: str, kind: str, times: int, pattern: str, needs: Need = always) -> Sign:
    compiled = re.compile(pattern, _LINES)
    anchored = pattern.removeprefix("(?i)").startswith(r"\A")
    find = compiled.match if anchored else compiled.search
    return Sign(name, kind, times, compiled, needs, find)
