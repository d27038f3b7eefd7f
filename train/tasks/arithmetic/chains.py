"""Arithmetic by chains of exact reductions, generated: ``(7+5)*3 = 1*3 = 3``.

The task of Feng et al. (arXiv 2305.15408), by which BiPE (arXiv 2401.16421) tests length
extrapolation: numbers modulo a prime, operators + - * /, brackets, and each step carries out one
operation. A document is a worksheet of many chains, one a line, so that a training row holds many
steps. Division is exact: its divisor is never 0, and a / b = a * b^-1 modulo the prime.
Expressions are as random as their trees, not uniform over strings.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from train.data.reading.documents import Document, Reader
from train.data.reading.parts import Part, part_size, ranges
from train.errors import DataError
from train.tasks.arithmetic.expression import Node, is_prime, joined, reduce, reducible, spell

_CHAIN_BYTES = 25  # roughly, to divide the work by


@dataclass(frozen=True, kw_only=True)
class ArithmeticChains(Reader):
    """Worksheets of chains; each is a function of `seed` and its own number.

    documents, chains: number of worksheets, and of chains in each.
    operators: the fewest and the most operators of an expression.
    modulus: a prime.
    """

    documents: int
    chains: int
    operators: tuple[int, int] = (1, 4)
    seed: int = 0
    modulus: int = 11
    kind: str = "proof"
    licence: str | None = "generated, free of rights"
    provenance: ClassVar[str] = "generated"

    def __post_init__(self) -> None:
        low, high = self.operators
        if not 0 <= low <= high:
            raise DataError(f"operators must be (fewest, most) from 0 up, was: {low}, {high}")
        if not is_prime(self.modulus):
            raise DataError(f"modulus must be a prime, so that division works, was: {self.modulus}")
        for name in ("documents", "chains"):
            if getattr(self, name) < 1:
                raise DataError(f"{name} must be at least 1, was: {getattr(self, name)}")

    def read(self) -> Iterator[Document]:
        return self.worksheets(0, self.documents)

    def parts(self) -> list[Part]:
        size = self.chains * _CHAIN_BYTES
        each = max(1, part_size(self.documents * size) // size)
        return [
            Part(where={"first": first, "last": last}, size=(last - first) * size)
            for first, last in ranges(self.documents, each=each)
        ]

    def read_part(self, part: Part) -> Iterator[Document]:
        return self.worksheets(part.where["first"], part.where["last"])

    def worksheets(self, first: int, last: int) -> Iterator[Document]:
        """The worksheets of these numbers."""
        for number in range(first, last):
            draw = random.Random(f"{self.seed}:{number}")
            lines = (
                chain(draw, operators=draw.randint(*self.operators), modulus=self.modulus)
                for _ in range(self.chains)
            )
            meta: dict[str, Any] = {"modulus": self.modulus}
            yield self.document(
                "".join(line + "\n" for line in lines), id=f"{self.seed}:{number}", meta=meta
            )


def chain(draw: random.Random, *, operators: int, modulus: int) -> str:
    """An expression with that many operators, and every step to its value."""
    node = _tree(draw, operators, modulus)
    steps = [spell(node)]
    while node.parts:
        reduce(next(reducible(node)))
        steps.append(spell(node))
    return " = ".join(steps)


def _tree(draw: random.Random, operators: int, modulus: int) -> Node:
    if operators == 0:
        return Node(value=draw.randrange(modulus))
    left_share = draw.randrange(operators)
    left = _tree(draw, left_share, modulus)
    right = _tree(draw, operators - 1 - left_share, modulus)
    operator = draw.choice("+-*/" if right.value else "+-*")
    return joined(operator, left, right, modulus=modulus)
