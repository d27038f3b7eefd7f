"""What a protocol of perplexity says: which windows are read, which tokens are scored there.

    tokens    0 1 2 3 4 5 6 7 8 9
    windows   [       ]                read 0-4, scored from 1 on
                    [       ]          read 3-7, scored from 5 on: what was not scored yet

No token is scored twice. Whatever else a protocol says, the mean over all scored tokens is
reported; the averages of its source stand beside it where they differ.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch

from bipe import Decoder
from bipe.positions import SEGMENT_BIT
from train.evals.perplexity.reading import ONE_PASS, token_losses
from train.evals.perplexity.texts import Stream

_NOWHERE = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Tokens of a stream: `start` to `stop` are read, `first` to `stop` are scored."""

    start: int
    stop: int
    first: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Losses:
    """What a model lost on a stream. *Shape:* ``(time)`` each.

    nll: nats, 0 where not scored. window: which one scored the token, -1: none did. document:
    index of the document.
    """

    nll: np.ndarray
    window: np.ndarray
    document: np.ndarray

    @property
    def scored(self) -> np.ndarray:
        """Which tokens were."""
        return np.asarray(self.window != _NOWHERE)

    def by(self, group: np.ndarray, *, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Sums of losses, and scored tokens, of each of `count` groups of tokens."""
        inside = group[self.scored]
        sums = np.bincount(inside, weights=self.nll[self.scored], minlength=count)
        return sums, np.bincount(inside, minlength=count)

    def window_means(self) -> np.ndarray:
        """The mean loss of each window that scored any token, in their order."""
        sums, counts = self.by(self.window, count=int(self.window.max(initial=0)) + 1)
        return np.asarray(sums[counts > 0] / counts[counts > 0])

    def mean(self) -> float:
        """Over all scored tokens, every token weighing the same."""
        return float(self.nll[self.scored].mean()) if self.scored.any() else float("nan")


class Protocol(ABC):
    """A protocol: a frozen, keyword-only dataclass.

    start_token: an id that is put before every window, where a protocol has one; it is read in
    the segment that it stands before, and never scored.
    """

    name: ClassVar[str]
    start_token: int | None = None

    @property
    @abstractmethod
    def definition(self) -> str:
        """The whole of it in a sentence, with its numbers."""

    @abstractmethod
    def windows(self, ends: Sequence[int]) -> list[Window]:
        """The windows over documents that end there (tokens of the stream)."""

    def spares(self, place: np.ndarray) -> np.ndarray:
        """Which tokens, by their place in a document, are never scored; by default none is."""
        return np.zeros(len(place), bool)

    def averages(self, losses: Losses) -> Mapping[str, float]:
        """Mean losses by which the source of the protocol reports, by name."""
        return {}


def score(
    model: Decoder,
    stream: Stream,
    protocol: Protocol,
    *,
    tokens_per_batch: int,
    one_pass: int = ONE_PASS,
) -> Losses:
    """Read the windows of a protocol, those of one shape in batches, and score their tokens."""
    windows = protocol.windows(stream.ends.tolist())
    spared = protocol.spares(stream.place)
    nll = np.zeros(len(stream.tokens))
    window = np.full(len(stream.tokens), _NOWHERE)
    shapes: dict[tuple[int, int], list[int]] = defaultdict(list)
    for index, one in enumerate(windows):
        shapes[one.stop - one.start, one.first - one.start].append(index)
    for (size, _), members in shapes.items():
        rows = max(1, tokens_per_batch // size)
        for begin in range(0, len(members), rows):
            chosen = members[begin : begin + rows]
            batch = [windows[index] for index in chosen]
            found = _batch(model, stream, batch, protocol.start_token, one_pass)
            for index, one, losses in zip(chosen, batch, found, strict=True):
                inside = slice(one.stop - len(losses), one.stop)
                kept = ~spared[inside]
                nll[inside][kept], window[inside][kept] = losses[kept], index
    return Losses(nll=nll, window=window, document=stream.document)


def _batch(
    model: Decoder,
    stream: Stream,
    batch: Sequence[Window],
    start_token: int | None,
    one_pass: int,
) -> np.ndarray:
    """Losses of windows of one shape, ``(window, scored)``."""
    tokens = np.stack([stream.tokens[one.start : one.stop] for one in batch]).astype(np.int64)
    marks = np.stack([stream.marks[one.start : one.stop] for one in batch])
    first = batch[0].first - batch[0].start
    if start_token is not None:
        tokens = np.pad(tokens, ((0, 0), (1, 0)), constant_values=start_token)
        marks = np.pad(marks, ((0, 0), (1, 0)), constant_values=1 << SEGMENT_BIT)
        marks[:, 1] = 0
        first += 1
    device = model.head.weight.device
    losses = token_losses(
        model,
        torch.from_numpy(tokens).to(device),
        torch.from_numpy(marks).to(device),
        first=max(1, first),  # nothing predicts the first token of a window without a start token
        one_pass=one_pass,
    )
    return losses.cpu().double().numpy()
