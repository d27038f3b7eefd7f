"""Base of the synthetic tasks: examples are functions of a seed, and splits never overlap.

A unit (a book, a file, a made-up document) belongs to exactly one split. Known units are shuffled
and divided; for made-up units, a hash decides. Draws are the same on each machine.
"""

import hashlib
import random
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar

from train.errors import DataError
from train.tasks.scrolls.examples import SPLITS, Example, Examples, Task, Unprompted

Unit = TypeVar("Unit")
_NEEDS = ("question", "document")
_OF_TEN = ["train"] * 8 + ["validation", "test"]  # the split of each tenth of the units
_TRIES = 1000  # draws in a row without a new unit, after which there are no more


@dataclass(frozen=True, slots=True, kw_only=True)
class Synthetic(Task):
    """A task that is generated, not read. train, validation, test: numbers of examples."""

    seed: int
    train: int
    validation: int
    test: int

    def __post_init__(self) -> None:
        self.template(*_NEEDS)
        for split in SPLITS:
            if getattr(self, split) < 1:
                raise DataError(f"task {self.name}: {split} must be at least 1 example")

    @abstractmethod
    def generated(self, split: str) -> Iterator[Unprompted]:
        """Yield the examples of a split in a fixed order, until there are no more."""

    def examples(self, split: str) -> Sequence[Example]:
        """Generate the examples (`Task.examples`); DataError if the settings allow too few."""
        if split not in SPLITS:
            raise DataError(f"split must be one of {', '.join(SPLITS)}, was: {split}")
        wanted, prompt = getattr(self, split), self.template(*_NEEDS)
        drawn = list(islice(self.generated(split), wanted))
        if len(drawn) < wanted:
            raise DataError(
                f"task {self.name}: {split} must be at most {len(drawn)} with these settings, "
                f"since examples must differ, was: {wanted}"
            )
        return Examples(groups=[[example] for example in drawn], prompt=prompt)

    def generator(self, *what: object) -> random.Random:
        """Return a random generator for one purpose, named by `what`."""
        return random.Random(":".join(map(str, (self.name, self.seed, *what))))

    def share_of(self, units: Sequence[Unit], split: str) -> list[Unit]:
        """Return the units of a split, shuffled; with at least three units no split is empty."""
        shuffled = list(units)
        self.generator("split").shuffle(shuffled)
        tenth = max(1, len(shuffled) // len(_OF_TEN))
        bounds = {"test": (0, tenth), "validation": (tenth, 2 * tenth), "train": (2 * tenth, None)}
        return shuffled[slice(*bounds[split])]

    def made_up_examples(self, split: str) -> Iterator[Unprompted]:
        """Yield examples of made-up units, each new and of this split, until no more are found."""
        seen: set[bytes] = set()
        number = failed = 0
        while failed < _TRIES:
            rng = self.generator(split, number)
            unit = self.draw_unit(rng)
            digest = hashlib.sha256(f"{self.seed}:{unit}".encode()).digest()
            tenth = int.from_bytes(digest[:8], "big") % len(_OF_TEN)
            if digest in seen or _OF_TEN[tenth] != split:
                failed += 1
            else:
                seen.add(digest)
                failed = 0
                yield self.example_of(unit, rng, id=f"{split}-{number}")
            number += 1

    def draw_unit(self, rng: random.Random) -> tuple[Any, ...]:
        """Draw the plain values that decide the split of an example."""
        raise NotImplementedError

    def example_of(self, unit: Any, rng: random.Random, *, id: str) -> Unprompted:
        """Return the example of a unit."""
        raise NotImplementedError


def window(
    lengths: Sequence[int], at: int, *, characters: int | None, rng: random.Random
) -> tuple[int, int]:
    """Return a random range (first, last + 1) of neighbouring pieces that contains piece `at`.

    lengths: in characters. The range has at most `characters`, unless piece `at` alone has more.
    """
    if characters is None:
        return 0, len(lengths)
    first, last, room = at, at + 1, characters - lengths[at]
    while True:
        sides = []
        if first > 0 and lengths[first - 1] <= room:
            sides.append(first - 1)
        if last < len(lengths) and lengths[last] <= room:
            sides.append(last)
        if not sides:
            return first, last
        side = rng.choice(sides)
        room -= lengths[side]
        first, last = min(first, side), max(last, side + 1)


def within(pieces: Sequence[str], at: int, *, characters: int | None, rng: random.Random) -> str:
    """Return the text of a `window` of the pieces, without line ends at either end."""
    sizes = [len(piece) for piece in pieces]
    first, last = window(sizes, at, characters=characters, rng=rng)
    return "".join(pieces[first:last]).strip("\n")


def word(number: int) -> str:
    """Return a made-up word for each number, the short ones first: ba, be, bi, ...

    >>> [word(0), word(1), word(75), word(76)]
    ['ba', 'be', 'baba', 'babe']
    """
    consonants, vowels = "bdfghklmnprstvz", "aeiou"
    syllables = [c + v for c in consonants for v in vowels]
    spelled = ""
    number += 1
    while number:
        number, at = divmod(number - 1, len(syllables))
        spelled = syllables[at] + spelled
    return spelled
