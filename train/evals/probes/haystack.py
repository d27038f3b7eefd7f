"""Held-out text to hide things in: a run of tokens from a drawn place, as long as is wanted."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from train.data.store.shards import DataSet
from train.errors import DataError
from train.evals.probes.draw import Draw
from train.evals.probes.text import Texts

_AHEAD = 4096  # tokens in which a segment should begin


class Haystack:
    """The tokens of a held-out split, read in a circle: a short one comes again.

    Ends of documents are left out, for the model reads one document.
    """

    def __init__(self, data: DataSet, *, texts: Texts) -> None:
        if not len(data.tokens):
            raise DataError(f"{data.folder}: has no tokens to hide anything in")
        self.data, self.name = data, data.name
        self._eos = texts.tokenizer.eos_id
        self.by_lines = self._by_lines(texts.pieces)

    def __len__(self) -> int:
        return len(self.data.tokens)

    def take(self, draw: Draw, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Ids int64 [count], and the places where their segments begin, the end included."""
        if not count:
            return np.zeros(0, np.int64), np.zeros(1, np.int64)
        start = self._begin(draw.below(len(self)))
        ids, starts = [], []
        while count:
            stop = min(len(self), start + count)
            part = np.asarray(self.data.tokens[start:stop]).astype(np.int64)
            keep = part != self._eos
            if start == 0 and stop == len(self) and not keep.any():
                raise DataError(f"{self.data.folder}: holds nothing but ends of documents")
            ids.append(part[keep])
            starts.append((self.data.marks(start, stop) != 0)[keep])
            count -= int(keep.sum())
            start = stop % len(self)
        places = np.flatnonzero(np.concatenate(starts))
        whole = np.concatenate(ids)
        return whole, np.append(places, len(whole))

    def _by_lines(self, pieces: Sequence[bytes]) -> bool:
        """Whether most segments end with a line: then so do statements among them."""
        stop = min(len(self), 1 << 16)
        places = np.flatnonzero(self.data.marks(0, stop))[1:]
        if not len(places):
            return False
        ids = np.asarray(self.data.tokens[0:stop]).astype(np.int64)[places - 1]
        ends = [pieces[id].rstrip(b" \t").endswith(b"\n") for id in ids.tolist()]
        return sum(ends) * 2 > len(ends)

    def _begin(self, place: int) -> int:
        """The first segment behind a place, so that the text begins whole."""
        found = np.flatnonzero(self.data.marks(place, min(len(self), place + _AHEAD)))
        return place + int(found[0]) if len(found) else place
