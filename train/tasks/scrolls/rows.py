"""Rows of examples, of which the outputs alone are scored.

An example is a document of the store (prepared.py) and is never cut: rows are `single`, or pack
whole examples (`best_fit`), which do not see each other. Order, resuming, ranks and validation are
those of pre-training (train/data/rows).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from train.data.rows.datamodule import LMDataModule
from train.data.rows.packing import Row, Rows
from train.data.store.shards import DataSet
from train.errors import DataError
from train.tasks.scrolls.prepared import LEVELS, OUTPUT_LEVEL

PACKINGS = ("single", "best_fit")
_BLOCK = 1 << 24  # tokens looked at together


class ExampleRows(Rows):
    """The rows of one split of examples; `scored` is True where a token is of an output."""

    def __init__(self, *, data: DataSet, row_length: int, packing: str = "single") -> None:
        if packing not in PACKINGS:
            raise DataError(
                f"rows.packing must be {' or '.join(PACKINGS)}, since examples are not cut, was: "
                f"{packing}; rows=examples sets it"
            )
        super().__init__(data=data, row_length=row_length, packing=packing)
        self._begins, lengths = self.outputs(data)
        longest = int(np.diff(data.document_ends, prepend=0).max())
        if longest > row_length + 1:
            raise DataError(
                f"{data.folder}: row_length must hold the longest example, {longest} tokens, was: "
                f"{row_length}"
            )
        spans = [self.packed.spans(index)[:, 0] for index in range(len(self))]
        counts = [lengths[self._documents(starts)].sum() for starts in spans]
        self._targets = np.array(counts, np.int64)

    @staticmethod
    def outputs(data: DataSet) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Where what is scored of each document begins, and its tokens: int64 [documents] both."""
        return _outputs(data)

    def targets(self, index: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """Number of scored targets of each row: the tokens of its outputs."""
        return self._targets[np.asarray(index, np.int64)]

    def all_targets(self) -> int:
        """Number of scored targets of all rows."""
        return int(self._targets.sum())

    def row(self, index: int, *, part: int = 0, parts: int = 1) -> Row:
        """Read a row; raises DataError for a part of one, for examples are not cut."""
        if parts > 1:
            raise DataError("rows.curriculum must be null: examples are not cut into shorter rows")
        row = super().row(index)
        scored = np.zeros(len(row.tokens), np.bool_)
        spans, at = self.spans(index), 0
        begins = self._begins[self._documents(spans[:, 0])]
        for (start, stop), begin in zip(spans.tolist(), begins.tolist(), strict=True):
            scored[at + begin - start : at + stop - start] = True
            at += stop - start
        return dataclasses.replace(row, scored=scored)

    def read(self, indices: Sequence[int]) -> list[Row]:
        """Read rows, each as `row` does."""
        return [self.row(index) for index in indices]

    def _documents(self, starts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        return np.searchsorted(self.data.document_ends, starts, side="right")


class ExampleDataModule(LMDataModule):
    """Examples of a task for training and validation; see LMDataModule."""

    kind: ClassVar[type[ExampleRows]] = ExampleRows

    def rows(self, split: str) -> dict[str, Rows]:
        """The rows of every source in a split."""
        if self.split_documents != "restart":
            raise DataError(
                f"rows.split_documents must be restart, since examples are not cut, was: "
                f"{self.split_documents}"
            )
        return {
            name: self.kind(
                data=self.sets.open(name, split), row_length=self.row_length, packing=self.packing
            )
            for name in self.source_names
        }

    def check(self, *, steps: int) -> None:
        """Refuse what examples cannot do, and what `LMDataModule.check` refuses."""
        if len(self.curriculum.stages) > 1:
            raise DataError("rows.curriculum must be null: examples are not cut into shorter rows")
        super().check(steps=steps)


def _outputs(data: DataSet) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Where the output of each document begins, and its tokens: int64 [documents] both."""
    levels, size = int(data.manifest["levels"]), len(data.tokens)
    starts = [
        at + np.flatnonzero(data.starts(at, min(at + _BLOCK, size), level=OUTPUT_LEVEL))
        for at in range(0, size if levels == LEVELS else 0, _BLOCK)
    ]
    turns = np.concatenate(starts) if starts else np.empty(0, np.int64)
    begins = np.concatenate(([0], data.document_ends[:-1]))
    if len(turns) != 2 * len(data) or (turns[::2] != begins).any():
        raise DataError(
            f"{data.folder}: holds no examples of a prompt and an output; bipe scrolls prepares "
            "them, bipe pretrain trains on documents"
        )
    return turns[1::2], data.document_ends - turns[1::2]
