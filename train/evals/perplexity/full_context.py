"""Every document in one pass: each token looks back on all before it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from train.evals.perplexity.protocol import Protocol, Window
from train.evals.perplexity.spans import document_spans


@dataclass(frozen=True, slots=True, kw_only=True)
class FullContext(Protocol):
    """Takes nothing: a document is its own length."""

    name: ClassVar[str] = "full_context"

    @property
    def definition(self) -> str:
        return "Each document whole; all tokens but the first are scored."

    def windows(self, ends: Sequence[int]) -> list[Window]:
        return [Window(start=begin, stop=end, first=begin) for begin, end in document_spans(ends)]
