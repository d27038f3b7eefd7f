"""Whole long documents in a fixed order: what is held out for measuring length.

Documents that are long enough are taken as they come in the file, each from its first token, so
that two models, or one model at two lengths, read the same text. Reading is by chunks of mapped
memory, whatever the length of a document.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from train.data.store.shards import DataSet
from train.errors import DataError


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Some tokens of a document, in one piece.

    document: its index in the data set. start: tokens of the document before the chunk.
    tokens: int64 [tokens]. marks: uint8 [tokens]; the first of a document starts it, no other.
    last: whether the document ends here.
    """

    document: int
    start: int
    tokens: npt.NDArray[np.int64]
    marks: npt.NDArray[np.uint8]
    last: bool


class LongDocuments:
    """The documents of a split with at least `at_least` tokens, up to `limit` of them."""

    def __init__(self, data: DataSet, *, at_least: int, limit: int | None = None) -> None:
        if at_least < 1:
            raise DataError(f"at_least must be at least 1 token, was: {at_least}")
        self.data = data
        self.lengths = np.diff(data.document_ends, prepend=0)
        self.documents = np.flatnonzero(self.lengths >= at_least)[:limit]
        self.lengths = self.lengths[self.documents]

    def __len__(self) -> int:
        """Number of documents."""
        return len(self.documents)

    def beginnings(self, length: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
        """The first `length` tokens of each and their marks: [documents, length] both."""
        starts = [self.data.span(index)[0] for index in self.documents.tolist()]
        tokens = [self.data.tokens[at : at + length].astype(np.int64) for at in starts]
        return np.stack(tokens), np.stack([self.data.marks(at, at + length) for at in starts])

    def chunks(self, size: int) -> Iterator[Chunk]:
        """All tokens of all of them, `size` at most at once, documents one after the other."""
        if size < 1:
            raise DataError(f"a chunk must have at least 1 token, was: {size}")
        for index in self.documents.tolist():
            begin, end = self.data.span(index)
            for start in range(begin, end, size):
                stop = min(start + size, end)
                yield Chunk(
                    document=index,
                    start=start - begin,
                    tokens=self.data.tokens[start:stop].astype(np.int64),
                    marks=self.data.marks(start, stop),
                    last=stop == end,
                )
