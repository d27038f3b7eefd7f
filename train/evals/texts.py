"""Held-out text for measurements, and the characters that tokens spell."""

import hashlib
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from segmenters.wording import counted
from train.data.store.shards import DataSet
from train.data.tokenizing.tokenizers import Tokenizer
from train.errors import DataError

SHORTEST = 16  # tokens
_LONGER = (
    "prepare longer documents (with corpus.split.within=true: a larger corpus.split.test), or "
    "train with a smaller row_length"
)
_LONE = "\ufffd"  # stands for a byte that is not UTF-8


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """Documents joined. tokens, marks: ``(time)``; ends: number of tokens up to each end."""

    tokens: np.ndarray
    marks: np.ndarray
    ends: np.ndarray

    @property
    def document(self) -> np.ndarray:
        return np.repeat(np.arange(len(self.ends)), np.diff(self.ends, prepend=0))

    @property
    def place(self) -> np.ndarray:
        starts = np.concatenate(([0], self.ends[:-1])).astype(np.int64)
        return np.arange(len(self.tokens)) - starts[self.document]


@dataclass(frozen=True, slots=True)
class Excerpts:
    """Beginnings of documents. tokens, marks: ``(document, time)``; bytes: UTF-8 of all text."""

    tokens: np.ndarray
    marks: np.ndarray
    bytes: int

    @property
    def stream(self) -> Stream:
        count, size = self.tokens.shape
        ends = size * np.arange(1, count + 1)
        return Stream(tokens=self.tokens.reshape(-1), marks=self.marks.reshape(-1), ends=ends)

    @property
    def identity(self) -> str:
        """The number and length of the documents, and a few digits of the fingerprint."""
        number, size = self.tokens.shape
        digits = hashlib.sha256(self.fingerprint.encode()).hexdigest()[:8]
        return f"{counted(number, 'document')} of {counted(size, 'token')} [{digits}]"

    @property
    def fingerprint(self) -> str:
        whole = hashlib.sha256(self.tokens.tobytes())
        whole.update(self.marks.tobytes())
        return f"{self.tokens.shape} {self.bytes} {whole.hexdigest()}"


class HeldOut:
    """A held-out split of each source, and their tokenizer."""

    def __init__(self, splits: Mapping[str, DataSet], tokenizer: Tokenizer) -> None:
        self.splits, self.tokenizer = splits, tokenizer
        self._read: dict[tuple[str, tuple[int, ...], int], Excerpts] = {}

    def excerpts(self, source: str, *, lengths: Sequence[int], limit: int) -> Excerpts:
        """Cut up to `limit` documents to the greatest of `lengths` (tokens) that any reaches.

        If none reaches the smallest, half of it is tried, and so on, and a warning is printed;
        DataError if none reaches SHORTEST.
        """
        key = source, tuple(sorted(lengths)), limit
        if key not in self._read:
            self._read[key] = self._cut(self.splits[source], lengths, limit)
        return self._read[key]

    def _cut(self, data: DataSet, lengths: Sequence[int], limit: int) -> Excerpts:
        sizes = np.diff(data.document_ends, prepend=0)
        short = (
            f"{data.folder}: no document has {min(lengths)} tokens, the shortest length asked for "
            f"(row_length times evaluate.lengths); the longest has {sizes.max(initial=0)}"
        )
        halves = (min(lengths) >> n for n in range(1, min(lengths).bit_length()))
        shorter = [half for half in halves if half >= SHORTEST]
        for length in [*sorted(lengths, reverse=True), *shorter]:
            documents = np.flatnonzero(sizes >= length)[:limit].tolist()
            if documents:
                if length in shorter:
                    warning = f"{short}; measured at {length}. For more, {_LONGER}"
                    print(f"bipe: warning: {warning}", file=sys.stderr)
                spans = [slice(start, start + length) for start, _ in map(data.span, documents)]
                tokens = np.stack([data.tokens[span].astype(np.int64) for span in spans])
                marks = np.stack([data.marks(span.start, span.stop) for span in spans])
                texts = (self.tokenizer.decode(row) for row in tokens)
                size = sum(len(text.encode("utf-8", "surrogatepass")) for text in texts)
                return Excerpts(tokens, marks, size)
        raise DataError(f"{short}. Set evaluate.lengths=[1, 2] if they begin above 1, {_LONGER}")


@dataclass(frozen=True, slots=True)
class Spelled:
    """A text, and its code points uint32 [characters].

    first, last: int64 [tokens], the character of a token's first byte, and the one after its last.
    """

    text: str
    characters: np.ndarray
    first: np.ndarray
    last: np.ndarray


def spelled(ids: np.ndarray, pieces: Sequence[bytes], sizes: np.ndarray) -> Spelled:
    """Return the text of ids; pieces and sizes: the bytes of every id, and their count.

    Ids without text have empty spans. A byte that is not UTF-8 is one character.
    """
    text = b"".join([pieces[id] for id in ids.tolist()]).decode("utf-8", "surrogateescape")
    characters = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")
    escaped = (characters >= 0xDC80) & (characters <= 0xDCFF)
    widths = np.ones(len(characters), dtype=np.int64)
    for beyond in (0x80, 0x800, 0x10000):
        widths += (characters >= beyond) & ~escaped
    if escaped.any():
        characters = np.where(escaped, ord(_LONE), characters).astype("<u4")
        text = characters.tobytes().decode("utf-32-le")
    bounds, lengths = np.cumsum(widths), sizes[ids]
    ends = np.cumsum(lengths)
    first = np.searchsorted(bounds, ends - lengths, side="right")
    last = np.where(lengths == 0, first, np.searchsorted(bounds, ends - 1, side="right") + 1)
    return Spelled(text, characters, first, last)
