"""Texts as ids, and the marks of ids by the rules of a segmenter, whatever they spell.

Trials are put together from ids, so that their lengths are exact. What they spell is then cut as
any text is, so that statements and questions have the segments that the rules of the data give
them, and no others.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from segmenters import Segmenter, TokenMarker, anchors_from_offsets, mark
from train.data.tokenizing.tokenizers import Tokenizer
from train.evals.spelled import spelled


class Texts:
    """A tokenizer and a segmenter, as probes use them."""

    def __init__(self, *, tokenizer: Tokenizer, segmenter: Segmenter) -> None:
        self.tokenizer, self.segmenter = tokenizer, segmenter
        self.pieces = tokenizer.pieces()
        self._sizes = np.array([len(piece) for piece in self.pieces], dtype=np.int64)
        self._marker = _followed(segmenter, self.pieces)
        self.telling = np.flatnonzero(self._sizes)  # ids that stand for some text

    def encode(self, texts: Sequence[str]) -> list[np.ndarray]:
        """Ids of each text, int64 [tokens]."""
        return [ids.astype(np.int64) for ids, _ in self.tokenizer.encode_batch(texts)]

    def count(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text."""
        return [len(ids) for ids in self.encode(texts)]

    def answers(self, question: str, words: Sequence[str]) -> list[np.ndarray]:
        """Ids of the words as they follow a question, int64 [tokens] each."""
        asked, *whole = self.encode([question, *(f"{question}{word}" for word in words)])
        alone = self.encode(words)
        size = len(asked)
        return [
            ids[size:] if len(ids) > size and np.array_equal(ids[:size], asked) else by_itself
            for ids, by_itself in zip(whole, alone, strict=True)
        ]

    def spelt(self, ids: np.ndarray) -> bytes:
        """The bytes of ids; special tokens have none."""
        return b"".join([self.pieces[id] for id in ids.tolist()])

    def marks(self, ids: np.ndarray) -> np.ndarray:
        """Marks of a document of these ids, uint8 [tokens]."""
        found = spelled(ids, self.pieces, self._sizes)
        spans = np.stack([found.first, found.last], axis=1)
        return mark(anchors_from_offsets(found.text, spans), self.segmenter.levels(found.text))

    def behind(self, ids: np.ndarray, words: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Marks of words as they stand behind ids, each alone: uint8 [tokens] each.

        A segmenter that can be followed reads `ids` once for all words; the marks are the same.
        """
        if self._marker is None:
            return [self.marks(np.concatenate([ids, word]))[len(ids) :] for word in words]
        marker = self._marker.copy()
        decided = sum(len(marker.push(id)) for id in ids.tolist())
        found = []
        for word in words:
            reader = marker.copy()
            marks = [mark for id in word.tolist() for mark in reader.push(id)]
            marks += reader.provisional()
            found.append(np.array(marks[len(ids) - decided :], dtype=np.uint8))
        return found


def _followed(segmenter: Segmenter, pieces: Sequence[bytes]) -> TokenMarker | None:
    """What follows the segments of a text; None for a segmenter that reads on."""
    try:
        return TokenMarker(segmenter=segmenter, pieces=pieces)
    except ValueError:
        return None
