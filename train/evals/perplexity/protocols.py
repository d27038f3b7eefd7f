"""Protocols of perplexity: which windows are read, and which of their tokens are scored.

tokens    0 1 2 3 4 5 6 7 8 9
windows   [       ]                read 0-4, scored from 1 on
                [       ]          read 3-7, scored from 5 on: no token is scored twice
"""

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import ClassVar

import numpy as np

from train.errors import ConfigError, as_config_error

_NOWHERE = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Tokens of a stream: `start` to `stop` are read, `first` to `stop` are scored."""

    start: int
    stop: int
    first: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Losses:
    """The losses of a model on a stream. *Shape:* ``(time)`` each.

    nll: nats, 0 where not scored. window: which one scored the token, or -1. document: its index.
    """

    nll: np.ndarray
    window: np.ndarray
    document: np.ndarray

    @property
    def scored(self) -> np.ndarray:
        return np.asarray(self.window != _NOWHERE)

    def by(self, group: np.ndarray, *, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the sum of losses and the number of scored tokens of each of `count` groups."""
        inside = group[self.scored]
        sums = np.bincount(inside, weights=self.nll[self.scored], minlength=count)
        return sums, np.bincount(inside, minlength=count)

    def window_means(self) -> np.ndarray:
        """Return the mean loss of each window that scored any token, in order."""
        sums, counts = self.by(self.window, count=int(self.window.max(initial=0)) + 1)
        return np.asarray(sums[counts > 0] / counts[counts > 0])

    def mean(self) -> float:
        return _mean(self.nll[self.scored])


class Protocol(ABC):
    """A protocol: a frozen, keyword-only dataclass.

    start_token: an id put before every window, as part of its first segment, and never scored.
    sentence: what it is, with its fields in braces.
    """

    name: ClassVar[str]
    sentence: ClassVar[str]
    start_token: int | None = None

    @property
    def identity(self) -> str:
        """The name of the protocol and its numbers, but for the length."""
        parts = [f"{field.name} {getattr(self, field.name)}" for field in fields(self)  # type: ignore[arg-type]
                 if field.name != "length" and getattr(self, field.name) is not None]  # fmt: skip
        return f"{self.name} ({', '.join(parts)})" if parts else self.name

    @property
    def definition(self) -> str:
        """The protocol in a sentence, with its numbers."""
        return self.sentence.format(self=self)

    @abstractmethod
    def windows(self, ends: Sequence[int]) -> list[Window]:
        """Return the windows over documents that end at `ends` (tokens of the stream)."""

    def spares(self, place: np.ndarray) -> np.ndarray:
        """Return which tokens, by position in their document, are never scored."""
        return np.zeros(len(place), bool)

    def averages(self, losses: Losses) -> Mapping[str, float]:
        """Return the mean losses that the source of the protocol reports, by name."""
        return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Windows(Protocol):
    """Windows that do not overlap; the same tokens are scored at every length.

    training row 4       . x x x . x x x      x is scored, . is not: it has no context at the
    length 4             [     ] [     ]      shortest length, so lengths differ only in how far
    length 8             [             ]      the model may look back
    """

    name: ClassVar[str] = "windows"
    sentence: ClassVar[str] = (
        "Non-overlapping windows of {self.length} tokens (the last of a document may be shorter); "
        "all tokens are scored except those at multiples of {self.row_length} in their document."
    )

    length: int
    row_length: int

    def windows(self, ends: Sequence[int]) -> list[Window]:
        return [
            Window(start=start, stop=min(start + self.length, end), first=start)
            for begin, end in _documents(ends)
            for start in range(begin, end, self.length)
        ]

    def spares(self, place: np.ndarray) -> np.ndarray:
        return np.asarray(place % self.row_length == 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sliding(Protocol):
    """Sliding windows with a stride: each scores only the tokens that no window before it scored.

    The recipe of Hugging Face ("Perplexity of fixed-length models") has had two averages: one over
    windows, which overweights a short last one, and one in which all windows but the first weigh
    one token too few, because a shift of labels is subtracted.
    """

    name: ClassVar[str] = "sliding"
    sentence: ClassVar[str] = (
        "Windows of {self.length} tokens with a stride of {self.stride}, to the end of the "
        "document; each scores the tokens not scored by earlier ones, and the first window all but "
        "its first token."
    )

    length: int
    stride: int

    def __post_init__(self) -> None:
        _require_stride(self.stride, self.length)

    def windows(self, ends: Sequence[int]) -> list[Window]:
        return _sliding(ends, length=self.length, stride=self.stride)

    def averages(self, losses: Losses) -> Mapping[str, float]:
        scored = losses.scored
        numbers, first, counts = np.unique(
            losses.window[scored], return_index=True, return_counts=True
        )
        if not len(numbers):
            return {"mean_of_windows": math.nan, "one_token_too_few": math.nan}
        means = losses.window_means()
        # Nothing predicts the first token of these windows: their counts are one less already.
        alone = np.diff(losses.document[scored][first], prepend=-1) != 0
        weights = np.where(alone | (self.stride == self.length), counts, counts - 1)
        weighted = float((weights * means).sum())
        return {
            "mean_of_windows": float(means.mean()),
            "one_token_too_few": weighted / weights.sum() if weights.any() else math.nan,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class LastK(Protocol):
    """The last tokens of each document after a context of growing length (ReRoPE's eval_loss.py).

    last 3, length 5     . . . [ . . x x x ]     length + 1 tokens: `length` before the last one
    """

    name: ClassVar[str] = "last_k"
    sentence: ClassVar[str] = (
        "The last {self.length} + 1 tokens of each document, of which the last {self.last} are "
        "scored."
    )

    length: int
    last: int

    def __post_init__(self) -> None:
        if not 1 <= self.last <= self.length:
            raise ValueError(f"last must be from 1 to {self.length} tokens, was: {self.last}")

    def windows(self, ends: Sequence[int]) -> list[Window]:
        windows = []
        for begin, end in _documents(ends):
            start = max(begin, end - self.length - 1)
            windows.append(Window(start=start, stop=end, first=max(start, end - self.last)))
        return windows

    def averages(self, losses: Losses) -> Mapping[str, float]:
        return {"mean_of_documents": _mean(losses.window_means())}


@dataclass(frozen=True, slots=True, kw_only=True)
class FullContext(Protocol):
    """Each document in one pass: each token looks back on all before it. It has no length."""

    name: ClassVar[str] = "full_context"
    sentence: ClassVar[str] = "Whole documents; all tokens but the first are scored."

    def windows(self, ends: Sequence[int]) -> list[Window]:
        return [Window(start=begin, stop=end, first=begin) for begin, end in _documents(ends)]


@dataclass(frozen=True, slots=True, kw_only=True)
class BipeBlocks(Protocol):
    """The protocol of the released BiPE (eval.py): documents joined, then cut to blocks.

    The rest at the end is dropped, and the last full block too (not by BiPE's training code).
    Perplexity is exp of the mean over batches of their mean losses: a short last batch weighs more.
    """

    name: ClassVar[str] = "bipe_blocks"
    sentence: ClassVar[str] = (
        "Documents joined and cut into blocks of {self.length} tokens across documents; the rest "
        "and the last full block are dropped, and the first token of a block is not scored "
        "(eval.py of the released BiPE, which averages over batches of {self.batch} blocks)."
    )

    length: int
    batch: int = 8

    def windows(self, ends: Sequence[int]) -> list[Window]:
        blocks = (ends[-1] if ends else 0) // self.length - 1
        starts = range(0, max(0, blocks) * self.length, self.length)
        return [Window(start=start, stop=start + self.length, first=start) for start in starts]

    def averages(self, losses: Losses) -> Mapping[str, float]:
        means = losses.window_means()
        starts = range(0, len(means), self.batch)
        batches = [means[start : start + self.batch].mean() for start in starts]
        return {"mean_of_batches": _mean(np.array(batches))}


@dataclass(frozen=True, slots=True, kw_only=True)
class Yarn(Protocol):
    """The protocol of the YaRN release (eval/perplexity.py): sliding windows after a start token.

    Perplexity is exp of the mean over windows: a short last one weighs as much as a full one.
    length: tokens read at once, with the start token.
    """

    name: ClassVar[str] = "yarn"
    sentence: ClassVar[str] = (
        "Windows of {self.text} tokens{self.behind}, stride {self.stride}, each scoring the tokens "
        "not scored by earlier ones (eval/perplexity.py of the YaRN release, which averages over "
        "windows)."
    )

    length: int
    stride: int
    start_token: int | None = None

    def __post_init__(self) -> None:
        _require_stride(self.stride, self.text)

    @property
    def text(self) -> int:
        return self.length - (self.start_token is not None)

    @property
    def behind(self) -> str:
        return "" if self.start_token is None else f" after token {self.start_token}"

    def windows(self, ends: Sequence[int]) -> list[Window]:
        return _sliding(ends, length=self.text, stride=self.stride)

    def averages(self, losses: Losses) -> Mapping[str, float]:
        return {"mean_of_windows": _mean(losses.window_means())}


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A protocol by name, and its numbers in tokens.

    stride, last: None for half a training row, or half of shorter texts.
    """

    protocol: str
    stride: int | None = None
    last: int | None = None
    start_token: int | None = None

    def at(self, length: int, *, row_length: int) -> Protocol:
        """Return the protocol at a length of context; row_length: of the training of the model."""
        half = max(1, min(row_length, length) // 2)
        stride = half if self.stride is None else self.stride
        with as_config_error("evaluate."):
            match self.protocol:
                case Windows.name:
                    return Windows(length=length, row_length=row_length)
                case Sliding.name:
                    return Sliding(length=length, stride=stride)
                case LastK.name:
                    return LastK(length=length, last=half if self.last is None else self.last)
                case FullContext.name:
                    return FullContext()
                case BipeBlocks.name:
                    return BipeBlocks(length=length)
                case Yarn.name:
                    return Yarn(length=length, stride=stride, start_token=self.start_token)
        raise ConfigError(f"protocol must be one of {', '.join(PROTOCOLS)}, was: {self.protocol!r}")


PROTOCOLS = tuple(kind.name for kind in (Windows, Sliding, LastK, FullContext, BipeBlocks, Yarn))


def _documents(ends: Sequence[int]) -> Iterator[tuple[int, int]]:
    return ((begin, end) for begin, end in itertools.pairwise([0, *ends]) if end > begin)


def _sliding(ends: Sequence[int], *, length: int, stride: int) -> list[Window]:
    """Return windows that each score what earlier ones of their document did not."""
    windows = []
    for begin, end in _documents(ends):
        scored = begin
        for start in range(begin, end, stride):
            stop = min(start + length, end)
            windows.append(Window(start=start, stop=stop, first=scored))
            scored = stop
            if stop == end:
                break
    return windows


def _require_stride(stride: int, length: int) -> None:
    if not 1 <= stride <= length:
        raise ValueError(
            f"stride must be from 1 to the {length} tokens of text in a window, since tokens "
            f"between windows would not be read, was: {stride}"
        )


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else math.nan
