"""What synthetic tasks share: examples that are functions of a seed, and splits that never overlap.

A unit (a book, a file, a made-up document) belongs to one split alone. Where units are few and
known they are shuffled and shared out; where they are made up without end, a hash of the unit says
whose it is. The draws are those of `random.Random` seeded by text, the same on every machine.
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
_TRIES = 1000  # draws in a row that give nothing new, before there is nothing new


@dataclass(frozen=True, slots=True, kw_only=True)
class Synthetic(Task):
    """A task that is made, not read. train, validation, test: numbers of examples."""

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
    def drawn(self, split: str) -> Iterator[Unprompted]:
        """Yield examples of a split in a fixed order, until there are no more."""

    def examples(self, split: str) -> Sequence[Example]:
        """See `Task.examples`; DataError if the settings allow fewer than were asked for."""
        if split not in SPLITS:
            raise DataError(f"split must be one of {', '.join(SPLITS)}, was: {split}")
        wanted, prompt = getattr(self, split), self.template(*_NEEDS)
        made = list(islice(self.drawn(split), wanted))
        if len(made) < wanted:
            raise DataError(
                f"task {self.name}: {split} must be at most {len(made)} with these settings, since "
                f"no two examples are alike, was: {wanted}"
            )
        return Examples(groups=[[one] for one in made], prompt=prompt)

    def draws(self, *what: object) -> random.Random:
        """Return the draws for one purpose, named by `what`."""
        return random.Random(":".join(map(str, (self.name, self.seed, *what))))

    def shared_out(self, units: Sequence[Unit], split: str) -> list[Unit]:
        """Return the units of a split, shuffled; each split has one where there are three."""
        shuffled = list(units)
        self.draws("split").shuffle(shuffled)
        held = max(1, len(shuffled) // len(_OF_TEN))
        bounds = {"test": (0, held), "validation": (held, 2 * held), "train": (2 * held, None)}
        return shuffled[slice(*bounds[split])]

    def without_end(self, split: str) -> Iterator[Unprompted]:
        """Make up units again and again, and an example of each that is new and of this split."""
        seen: set[bytes] = set()
        number = failed = 0
        while failed < _TRIES:
            draw = self.draws(split, number)
            unit = self.unit(draw)
            digest = hashlib.sha256(f"{self.seed}:{unit}".encode()).digest()
            tenth = int.from_bytes(digest[:8], "big") % len(_OF_TEN)
            if digest in seen or _OF_TEN[tenth] != split:
                failed += 1
            else:
                seen.add(digest)
                failed = 0
                yield self.made_up(unit, draw, id=f"{split}-{number}")
            number += 1

    def unit(self, draw: random.Random) -> tuple[Any, ...]:
        """Draw what decides the split of an example, as plain values."""
        raise NotImplementedError

    def made_up(self, unit: Any, draw: random.Random, *, id: str) -> Unprompted:
        """Return the example of a unit."""
        raise NotImplementedError


def window(
    lengths: Sequence[int], at: int, *, characters: int | None, draw: random.Random
) -> tuple[int, int]:
    """First and last + 1 of neighbouring pieces with piece `at` among them, at random.

    lengths: of the pieces, in characters; together they are at most `characters`, or all pieces.
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
        side = draw.choice(sides)
        room -= lengths[side]
        first, last = min(first, side), max(last, side + 1)


def within(pieces: Sequence[str], at: int, *, characters: int | None, draw: random.Random) -> str:
    """Return the text of the window around piece `at`, without line ends at its ends."""
    sizes = [len(piece) for piece in pieces]
    first, last = window(sizes, at, characters=characters, draw=draw)
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
