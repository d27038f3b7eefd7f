"""Problems: numbered random expressions modulo a prime, with each step to their answer.

    (7+5)*3  ->  1*3  ->  3        modulo 11

Operators of equal precedence group to the left, and brackets appear only where they are needed, so
a spelling and its tree determine each other. a / b = a * b^-1, which does not exist for b = 0.

Problem n is a function of (seed, n) only: all draws are calls of `random.Random(text).random()`,
whose sequence Python promises to keep. Trees are split at random, not uniformly over strings.
"""

from __future__ import annotations

import ast
import itertools
import math
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from train.data.reading.split import Split
from train.errors import DataError

# Which operation is next: the leftmost possible, or a random one.
Order = Literal["leftmost", "random"]
ORDERS = get_args(Order)
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
                f"among {_TRIES * count}: use a larger share, or more operators"
            )
        return [*found.values()]


def check_mix(operators: Mapping[int, float]) -> None:
    """Raise DataError unless `operators` maps numbers of operators to weights, not all 0."""
    if not operators:
        raise DataError("operators must map numbers of operators to weights, was: {}")
    for count, weight in operators.items():
        if not isinstance(count, int) or isinstance(count, bool) or count < 0:
            raise DataError(f"keys of operators must be whole numbers from 0, was: {count!r}")
        if not (isinstance(weight, int | float) and 0 <= weight < math.inf):
            raise DataError(f"operators.{count} must be a weight of at least 0, was: {weight}")
    if not sum(operators.values()):
        raise DataError(f"operators must have at least one weight above 0, was: {dict(operators)}")


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


OPERATORS = "+-*/"
_LEVEL = {"+": 1, "-": 1, "*": 2, "/": 2}
_SIGNS: dict[type, str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}


@dataclass(slots=True, kw_only=True)
class Node:
    """A number, or an operator with two operands; value: from 0 to modulus - 1."""

    value: int
    operator: str = ""
    parts: list[Node] = field(default_factory=list)


def require_prime(modulus: int) -> None:
    """Raise DataError unless the modulus is a prime: only then can every number but 0 divide."""
    if modulus < 2 or not all(modulus % d for d in range(2, int(modulus**0.5) + 1)):
        raise DataError(f"modulus must be a prime, so that division works, was: {modulus}")


def joined(operator: str, left: Node, right: Node, *, modulus: int) -> Node:
    """Return the operation over two operands, with its value."""
    a, b = left.value, right.value
    if operator in "+-":
        value = a + b if operator == "+" else a - b
    else:
        value = a * (b if operator == "*" else pow(b, -1, modulus))
    return Node(value=value % modulus, operator=operator, parts=[left, right])


def reducible(node: Node) -> Iterator[Node]:
    """Yield the operations whose operands are both numbers, left to right."""
    if node.parts and not any(part.parts for part in node.parts):
        yield node
    for part in node.parts:
        yield from reducible(part)


def reduce(node: Node) -> None:
    """Replace an operation by its value, in place."""
    node.operator, node.parts = "", []


def spell(node: Node) -> str:
    """Return the expression as text, without spaces or needless brackets."""
    if not node.parts:
        return str(node.value)
    left, right = node.parts
    first, second, level = spell(left), spell(right), _LEVEL[node.operator]
    if left.parts and _LEVEL[left.operator] < level:
        first = f"({first})"
    if right.parts and _LEVEL[right.operator] <= level:
        second = f"({second})"
    return first + node.operator + second


def parse(text: str, *, modulus: int) -> Node:
    """Return the tree of an expression as `spell` writes it: Python groups and ranks likewise."""

    def of(part: ast.expr) -> Node:
        if isinstance(part, ast.BinOp):
            return joined(_SIGNS[type(part.op)], of(part.left), of(part.right), modulus=modulus)
        return Node(value=ast.literal_eval(part))

    return of(ast.parse(text, mode="eval").body)
