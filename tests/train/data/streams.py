"""A data set in memory, for the tests of rows."""

from pathlib import Path

import numpy as np


class Stream:
    """Documents of given lengths; tokens are 0, 1, 2, .. so that one says where it came from."""

    def __init__(self, lengths, *, name="x", seed=0):
        draw = np.random.default_rng(seed)
        self.name, self.folder = name, Path(name)
        self.manifest = {"split": "train", "files": {}}
        self.levels = (0,)
        self.document_ends = np.cumsum(lengths, dtype=np.int64)
        total = sum(lengths)
        self.tokens = np.arange(total)
        self._marks = (draw.random(total) < 0.2).astype(np.uint8) << 1
        self._marks[np.append(0, self.document_ends)[: len(lengths)]] = 3

    def __len__(self):
        return len(self.document_ends)

    def marks(self, start, stop):
        return self._marks[start:stop].copy()

    def read(self, places):
        return self.tokens[places], self._marks[places]

    def starts(self, start, stop):
        return self._marks[start:stop] >> 1 & 1

    def span(self, index):
        return int(self.document_ends[index - 1]) if index else 0, int(self.document_ends[index])

    def inner(self):
        """Every token that is to be a target: all but the first of each document."""
        return np.setdiff1d(self.tokens, [0, *self.document_ends.tolist()])
