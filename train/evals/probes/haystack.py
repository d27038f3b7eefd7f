"""Random draws, texts as ids and marks, and held-out text to hide things in.

Trials are put together from ids, so that their lengths are exact, and then cut as any text:
statements and questions have the segments that the rules of the data give them. Draws are the same
on every machine and with every library version (SplitMix64).
"""

import hashlib
import json
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from segmenters.align import anchors_from_offsets, mark
from segmenters.base import Segmenter
from segmenters.random_numbers import stream
from segmenters.streaming.online import TokenMarker
from train.data.store.shards import DataSet
from train.data.tokenizing.tokenizers import Tokenizer
from train.errors import DataError
from train.evals.texts import spelled

_AHEAD = 4096  # tokens in which a segment should begin
T = TypeVar("T")
_WHOLE = 2**64
_PLAIN = (
    "river stone bread water house mother silver garden mountain window morning winter summer "
    "letter number table field horse iron gold paper light night city road tree fire king door "
    "ship voice heart hand tower bridge island forest valley castle village"
)
WORDS = _PLAIN.split()
_SYLLABLES = [c + v for c in "bdfgklmnprstvz" for v in "aeiou"]


class Draw:
    """A stream of random numbers and names that is a function of its key."""

    def __init__(self, *key: int | str) -> None:
        digest = hashlib.sha256(json.dumps(key).encode()).digest()
        self._bits = stream(int.from_bytes(digest[:8], "little"))

    def below(self, stop: int) -> int:
        """Return a number from 0 to `stop` - 1, all with the same probability."""
        # Numbers from here on would make the first remainders more likely: drawn again.
        limit = _WHOLE - _WHOLE % stop
        while (found := next(self._bits)) >= limit:
            pass
        return found % stop

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """Return the items in random order (Fisher and Yates)."""
        made = list(items)
        for last in range(len(made) - 1, 0, -1):
            other = self.below(last + 1)
            made[last], made[other] = made[other], made[last]
        return made

    def sample(self, items: Sequence[T], count: int) -> list[T]:
        """Return `count` different items, in the order drawn."""
        made = list(items)
        for place in range(count):
            other = place + self.below(len(made) - place)
            made[place], made[other] = made[other], made[place]
        return made[:count]

    def numbers(self, count: int, *, digits: int) -> list[str]:
        """Return different numbers of `digits` digits."""
        low = 10 ** (digits - 1)
        return _different(count, lambda: str(low + self.below(9 * low)))

    def letters(self, count: int, *, length: int, alphabet: str) -> list[str]:
        """Return different strings of `length` letters."""
        stop = len(alphabet)
        return _different(count, lambda: "".join(alphabet[self.below(stop)] for _ in range(length)))


def names(draw: Draw, count: int) -> list[str]:
    """Return different names for statements: two plain words with a hyphen."""
    return _different(count, lambda: "-".join(draw.sample(WORDS, 2)))


def made_up_words(draw: Draw, count: int) -> list[str]:
    """Return different words of three syllables."""
    return _different(count, lambda: "".join(draw.sample(_SYLLABLES, 3)))


def _different(count: int, draw: Callable[[], str]) -> list[str]:
    """Return the first `count` different results of a draw, in order."""
    found = dict[str, None]()
    while len(found) < count:
        found[draw()] = None
    return list(found)


class Texts:
    """A tokenizer and a segmenter, as probes use them; levels: how many of it are read."""

    def __init__(self, *, tokenizer: Tokenizer, segmenter: Segmenter, levels: int = 1) -> None:
        self.tokenizer, self.segmenter, self.levels = tokenizer, segmenter, levels
        self.pieces = tokenizer.pieces()
        self._sizes = np.array([len(piece) for piece in self.pieces], dtype=np.int64)
        self.telling = np.flatnonzero(self._sizes)  # ids that have some text

    def marker(self) -> TokenMarker:
        """Return a marker of token streams; ValueError for a segmenter that reads ahead."""
        return TokenMarker(segmenter=self.segmenter, pieces=self.pieces, levels=self.levels)

    def encode(self, texts: Sequence[str]) -> list[np.ndarray]:
        return [ids.astype(np.int64) for ids, _ in self.tokenizer.encode_batch(texts)]

    def count(self, texts: Sequence[str]) -> list[int]:
        return [len(ids) for ids in self.encode(texts)]

    def answers(self, question: str, words: Sequence[str]) -> list[np.ndarray]:
        """Return the ids of each word after a question (alone, if the tokenizer merges the two)."""
        asked, *whole = self.encode([question, *(f"{question}{word}" for word in words)])
        alone = self.encode(words)
        size = len(asked)
        return [
            ids[size:] if len(ids) > size and np.array_equal(ids[:size], asked) else by_itself
            for ids, by_itself in zip(whole, alone, strict=True)
        ]

    def marks(self, ids: np.ndarray) -> np.ndarray:
        """Return the marks of a document of these ids, uint8 [tokens]."""
        found = spelled(ids, self.pieces, self._sizes)
        spans = np.stack([found.first, found.last], axis=1)
        anchors = anchors_from_offsets(found.text, spans)
        levels = self.segmenter.levels_of_tokens(found.text, anchors)
        return mark(anchors, levels[: self.levels])

    def behind(self, ids: np.ndarray, words: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Return the marks of each word on its own after `ids`: uint8 [tokens] each."""
        return [self.marks(np.concatenate([ids, word]))[len(ids) :] for word in words]


class Haystack:
    """The tokens of a held-out split without ends (and bos) of documents, read in a circle."""

    def __init__(self, data: DataSet, *, texts: Texts, name: str) -> None:
        if not len(data.tokens):
            raise DataError(f"{data.folder}: has no tokens to hide a needle in")
        self.data, self.texts, self.name = data, texts, name
        self._around = [texts.tokenizer.eos_id, *texts.tokenizer.opening]
        self.by_lines = self._by_lines(texts.pieces)

    def __len__(self) -> int:
        return len(self.data.tokens)

    def take(self, draw: Draw, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Return ids int64 [count], and the starts of their segments, with the end of the ids."""
        if not count:
            return np.zeros(0, np.int64), np.zeros(1, np.int64)
        start = self._begin(draw.below(len(self)))
        ids, starts = [], []
        while count:
            stop = min(len(self), start + count)
            part = np.asarray(self.data.tokens[start:stop]).astype(np.int64)
            keep = ~np.isin(part, self._around)
            if start == 0 and stop == len(self) and not keep.any():
                raise DataError(f"{self.data.folder}: contains only ends of documents")
            ids.append(part[keep])
            starts.append((self.data.marks(start, stop) != 0)[keep])
            count -= int(keep.sum())
            start = stop % len(self)
        places = np.flatnonzero(np.concatenate(starts))
        whole = np.concatenate(ids)
        return whole, np.append(places, len(whole))

    def _by_lines(self, pieces: Sequence[bytes]) -> bool:
        """Return whether most segments end with a line; then statements among them do so too."""
        stop = min(len(self), 1 << 16)  # tokens: enough segments to tell
        places = np.flatnonzero(self.data.marks(0, stop))[1:]
        if not len(places):
            return False
        ids = np.asarray(self.data.tokens[0:stop]).astype(np.int64)[places - 1]
        ends = [pieces[id].rstrip(b" \t").endswith(b"\n") for id in ids.tolist()]
        return sum(ends) * 2 > len(ends)

    def _begin(self, place: int) -> int:
        """Return the start of the first segment from a place on, so that the text begins whole."""
        found = np.flatnonzero(self.data.marks(place, min(len(self), place + _AHEAD)))
        return place + int(found[0]) if len(found) else place
