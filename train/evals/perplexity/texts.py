"""The text that perplexity is measured on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from train.data.store.shards import DataSet
from train.data.store.windows import LongDocuments
from train.errors import DataError


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """Documents one after the other. tokens, marks: ``(time)``; ends: tokens up to each end."""

    tokens: np.ndarray
    marks: np.ndarray
    ends: np.ndarray

    @property
    def document(self) -> np.ndarray:
        """Index of the document of each token."""
        return np.repeat(np.arange(len(self.ends)), np.diff(self.ends, prepend=0))

    @property
    def place(self) -> np.ndarray:
        """Tokens of its document before each token."""
        starts = np.concatenate(([0], self.ends[:-1])).astype(np.int64)
        return np.arange(len(self.tokens)) - starts[self.document]


@dataclass(frozen=True, slots=True)
class Texts:
    """The beginnings of long documents. tokens, marks: ``(document, time)``; bytes: UTF-8."""

    tokens: np.ndarray
    marks: np.ndarray
    bytes: int

    @property
    def stream(self) -> Stream:
        """The same, one after the other."""
        count, size = self.tokens.shape
        ends = size * np.arange(1, count + 1)
        return Stream(tokens=self.tokens.reshape(-1), marks=self.marks.reshape(-1), ends=ends)


def long_documents(
    data: DataSet,
    *,
    longest: Sequence[int],
    limit: int,
    text: Callable[[np.ndarray], str],
) -> Texts:
    """Cut up to `limit` documents to the greatest of `longest` (tokens) that any reaches.

    text: decodes ids. Raises DataError if no document reaches even the smallest.
    """
    for length in sorted(longest, reverse=True):
        documents = LongDocuments(data, at_least=length, limit=limit)
        if len(documents):
            tokens, marks = documents.beginnings(length)
            size = sum(len(text(row).encode("utf-8", "surrogatepass")) for row in tokens)
            return Texts(tokens, marks, size)
    raise DataError(
        f"{data.folder}: no document has {min(longest)} tokens (row_length); evaluate on longer "
        f"documents, or train and evaluate with a smaller row_length"
    )
