"""Arithmetic by chains of exact reductions, generated: ``(7+5)*3 = 1*3 = 3``.

The task of Feng et al. (arXiv 2305.15408), by which BiPE (arXiv 2401.16421) tests length
extrapolation: numbers modulo a prime, operators + - * /, brackets, and each step carries out one
operation. A document is a worksheet of many chains, one a line, so that a training row holds many
steps. Division is exact: its divisor is never 0, and a / b = a * b^-1 modulo the prime.
Expressions are as random as their trees, not uniform over strings.


Problems as documents: one chain a document, named by its expression.

The split of a document is a keyed hash of its name. So an expression is in one split for ever,
whatever the seed, the mix and the number of documents: training and test never overlap.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from train.data.reading.documents import Document, Part, Reader, part_size, ranges
from train.disk.files import write_whole
from train.errors import DataError
from train.tasks.arithmetic.expression import Node, is_prime, joined, reduce, reducible, spell
from train.tasks.arithmetic.problems import Order, Problems

_LINE_BYTES = 25  # of a chain with spaces, roughly, to divide the work by


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
        size = self.chains * _LINE_BYTES
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


_CHAIN_BYTES = 30  # of a document, roughly, to divide the work by


@dataclass(frozen=True, kw_only=True)
class ArithmeticProblems(Reader):
    """The first `documents` problems of a mix (problems.py)."""

    documents: int
    operators: Mapping[int, float]
    modulus: int = 11
    order: Order = "leftmost"
    seed: int = 0
    kind: str = "proof"
    licence: str | None = "generated, free of rights"
    provenance: ClassVar[str] = "generated"

    def __post_init__(self) -> None:
        if self.documents < 1:
            raise DataError(f"documents must be at least 1, was: {self.documents}")
        self.problems()

    def problems(self) -> Problems:
        """What the documents are drawn from."""
        return Problems(
            operators=self.operators, modulus=self.modulus, order=self.order, seed=self.seed
        )

    def read(self) -> Iterator[Document]:
        return self._numbered(0, self.documents)

    def parts(self) -> list[Part]:
        each = max(1, part_size(self.documents * _CHAIN_BYTES) // _CHAIN_BYTES)
        return [
            Part(where={"first": first, "last": last}, size=(last - first) * _CHAIN_BYTES)
            for first, last in ranges(self.documents, each=each)
        ]

    def read_part(self, part: Part) -> Iterator[Document]:
        return self._numbered(part.where["first"], part.where["last"])

    def _numbered(self, first: int, last: int) -> Iterator[Document]:
        problems = self.problems()
        for number in range(first, last):
            problem = problems[number]
            meta: dict[str, Any] = {"number": number, "operators": len(problem.steps) - 1}
            yield self.document(problem.text, id=problem.expression, meta=meta)


def write_problems(path: Path, reader: ArithmeticProblems) -> None:
    """Write the documents as JSON lines {text, id, operators}, for `corpus=jsonl` or others."""
    lines = (
        json.dumps({"text": each.text, "id": each.id, "operators": each.meta["operators"]})
        for each in reader
    )
    write_whole(path, "".join(line + "\n" for line in lines))
