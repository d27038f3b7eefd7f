"""Problems: numbered random expressions with each step to their answer.

Problem n is a function of (seed, n) only, on any machine and Python version: all draws are calls of
`random.Random(text).random()`, whose sequence (Mersenne Twister, seeded by SHA-512 of the text)
Python promises to keep. Trees are split at random, not uniformly over strings.
"""

import itertools
import math
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from train.data.reading.split import Split
from train.errors import DataError
from train.tasks.arithmetic.expression import (
    OPERATORS,
    Node,
    joined,
    reduce,
    reducible,
    require_prime,
    spell,
)

# Which operation is next: the leftmost possible, or a random one.
Order = Literal["leftmost", "random"]
ORDERS = ("leftmost", "random")
EQUALS = "="
_TRIES = 200  # most draws per wanted problem, before a split is taken to have no more


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """The expression and its successive reductions; the last step is the answer."""

    steps: tuple[str, ...]

    @property
    def expression(self) -> str:
        return self.steps[0]

    @property
    def answer(self) -> str:
        return self.steps[-1]

    @property
    def text(self) -> str:
        """The chain: ``(7+5)*3=1*3=3``."""
        return EQUALS.join(self.steps)


@dataclass(frozen=True, kw_only=True)
class Problems:
    """An endless list of problems. operators: weight of each number of operators (any scale)."""

    operators: Mapping[int, float]
    modulus: int = 11
    order: Order = "leftmost"
    seed: int = 0

    def __post_init__(self) -> None:
        check_mix(self.operators)
        require_prime(self.modulus)
        if self.order not in ORDERS:
            raise DataError(f"order must be {' or '.join(ORDERS)}, was: {self.order}")

    def __getitem__(self, number: int) -> Problem:
        """Return the problem with this number, counted from 0."""
        draw = random.Random(f"{self.seed}:{number}")

        def below(size: int) -> int:
            return int(draw.random() * size)

        node = tree(_pick(draw, self.operators), modulus=self.modulus, below=below)
        return Problem(steps=steps(node, below=below if self.order == "random" else None))

    def __iter__(self) -> Iterator[Problem]:
        return map(self.__getitem__, itertools.count())

    def held_out(self, count: int, *, split: Split, name: str) -> list[Problem]:
        """Return the first `count` different problems whose expression is in a split.

        Return fewer if the split has no more of so few operators. Raises DataError if it has none.
        """
        found: dict[str, Problem] = {}
        for problem in itertools.islice(self, _TRIES * count):
            if len(found) == count:
                break
            if split.of(problem.expression) == name:
                found.setdefault(problem.expression, problem)
        if not found:
            raise DataError(
                f"split {name} has no problem of {', '.join(map(str, self.operators))} operators "
                f"among {_TRIES * count}: give it a larger share, or ask for more operators"
            )
        return [*found.values()]


def check_mix(operators: Mapping[int, float]) -> None:
    """Raise DataError unless `operators` maps numbers of operators to weights, not all 0."""
    if not operators:
        raise DataError("operators must give a weight to some number of operators, was: {}")
    for count, weight in operators.items():
        if not isinstance(count, int) or isinstance(count, bool) or count < 0:
            raise DataError(f"operators must name numbers of operators from 0 up, was: {count!r}")
        if not (isinstance(weight, int | float) and 0 <= weight < math.inf):
            raise DataError(f"operators.{count} must be a weight from 0 up, was: {weight}")
    if not sum(operators.values()):
        raise DataError(f"operators must have a weight above 0, was: {dict(operators)}")


def tree(operators: int, *, modulus: int, below: Callable[[int], int]) -> Node:
    """Return a random expression. below: draws a number from 0 to its argument - 1."""
    if operators == 0:
        return Node(value=below(modulus))
    left_share = below(operators)
    left = tree(left_share, modulus=modulus, below=below)
    right = tree(operators - 1 - left_share, modulus=modulus, below=below)
    allowed = OPERATORS if right.value else OPERATORS.replace("/", "")
    return joined(allowed[below(len(allowed))], left, right, modulus=modulus)


def steps(node: Node, *, below: Callable[[int], int] | None = None) -> tuple[str, ...]:
    """Return the spellings of an expression and of its reductions; reduces `node` in place."""
    found = [spell(node)]
    while node.parts:
        ready = [*reducible(node)]
        reduce(ready[below(len(ready)) if below else 0])
        found.append(spell(node))
    return tuple(found)


def _pick(draw: random.Random, weights: Mapping[int, float]) -> int:
    """Draw a number of operators by weight, independent of the order of the mapping."""
    at = draw.random() * math.fsum(weights.values())
    counts = sorted(count for count, weight in weights.items() if weight)
    for count in counts:
        at -= weights[count]
        if at < 0:
            return count
    return counts[-1]
