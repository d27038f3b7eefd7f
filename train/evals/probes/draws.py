"""Draws that are the same on every machine and with every library version (SplitMix64)."""

import hashlib
import json
from collections.abc import Callable, Sequence
from typing import TypeVar

from segmenters.random_numbers import stream

T = TypeVar("T")

_WHOLE = 2**64
_PLAIN = (
    "river stone bread water house mother silver garden mountain window morning winter summer "
    "letter number table field horse iron gold paper light night city road tree fire king door "
    "ship voice heart hand tower bridge island forest valley castle village"
)
WORDS = _PLAIN.split()
_SYLLABLES = [c + v for c in "bdfgklmnprstvz" for v in "aeiou"]


class Draw:
    """A stream of random numbers and names that is a function of its key."""

    def __init__(self, *key: int | str) -> None:
        digest = hashlib.sha256(json.dumps(key).encode()).digest()
        self._bits = stream(int.from_bytes(digest[:8], "little"))

    def below(self, stop: int) -> int:
        """Return a number from 0 to `stop` - 1, all with the same probability."""
        if not 1 <= stop <= _WHOLE:
            raise ValueError(f"stop must be from 1 to 2**64, was: {stop}")
        limit = _WHOLE - _WHOLE % stop
        while (found := next(self._bits)) >= limit:
            pass
        return found % stop

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """Return the items in random order (Fisher and Yates)."""
        made = list(items)
        for last in range(len(made) - 1, 0, -1):
            other = self.below(last + 1)
            made[last], made[other] = made[other], made[last]
        return made

    def sample(self, items: Sequence[T], count: int) -> list[T]:
        """Return `count` different items, in the order drawn."""
        if count > len(items):
            raise ValueError(
                f"count must be at most the number of items ({len(items)}), was: {count}"
            )
        made = list(items)
        for place in range(count):
            other = place + self.below(len(made) - place)
            made[place], made[other] = made[other], made[place]
        return made[:count]

    def numbers(self, count: int, *, digits: int) -> list[str]:
        """Return different numbers of `digits` digits."""
        low = 10 ** (digits - 1)
        return _different(count, lambda: str(low + self.below(9 * low)))

    def letters(self, count: int, *, length: int, alphabet: str) -> list[str]:
        """Return different strings of `length` letters."""
        one = lambda: alphabet[self.below(len(alphabet))]  # noqa: E731
        return _different(count, lambda: "".join(one() for _ in range(length)))


def names(draw: Draw, count: int) -> list[str]:
    """Return different names for statements: two plain words with a hyphen."""
    return _different(count, lambda: "-".join(draw.sample(WORDS, 2)))


def made_up_words(draw: Draw, count: int) -> list[str]:
    """Return different words of three syllables."""
    return _different(count, lambda: "".join(draw.sample(_SYLLABLES, 3)))


def _different(count: int, draw: Callable[[], str]) -> list[str]:
    """Return the first `count` different results of a draw, in order."""
    found = dict[str, None]()
    while len(found) < count:
        found[draw()] = None
    return list(found)
