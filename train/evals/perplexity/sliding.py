"""Sliding windows with a stride: each scores only the tokens that no window before it scored.

A token has a context of length - stride tokens at least, but for the first window. The common
recipe of Hugging Face ("Perplexity of fixed-length models") has had two averages, both reported:
the mean over windows, which overweights a short last one, and a sum weighted by one token too few
for every window but the first, because a shift of labels is taken off where there is none.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from train.errors import ConfigError
from train.evals.perplexity.protocol import Losses, Protocol, Window
from train.evals.perplexity.spans import document_spans, sliding_windows


@dataclass(frozen=True, slots=True, kw_only=True)
class Sliding(Protocol):
    """length: tokens of a window. stride: tokens from one window to the next, at most as many."""

    name: ClassVar[str] = "sliding"

    length: int
    stride: int

    def __post_init__(self) -> None:
        if not 1 <= self.stride <= self.length:
            raise ConfigError(
                f"stride must be from 1 to the length of a window, {self.length} tokens: tokens "
                f"between two windows would not be read, was: {self.stride}"
            )

    @property
    def definition(self) -> str:
        return (
            f"Windows of {self.length} tokens, each {self.stride} tokens behind the last, to the "
            "end of the document; each scores the tokens that none before it scored, the first "
            "all but its first."
        )

    def windows(self, ends: Sequence[int]) -> list[Window]:
        return [
            window
            for begin, end in document_spans(ends)
            for window in sliding_windows(begin, end, length=self.length, stride=self.stride)
        ]

    def averages(self, losses: Losses) -> Mapping[str, float]:
        """`mean_of_windows` and `one_token_too_few`: see the head of the file."""
        scored = losses.scored
        found, first, counts = np.unique(
            losses.window[scored], return_index=True, return_counts=True
        )
        if not len(found):
            return {"mean_of_windows": math.nan, "one_token_too_few": math.nan}
        means = losses.window_means()
        # Where nothing stands before what is new in a window, its first token was lost already.
        alone = np.diff(losses.document[scored][first], prepend=-1) != 0
        weights = np.where(alone | (self.stride == self.length), counts, counts - 1)
        weighted = float((weights * means).sum())
        return {
            "mean_of_windows": float(means.mean()),
            "one_token_too_few": weighted / weights.sum() if weights.any() else math.nan,
        }
