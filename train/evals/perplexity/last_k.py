"""The last tokens of each document behind a context of growing length (ReRoPE's eval_loss.py).

    last 3, length 5     . . . [ . . x x x ]      the same tokens are scored at every length

The window has one token more than the length: as many are read before the last one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from train.errors import ConfigError
from train.evals.perplexity.protocol import Losses, Protocol, Window
from train.evals.perplexity.spans import document_spans


@dataclass(frozen=True, slots=True, kw_only=True)
class LastK(Protocol):
    """length: tokens that the last one looks back on. last: tokens scored, at most as many."""

    name: ClassVar[str] = "last_k"

    length: int
    last: int

    def __post_init__(self) -> None:
        if not 1 <= self.last <= self.length:
            raise ConfigError(f"last must be from 1 to {self.length} tokens, was: {self.last}")

    @property
    def definition(self) -> str:
        return (
            f"The last {self.length} + 1 tokens of each document, of which the last {self.last} "
            "are scored."
        )

    def windows(self, ends: Sequence[int]) -> list[Window]:
        found = []
        for begin, end in document_spans(ends):
            start = max(begin, end - self.length - 1)
            found.append(Window(start=start, stop=end, first=max(start, end - self.last)))
        return found

    def averages(self, losses: Losses) -> Mapping[str, float]:
        """`mean_of_documents`: documents weigh the same, however short."""
        means = losses.window_means()
        return {"mean_of_documents": float(means.mean()) if len(means) else float("nan")}
