"""A doubt (a place where a sentence may end), and the ordered tables of rules that decide it.

    Table    rules in order; the first whose `when` is true of the doubt decides
    Rule     name, when (Doubt -> bool), and ends: True, False, a further table, or Doubt -> bool

The last rule of a table is true of every doubt. What a rule asks is computed once per doubt, and
only if it is asked. Only a window of the text before the place is read, and its first visible
character; the next word by option.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple

from segmenters.asked import Asked
from segmenters.prose import signs
from segmenters.prose.endings import ahead
from segmenters.prose.endings.habits import Habits
from segmenters.prose.endings.language import ANY, languages

# How far back the word before a period is searched, in characters.
WINDOW = ahead.WINDOW
QUOTES = "\"'`*_\u2018\u201c\u201e\u00ab\u00bb"
OPENERS = QUOTES + "([{\u00bf\u00a1\u2014\u2013-" + signs.BULLETS
# More words than these before an abbreviation, or characters, are enough for a sentence.
_FEW_WORDS = 3
# Articles that lose their vowel in French and Italian: "l'art. 5".
_ELIDED = re.compile(r"(?:[dl]|\w{1,3}ll|un|qu)['\u2019](?=\w)", re.IGNORECASE)
_LONGEST_ARTICLE = 3
# Up to here are Latin, Greek, Cyrillic and Armenian.
_ALPHABETS = "\u0590"


class Signs(NamedTuple):
    """The signs of a candidate: its terminators with what closes behind them, and what follows.

    `gap`: the white space in front of the character `following`; `spaced`, `emoji`: quotes behind
    a space and emoji in between; `unmarked`: whether there is no terminator.
    """

    run: str
    gap: str
    following: str
    spaced: str = ""
    emoji: str = ""
    unmarked: bool = False


class Doubt:
    """What is around the signs of a candidate.

    `text`, `start`: the text, and where the signs start; `before`, `tail`: the character and the
    window before them; `place`: where the next sentence would start, with the character
    `following`; `last`: where the current one starts.
    `next_word`: whether the next word may be read; `habits`: how sentences begin in this text;
    `language`: a code, or ANY if only the text shows it.
    """

    def __init__(
        self,
        signs: Signs,
        text: str,
        start: int,
        place: int,
        last: int,
        *,
        next_word: bool,
        habits: Habits,
        language: str = ANY,
    ) -> None:
        self.run, self.gap, _, self.spaced, self.emoji, self.unmarked = signs
        self.following = text[place]
        self.text, self.start, self.place, self.last = text, start, place, last
        self.next_word, self.habits, self.language = next_word, habits, language
        self.before = text[start - 1 : start]
        self.tail = text[start - WINDOW : start] if start > WINDOW else text[:start]

    @property
    def apart(self) -> bool:
        """Return whether white space is before the signs, as in tokenised text, or nothing."""
        return not self.before or self.before.isspace()

    @Asked
    def attached(self) -> str:
        """Return the word before the signs, with what opens before it; empty if it is apart."""
        return "" if self.apart else self.raw

    @Asked
    def words(self) -> list[str]:
        """Return what is before the word, its last word apart; then the word with its openers."""
        return self.tail.rsplit(None, 2)

    @Asked
    def raw(self) -> str:
        """Return the word before the signs, with what opens before it; empty if there is none."""
        return self.words[-1] if self.words else ""

    @Asked
    def behind_period(self) -> bool:
        """Return whether a period is before the signs, or before the character before them."""
        return self.text.find(".", max(0, self.start - 2), self.start) >= 0

    @Asked
    def earlier(self) -> list[str]:
        return self.words[:-1]

    @Asked
    def previous(self) -> str:
        """Return the word before the word; empty if the window ends there."""
        return self.words[-2] if len(self.words) > 1 else ""

    @Asked
    def bare_previous(self) -> str:
        """Return the word before the word, without brackets that open."""
        return self.previous.lstrip("([")

    @Asked
    def word(self) -> str:
        """Return the word before the signs, without what opens before it and its article."""
        word = self.raw
        if not word[0].isalnum():
            word = word.lstrip(OPENERS)
        return without_article(word)

    @Asked
    def lower(self) -> str:
        return self.word.lower()

    @Asked
    def upper(self) -> bool:
        """Return whether the next character may start a sentence: a capital or a quote."""
        return self.following.isupper() or self.following in QUOTES

    @Asked
    def enough(self) -> bool:
        """Return whether enough was said for a sentence."""
        start, last = self.start, self.last
        return start - last > WINDOW or len(self.text[last:start].split()) > _FEW_WORDS

    @Asked
    def starts(self) -> bool | None:
        """Return whether the next word often starts a sentence; None: it is not read."""
        if not self.next_word:
            return None
        begins = self.upper or self.following.islower()
        return begins and ahead.starts_sentence(self.text, self.place)

    @Asked
    def is_inserted(self) -> bool:
        """Return whether the signs are in a bracket that is still open: "(cf. No. 5. It"."""
        return is_inserted(self.text, self.start, self.place, self.last)

    @Asked
    def small(self) -> int:
        """Return by how many small letters outnumber capitals at starts of sentences."""
        return self.habits.small(self.start)

    def speaks(self, codes: Collection[str]) -> bool:
        """Return whether the text is in one of these languages, as far as is known."""
        if self.language != ANY:
            return self.language in codes
        return not self.languages.isdisjoint(codes)

    @Asked
    def languages(self) -> frozenset[str]:
        """Return the languages that the text shows, without a capital word before the signs."""
        title = len(self.raw) if self.raw[:1].isupper() else 0
        return languages(self.text, self.start - title)

    def shows(self, pattern: re.Pattern[str]) -> bool:
        """Return whether the next word may be read, and fits the pattern."""
        return self.next_word and ahead.shows(pattern, self.text, self.place)


def without_article(word: str) -> str:
    """Return a word without an article that lost its vowel: "art" of "l'art"."""
    if len(word) > _LONGEST_ARTICLE and ("'" in word or "\u2019" in word):
        return _ELIDED.sub("", word, count=1)
    return word


def is_inserted(text: str, start: int, place: int, last: int) -> bool:
    """Return whether a bracket is open that the sentence did not begin with."""
    if text[place] >= _ALPHABETS:
        return False
    first = max(last + 1, start - 2 * WINDOW)
    for opener, closer in ("()", "[]"):
        opened = text.rfind(opener, first, start)
        if opened >= 0 and text[opened - 1].isspace() and text.find(closer, opened, place) < 0:
            return True
    return False


class Rule(NamedTuple):
    """One row of a table; `name` says what the rule sees."""

    name: str
    when: Callable[[Doubt], bool]
    ends: bool | tuple[Rule, ...] | Callable[[Doubt], bool]


Table = tuple[Rule, ...]


def otherwise(doubt: Doubt) -> bool:
    """Be true of every doubt: the last rule of a table."""
    return True


def ruling(doubt: Doubt, table: Table) -> tuple[str, bool]:
    """Return the name of the rule that decides, and whether the sentence ends."""
    for name, when, ends in table:
        if when(doubt):
            if ends is True or ends is False:
                return name, ends
            return ruling(doubt, ends) if isinstance(ends, tuple) else (name, ends(doubt))
    raise AssertionError(f"no rule is true of {doubt.text[doubt.last : doubt.place]!r}")


def names(table: Table) -> Iterator[str]:
    """Yield the names of the rules that decide, in order."""
    for rule in table:
        if isinstance(rule.ends, tuple):
            yield from names(rule.ends)
        else:
            yield rule.name


def is_blank_line(gap: str) -> bool:
    """Return whether white space holds a blank line or a separator of paragraphs."""
    return gap.count("\n") > 1 or "\u2029" in gap
