"""What a task hands out: prompts in parts, and the outputs that count as right.

A prompt is the texts of its parts, one after the other, nothing between them. Parts are kept apart
because each keeps its own cuts: a segment never runs from the question into the document.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

Kind = Literal["instruction", "question", "document", "text"]
Metric = Literal["rouge", "f1", "exact_match"]
SPLITS = ("train", "validation", "test")


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One stretch of a prompt; "text" is the fixed wording between the others."""

    kind: Kind
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A prompt, and its references: one to learn from, several to be scored against."""

    id: str
    parts: tuple[Part, ...]
    references: tuple[str, ...]  # () where outputs are not public

    @property
    def prompt(self) -> str:
        """The whole prompt, as a model reads it."""
        return "".join(part.text for part in self.parts)


class Task(Protocol):
    """A named set of examples in three splits, with the metric that judges them."""

    @property
    def name(self) -> str: ...

    @property
    def metric(self) -> Metric: ...

    @property
    def output_tokens(self) -> int:
        """Most tokens of an output, the end of text not counted."""
        ...

    @property
    def last_tokens(self) -> int:
        """Tokens at the end of a prompt that truncation keeps (truncation.py)."""
        ...

    def examples(self, split: str) -> Sequence[Example]:
        """The examples of "train", "validation" or "test", in the order of the data.

        train: one example a row, so one for each reference (an id may come several times).
        validation, test: one example an id, its references merged.
        """
        ...
