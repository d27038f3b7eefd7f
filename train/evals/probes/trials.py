"""Trials of probes: drafted as text, then laid out as tokens and marks of the length asked for.

They are put together from ids, so that their lengths are exact, and then cut as any text:
statements and questions have the segments that the rules of the data give them. Draws are the same
on every machine and with every library version (SplitMix64).

A kind drafts a trial from a `Draw` and the available room; all kinds have the same layout:

    needles:  intro \\n  hay  needle  hay  needle (sought)  hay  \\n question | answer
    lines:    hay (what is left)  \\n  intro  line line line ...  \\n question | answer

A sought needle is at `depth` of the text around it, before a segment of that text and never inside
one. Distances are from the end of a needle to the answer.
"""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from bipe.positions import SEGMENT_BIT
from segmenters.align import anchors_from_offsets, mark
from segmenters.base import Segmenter
from segmenters.random_numbers import stream
from segmenters.streaming.online import TokenMarker
from train.data.store.shards import DataSet
from train.data.tokenizing.tokenizers import Tokenizer
from train.errors import DataError
from train.evals.texts import spelled

AHEAD = 4096  # tokens in which a segment should begin
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
        while (number := next(self._bits)) >= limit:
            pass
        return number % stop

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """Return the items in random order (Fisher and Yates)."""
        shuffled = list(items)
        for last in range(len(shuffled) - 1, 0, -1):
            other = self.below(last + 1)
            shuffled[last], shuffled[other] = shuffled[other], shuffled[last]
        return shuffled

    def sample(self, items: Sequence[T], count: int) -> list[T]:
        """Return `count` different items, in the order drawn."""
        chosen = list(items)
        for place in range(count):
            other = place + self.below(len(chosen) - place)
            chosen[place], chosen[other] = chosen[other], chosen[place]
        return chosen[:count]

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
    chosen = dict[str, None]()
    while len(chosen) < count:
        chosen[draw()] = None
    return list(chosen)


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
        prompt, *whole = self.encode([question, *(f"{question}{word}" for word in words)])
        alone = self.encode(words)
        size = len(prompt)
        return [
            ids[size:] if len(ids) > size and np.array_equal(ids[:size], prompt) else by_itself
            for ids, by_itself in zip(whole, alone, strict=True)
        ]

    def marks(self, ids: np.ndarray) -> np.ndarray:
        """Return the marks of a document of these ids, uint8 [tokens]."""
        text = spelled(ids, self.pieces, self._sizes)
        spans = np.stack([text.first, text.last], axis=1)
        anchors = anchors_from_offsets(text.text, spans)
        levels = self.segmenter.levels_of_tokens(text.text, anchors)
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
        starts = np.flatnonzero(self.data.marks(place, min(len(self), place + AHEAD)))
        return place + int(starts[0]) if len(starts) else place


_PARTS = 1000  # depths are drawn as multiples of 1 / 1000


@dataclass(frozen=True, slots=True)
class Piece:
    """A statement of the context; sought: an answer cannot be known without it."""

    text: str
    sought: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """One trial. candidates: a small model chooses from them; each begins with a space.

    needles: put into held-out text, in this order. lines: joined instead of held-out text, each
    with its separator at the front. The answer begins where the question ends.
    """

    intro: str
    question: str
    answers: tuple[str, ...]
    candidates: tuple[str, ...]
    needles: tuple[Piece, ...] = ()
    lines: tuple[Piece, ...] = ()


@dataclass(frozen=True, slots=True)
class Room:
    """How much a trial may hold. tokens: of the context behind its opening. count: of each text."""

    tokens: int
    count: Callable[[Sequence[str]], list[int]]
    candidates: int


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of probe.

    deep: one needle is sought, at a chosen depth; others fall at random. any_of: one answer
    suffices (RULER's string_match_part) instead of the share named. draft: None without room.
    """

    task: str
    draft: Callable[[Draw, Room], Draft | None]
    max_new: int = 128
    deep: bool = False
    any_of: bool = False


def choices(draw: Draw, answers: Sequence[str], others: Sequence[str]) -> tuple[str, ...]:
    """Return answers and others in random order, each after a space."""
    return tuple(f" {word}" for word in draw.shuffled([*answers, *others]))


@dataclass(frozen=True, slots=True)
class Trial:
    """A context up to where the answer begins.

    tokens: int64, marks: uint8 [length]. candidates, candidate_marks: of each, after the context.
    right: bool, which of them are answers. distance_...: to the farthest sought needle.
    """

    tokens: np.ndarray
    marks: np.ndarray
    answers: tuple[str, ...]
    candidates: list[np.ndarray]
    candidate_marks: list[np.ndarray]
    right: np.ndarray
    distance_tokens: int
    distance_segments: int


def trial(
    kind: Kind,
    hay: Haystack,
    *,
    length: int,
    depth: float | None,
    candidates: int,
    draw: Draw,
) -> Trial | None:
    """Return one trial of `length` tokens; None if they have no room for it."""
    left = length - len(hay.texts.tokenizer.opening)
    draft = kind.draft(draw, Room(tokens=left, count=hay.texts.count, candidates=candidates))
    if draft is None:
        return None
    lay = _among_hay if draft.needles else _in_lines
    laid = lay(draft, hay, length=length, depth=depth, draw=draw)
    if laid is None:
        return None
    tokens, ends = laid
    marks = hay.texts.marks(tokens)
    segment = np.cumsum(marks >> SEGMENT_BIT & 1)
    answers = {f" {answer}" for answer in draft.answers}
    chosen_from = hay.texts.answers(draft.question, draft.candidates)
    return Trial(
        tokens=tokens,
        marks=marks,
        answers=draft.answers,
        candidates=chosen_from,
        candidate_marks=hay.texts.behind(tokens, chosen_from),
        right=np.array([candidate in answers for candidate in draft.candidates]),
        distance_tokens=length - min(ends),
        distance_segments=int(segment[-1] - segment[min(ends)]),
    )


def _among_hay(
    draft: Draft, hay: Haystack, *, length: int, depth: float | None, draw: Draw
) -> tuple[np.ndarray, list[int]] | None:
    stated = hay.texts.encode(
        [f"{p.text}\n" if hay.by_lines else f" {p.text}" for p in draft.needles]
    )
    intro, question = hay.texts.encode([f"{draft.intro}\n", f"\n{draft.question}"])
    intro = np.concatenate([hay.texts.tokenizer.opening, intro])
    room = length - len(intro) - len(question) - sum(map(len, stated))
    if room < 0:
        return None
    text, starts = hay.take(draw, room)
    depths = _depths(draft.needles, depth, draw)
    places = [int(starts[np.abs(starts - share * room).argmin()]) for share in depths]
    order = sorted(range(len(places)), key=lambda i: (places[i], i))
    parts, ends, at, size = [intro], [], 0, len(intro)
    for i in order:
        parts += [text[at : places[i]], stated[i]]
        size += places[i] - at + len(stated[i])
        at = places[i]
        if draft.needles[i].sought:
            ends.append(size - 1)
    return np.concatenate([*parts, text[at:], question]), ends


def _depths(needles: tuple[Piece, ...], depth: float | None, draw: Draw) -> list[float]:
    """Return a depth per needle: `depth` for the sought one, else drawn; sorted without `depth`."""
    drawn = [draw.below(_PARTS + 1) / _PARTS for _ in needles]
    if depth is None:
        return sorted(drawn)
    return [depth if n.sought else d for n, d in zip(needles, drawn, strict=True)]


def _in_lines(
    draft: Draft, hay: Haystack, *, length: int, depth: float | None, draw: Draw
) -> tuple[np.ndarray, list[int]] | None:
    lines = list(draft.lines)
    if depth is not None:  # the sought one goes to its place among the others
        others = [line for line in lines if not line.sought]
        place = round(depth * len(others))
        lines = others[:place] + [line for line in lines if line.sought] + others[place:]
    intro, question, *stated = hay.texts.encode(
        [f"\n{draft.intro}", f"\n{draft.question}", *(line.text for line in lines)]
    )
    opening = hay.texts.tokenizer.opening
    left = length - len(intro) - len(question) - sum(map(len, stated))
    if left < len(opening):
        return None
    before = np.concatenate([opening, hay.take(draw, left - len(opening))[0]])
    stops = left + len(intro) + np.cumsum([len(ids) for ids in stated]) - 1
    ends = [int(stop) for stop, line in zip(stops, lines, strict=True) if line.sought]
    return np.concatenate([before, intro, *stated, question]), ends
