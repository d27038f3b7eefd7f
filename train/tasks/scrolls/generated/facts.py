"""Facts to look up: "ba is 7. fo is 2." and the question "What is fo?", made up without end.

The smallest task there is: with one fact it is copying, which a tiny model learns from scratch in
minutes on two cores; with more it is retrieval by a key.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from train.errors import DataError
from train.tasks.scrolls.example import Metric
from train.tasks.scrolls.generated.base import Drawn, Generated, word


@dataclass(frozen=True, slots=True, kw_only=True)
class FactLookup(Generated):
    """Each key stands once in a document; the answer is the number beside it.

    facts: sentences of a document. keys: different names. values: different numbers.
    """

    facts: int
    keys: int
    values: int
    metric: ClassVar[Metric] = "exact_match"

    def __post_init__(self) -> None:
        Generated.__post_init__(self)
        if not 1 <= self.facts <= self.keys or self.values < 2:
            raise DataError(
                f"task {self.name}: facts must be from 1 to keys and values at least 2, were: "
                f"facts {self.facts}, keys {self.keys}, values {self.values}"
            )

    def drawn(self, split: str) -> Iterator[Drawn]:
        return self.without_end(split)

    def unit(self, draw: random.Random) -> tuple[tuple[int, int], ...]:
        """The keys of a document with their values."""
        keys = draw.sample(range(self.keys), self.facts)
        return tuple((key, draw.randrange(self.values)) for key in keys)

    def made_up(self, unit: tuple[tuple[int, int], ...], draw: random.Random, *, id: str) -> Drawn:
        key, value = draw.choice(unit)
        return Drawn(
            id=id,
            question=f"What is {word(key)}?",
            document=" ".join(f"{word(key)} is {value}." for key, value in unit),
            output=str(value),
        )
