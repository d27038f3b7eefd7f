"""The protocol of the YaRN release (eval/perplexity.py): sliding windows behind a start token.

    perplexity = exp(mean over all windows of all documents of the mean loss of a window)

So a short last window weighs as much as a whole one. Without a start token windows have one token
more, and the first of a document is not scored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from train.errors import ConfigError
from train.evals.perplexity.protocol import Losses, Protocol, Window
from train.evals.perplexity.spans import document_spans, sliding_windows


@dataclass(frozen=True, slots=True, kw_only=True)
class Yarn(Protocol):
    """length: of what is read at once, the start token included; stride: both in tokens.

    truncate: read only the first window of each document.
    """

    name: ClassVar[str] = "yarn"

    length: int
    stride: int
    start_token: int | None = None
    truncate: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.stride <= self._text:
            raise ConfigError(
                f"stride must be from 1 to the {self._text} tokens of text in a window, was: "
                f"{self.stride}"
            )

    @property
    def _text(self) -> int:
        return self.length - (self.start_token is not None)

    @property
    def definition(self) -> str:
        behind = "" if self.start_token is None else f" behind token {self.start_token}"
        slides = "only the first of a document" if self.truncate else f"stride {self.stride}"
        return (
            f"Windows of {self._text} tokens{behind}, {slides}, each scoring the tokens that none "
            "before it scored (eval/perplexity.py of the YaRN release, which takes the mean over "
            "windows)."
        )

    def windows(self, ends: Sequence[int]) -> list[Window]:
        size = self._text
        if self.truncate:
            return [
                Window(start=begin, stop=min(begin + size, end), first=begin)
                for begin, end in document_spans(ends)
            ]
        return [
            window
            for begin, end in document_spans(ends)
            for window in sliding_windows(begin, end, length=size, stride=self.stride)
        ]

    def averages(self, losses: Losses) -> Mapping[str, float]:
        """`mean_of_windows`."""
        means = losses.window_means()
        return {"mean_of_windows": float(means.mean()) if len(means) else float("nan")}
