"""Rows of chains that score the reduction alone: everything behind the first '='.

What stands before it was drawn at random, and no model can tell it. A chain is a document whose
first segment is the expression; it is never cut.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import numpy.typing as npt

from train.data.store.shards import DataSet
from train.tasks.scrolls.rows import ExampleDataModule, ExampleRows

_BLOCK = 1 << 24  # tokens looked at together


class ChainRows(ExampleRows):
    """The rows of one split of chains; `scored` is True behind the first segment of each."""

    @staticmethod
    def outputs(data: DataSet) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Where the second segment of each document begins, or the document ends."""
        size, ends = len(data.tokens), np.asarray(data.document_ends, np.int64)
        starts = [
            at + np.flatnonzero(data.starts(at, min(at + _BLOCK, size)))
            for at in range(0, size, _BLOCK)
        ]
        segments = np.concatenate((*starts, [size]))
        begins = np.concatenate(([0], ends[:-1]))
        second = np.minimum(segments[np.searchsorted(segments, begins, side="right")], ends)
        return second, ends - second


class ChainDataModule(ExampleDataModule):
    """Chains for training and validation; see LMDataModule."""

    kind: ClassVar[type[ExampleRows]] = ChainRows
