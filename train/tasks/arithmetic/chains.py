"""Arithmetic documents: worksheets of many chains, or one problem per document.

    ArithmeticChains      (7+5)*3 = 1*3 = 3      one per line: a training row holds many steps
    ArithmeticProblems    (7+5)*3=1*3=3          one per document, identified by its expression

The task of Feng et al. (arXiv 2305.15408), with which BiPE (arXiv 2401.16421) tests length
extrapolation. A document is a function of the seed and its number. A keyed hash of the expression
decides the split of a problem, whatever the seed and the mix, so training and test never overlap.
"""

import json
import random
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from train.data.reading.documents import Document, Part, Reader, part_size, ranges
from train.disk.files import write_whole
from train.errors import DataError
from train.tasks.arithmetic.problems import Order, Problems, require_prime, steps, tree

_LINE_BYTES = 25  # of a chain with spaces, roughly; used to divide the work
_PROBLEM_BYTES = 30


@dataclass(frozen=True, kw_only=True)
class _Numbered(Reader):
    """A fixed number of documents, each a function of `seed` and its number. modulus: a prime."""

    documents: int
    modulus: int = 11
    seed: int = 0
    kind: str = "proof"
    licence: str | None = "generated, free of rights"
    provenance: ClassVar[str] = "generated"

    def __post_init__(self) -> None:
        if self.documents < 1:
            raise DataError(f"documents must be at least 1, was: {self.documents}")
        require_prime(self.modulus)

    @abstractmethod
    def numbered(self, first: int, last: int) -> Iterator[Document]:
        """Yield the documents with numbers from `first` to `last` - 1."""

    def bytes_each(self) -> int:
        """Return the approximate size of one document."""
        return _PROBLEM_BYTES

    def read(self) -> Iterator[Document]:
        return self.numbered(0, self.documents)

    def parts(self) -> list[Part]:
        size = self.bytes_each()
        each = max(1, part_size(self.documents * size) // size)
        return [
            Part(where={"first": first, "last": last}, size=(last - first) * size)
            for first, last in ranges(self.documents, each=each)
        ]

    def read_part(self, part: Part) -> Iterator[Document]:
        return self.numbered(part.where["first"], part.where["last"])


@dataclass(frozen=True, kw_only=True)
class ArithmeticChains(_Numbered):
    """Worksheets. chains: lines per document. operators: fewest and most per expression."""

    chains: int
    operators: tuple[int, int] = (1, 4)

    def __post_init__(self) -> None:
        super().__post_init__()
        low, high = self.operators
        if not 0 <= low <= high:
            raise DataError(
                f"operators must be (fewest, most), both at least 0, was: {low}, {high}"
            )
        if self.chains < 1:
            raise DataError(f"chains must be at least 1, was: {self.chains}")

    def bytes_each(self) -> int:
        return self.chains * _LINE_BYTES

    def numbered(self, first: int, last: int) -> Iterator[Document]:
        for number in range(first, last):
            name = f"{self.seed}:{number}"
            draw = random.Random(name)
            trees = (
                tree(draw.randint(*self.operators), modulus=self.modulus, below=draw.randrange)
                for _ in range(self.chains)
            )
            text = "".join(" = ".join(steps(each)) + "\n" for each in trees)
            yield self.document(text, id=name, meta={"modulus": self.modulus})


@dataclass(frozen=True, kw_only=True)
class ArithmeticProblems(_Numbered):
    """The first `documents` problems of a mix (problems.py)."""

    operators: Mapping[int, float]
    order: Order = "leftmost"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.problems()  # checks the mix and the order

    def problems(self) -> Problems:
        return Problems(
            operators=self.operators, modulus=self.modulus, order=self.order, seed=self.seed
        )

    def numbered(self, first: int, last: int) -> Iterator[Document]:
        problems = self.problems()
        for number in range(first, last):
            problem = problems[number]
            meta = {"number": number, "operators": len(problem.steps) - 1}
            yield self.document(problem.text, id=problem.expression, meta=meta)


def write_problems(path: Path, reader: ArithmeticProblems) -> None:
    """Write one JSON object {text, id, operators} per line, for `corpus=jsonl` or others."""
    lines = (
        json.dumps({"text": each.text, "id": each.id, "operators": each.meta["operators"]})
        for each in reader
    )
    write_whole(path, "".join(line + "\n" for line in lines))
