"""Problems as documents: one chain a document, named by its expression.

The split of a document is a keyed hash of its name. So an expression is in one split for ever,
whatever the seed, the mix and the number of documents: training and test never overlap.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from train.data.reading.documents import Document, Reader
from train.data.reading.parts import Part, part_size, ranges
from train.disk.files import write_whole
from train.errors import DataError
from train.tasks.arithmetic.problems import Order, Problems

_CHAIN_BYTES = 30  # roughly, to divide the work by


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
