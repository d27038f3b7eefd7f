"""A session of generation: the tokens read, their cache, and the segments so far.

    session = Session(model, batch=1, marker=marker)
    logits = session.feed([[5, 7, 2]])        [1, 3, vocab]: a prompt, in chunks
    logits = session.feed([[9]])              [1, 1, vocab]: a step
    session.rewind(state)                     back to where `state = session.state()` was taken

A marker reads tokens one by one and reports which open a segment (`segmenters.TokenMarker`). The
last token of an incomplete character gets a provisional mark; if the rest of the character changes
it, its keys are computed again, so the cache is that of the whole text. A prompt that was segmented
differently comes with its own marks; the marker then starts after it, with a new segment. A cache
that has dropped the keys which earlier tokens see (`Far.forgets`) is filled again from the start.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from bipe.arguments import require, require_at_least
from bipe.cache import Cache
from bipe.decoder import Decoder
from bipe.encodings.base import reads_segments
from bipe.positions import DOCUMENT_BIT, SEGMENT_BIT, Lengths

PREFILL_CHUNK = 1024  # tokens


def require_sound(
    model: Decoder,
    prompts: Sequence[Sequence[int]],
    max_new: int,
    *,
    marker: Marker | None,
    marks: Sequence[Sequence[int]] | None,
    stop_ids: Sequence[int],
) -> None:
    """Raise ValueError for arguments of `generate` or `beam_search` that are of no use."""
    if isinstance(prompts, str) or any(isinstance(x, str | int | float) for x in prompts):
        raise ValueError("prompts must be a list of lists of ids, one list for each prompt")
    if not len(prompts):
        raise ValueError("prompts must hold at least one prompt, were: none")
    if not all(len(prompt) for prompt in prompts):
        raise ValueError(
            "each prompt must have at least one token; begin with the end-of-document token"
        )
    require(max_new >= 1, "at least 1 token", max_new=max_new)
    how = "segmenters.TokenMarker(segmenter=, pieces=)"
    require(isinstance(marker, Marker | None), f"a Marker such as {how}", marker=type(marker))
    # Without any, every text would be read as one segment.
    if marker is None and marks is None and reads_segments(model.scheme):
        raise ValueError(
            f"the model counts segments: pass marker={how} to find them, or marks= of the prompts"
        )
    if marks is not None and (given := [*map(len, marks)]) != [*map(len, prompts)]:
        wanted = ", ".join(str(len(prompt)) for prompt in prompts)
        raise ValueError(f"marks must be one per token of each prompt ({wanted}), were: {given}")
    ids = not isinstance(stop_ids, str) and not any(isinstance(id_, str) for id_ in stop_ids)
    require(ids, "a list of ids of tokens", stop_ids=stop_ids)


@runtime_checkable
class Marker(Protocol):
    """Finds the tokens that open a segment while the text is written."""

    def push(self, token: int) -> list[int]:
        """Return the marks that one more token decides, in the order of the tokens."""

    def provisional(self) -> list[int]:
        """Return the marks of the undecided tokens, as if the text ended here."""

    def copy(self) -> Marker:
        """Return an independent marker in the same state."""


@dataclass(slots=True)
class _Row:
    """A row: `marks` may end in provisional ones, the marker reads from index `begins`."""

    marker: Marker | None
    tokens: list[int] = field(default_factory=list)
    marks: list[int] = field(default_factory=list)
    decided: int = 0
    begins: int | None = None

    def give(self, tokens: Sequence[int], marks: Sequence[int]) -> None:
        self.tokens.extend(tokens)
        self.marks.extend(marks)
        self.decided = len(self.marks)

    def push(self, tokens: Sequence[int]) -> int:
        """Add tokens; return the first index whose mark is new or has changed."""
        first = len(self.tokens)
        if self.marker is None:
            self.give(tokens, [0] * len(tokens))
            return first
        self.tokens.extend(tokens)
        found = [mark for token in tokens for mark in self.marker.push(token)]
        count = self.decided
        self.decided += len(found)
        marks = found + self.marker.provisional()
        if self.begins is not None and count == self.begins:
            marks[0] &= ~(1 << DOCUMENT_BIT)  # the text continues the prompt's document
        old = self.marks[count:]
        self.marks[count:] = marks
        changed = (count + i for i, mark in enumerate(old) if mark != marks[i])
        return min(first, next(changed, first))

    def shared(self, other: _Row) -> int:
        """Return how many of the first tokens, with their marks, another row has as well."""
        rows = (zip(row.tokens, row.marks, strict=True) for row in (self, other))
        pairs = zip(*rows, strict=False)
        return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))

    def copy(self) -> _Row:
        marker = None if self.marker is None else self.marker.copy()
        return replace(self, tokens=self.tokens.copy(), marks=self.marks.copy(), marker=marker)


@dataclass(frozen=True, slots=True)
class State:
    """A snapshot of a session; see `Session.rewind`."""

    rows: tuple[_Row, ...]
    length: int


class Session:
    """Reads tokens of a batch of texts and returns the logits of the next ones.

    marker: copied for each row; None for a model without segments. padding: left padding of each
    row, in tokens. capacity: tokens per row; None: the cache grows. chunk: prompt tokens read at
    once. room: tokens expected after the first feed, which dynamic stretches count (`Lengths`).
    """

    def __init__(
        self,
        model: Decoder,
        *,
        batch: int,
        marker: Marker | None = None,
        padding: Sequence[int] | None = None,
        capacity: int | None = None,
        chunk: int = PREFILL_CHUNK,
        room: int = 0,
    ) -> None:
        require_at_least(1, chunk=chunk)
        require_at_least(0, room=room)
        self.model, self.chunk, self.room = model, chunk, room
        self.padding = list(padding or [0] * batch)
        self.cache = Cache(batch=batch, capacity=capacity, grows=capacity is None)
        self._rows = [_Row(marker).copy() for _ in range(batch)]

    def __len__(self) -> int:
        """Return the tokens per row so far, padding included."""
        return len(self._rows[0].tokens)

    @torch.no_grad()
    def feed(
        self,
        tokens: Sequence[Sequence[int]],
        *,
        marks: Sequence[Sequence[int]] | None = None,
        last_only: bool = False,
    ) -> Float[Tensor, "batch time vocab"]:
        """Read the same number of tokens per row; return logits after each, or only after the last.

        Left padding counts as tokens and is fed with the prompt; its values are ignored.
        marks: of tokens that the marker does not read, which come before all others.
        """
        count = len(tokens[0])
        lengths, vocabulary = list(map(len, tokens)), self.model.config.vocab_size
        if not count or lengths != [count] * len(tokens):
            raise ValueError(f"rows must have the same length, at least 1, were: {lengths}")
        for id in (min(map(min, tokens)), max(map(max, tokens))):
            require(0 <= id < vocabulary, f"from 0 to {vocabulary - 1}", ids=id)
        if marks is not None:
            self._require_marks(marks, count)
        first = not len(self)
        start = min(
            self._push(index, new, None if marks is None else marks[index])
            for index, new in enumerate(tokens)
        )
        if first:
            self.cache.lengths = self._lengths()
        # The first token whose mark changed and all after it are read again.
        self._rewind(min(start, len(self.cache)))
        hidden = self._read(len(self.cache))
        wanted = hidden[-1][:, -1:] if last_only else torch.cat(hidden, 1)[:, -count:]
        return self.model.head(wanted)

    @property
    def decided(self) -> int:
        """Return how many tokens have marks, in all rows, that no later token changes."""
        return min(row.decided for row in self._rows)

    def state(self) -> State:
        """Return a snapshot of the session, for `rewind`."""
        return State(rows=tuple(row.copy() for row in self._rows), length=len(self))

    def rewind(self, state: State) -> None:
        """Return to an earlier state of this session."""
        shared = map(_Row.shared, self._rows, state.rows)
        kept = min(len(self.cache), *shared)
        self._rows = [row.copy() for row in state.rows]
        self._rewind(kept)

    def select(self, rows: Sequence[int], *, shared: int = 0) -> None:
        """Keep these rows in this order, as `Cache.select` does."""
        if list(rows) == list(range(len(self._rows))):
            return  # copying a cache takes long
        self._rows = [self._rows[row].copy() for row in rows]
        self.padding = [self.padding[row] for row in rows]
        self.cache.select(self._tensor(list(rows)), shared=shared)

    def _rewind(self, length: int) -> None:
        self.cache.rewind(length if length >= self.cache.oldest else 0)

    def _hidden(self, row: int) -> int:
        """Return the tokens of padding that a row still has to read."""
        return max(0, self.padding[row] - len(self._rows[row].tokens))

    def _lengths(self) -> Lengths:
        """Return the lengths of each row with `room` more tokens, at its rate of segments."""
        columns = []
        for index, row in enumerate(self._rows):
            marks = row.marks[self.padding[index] :]
            opens = [0] + [i for i, mark in enumerate(marks) if i and mark >> SEGMENT_BIT & 1]
            longest = max(b - a for a, b in itertools.pairwise([*opens, len(marks)]))
            tokens = len(marks) + self.room
            segments = -(-len(opens) * tokens // max(1, len(marks)))
            columns.append((tokens, segments, longest))
        token, inter, intra = self._tensor(columns).unbind(-1)
        return Lengths(token=token, inter=inter, intra=intra)

    def _push(self, index: int, tokens: Sequence[int], marks: Sequence[int] | None) -> int:
        """Add tokens of a row; return the first index whose mark is new or has changed."""
        row, hidden = self._rows[index], self._hidden(index)
        if not hidden and marks is None:
            return row.push(tokens)
        first = len(row.tokens)
        row.give(tokens[:hidden], [0] * min(hidden, len(tokens)))
        if marks is not None:
            row.give(tokens[hidden:], marks[hidden:])
            row.begins = row.decided
        elif hidden < len(tokens):
            row.push(tokens[hidden:])
        return first

    def _require_marks(self, marks: Sequence[Sequence[int]], count: int) -> None:
        lengths = list(map(len, marks))
        if lengths != [count] * len(marks):
            raise ValueError(f"each row must have {count} marks, one per token, were: {lengths}")
        for row in self._rows:
            # Before marks there may be padding only, and behind them no token of the marker.
            if any(row.marks) if row.begins is None else row.begins != len(row.marks):
                raise ValueError(
                    "marks cannot follow tokens without marks; give marks for all tokens"
                )

    def _read(self, start: int) -> list[Tensor]:
        """Return hidden states of the tokens from `start` on, chunk by chunk."""
        texts = []
        stop = len(self._rows[0].tokens)
        for begin in range(start, stop, self.chunk):
            part = slice(begin, min(begin + self.chunk, stop))
            tokens = self._tensor([row.tokens[part] for row in self._rows])
            marks = self._tensor([row.marks[part] for row in self._rows]).byte()
            padding = None
            if any(self.padding):
                places = self._tensor(range(part.start, part.stop))
                padding = places < self._tensor(self.padding)[:, None]
            at = self.cache.next(marks, padding=padding, levels=self.model.levels)
            texts.append(self.model(tokens, at, cache=self.cache))
        return texts

    def _tensor(self, values: Any) -> Tensor:
        return torch.tensor(values, device=self.model.tokens.weight.device)
