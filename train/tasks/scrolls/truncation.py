"""How an example is cut to a training row: the first and the last tokens of the prompt are kept.

    row_length = first + last + output + 1 (the end of the text)

BiPE's recipe at 8192 tokens: summaries keep 7184 first and 7 last prompt tokens and at most 1000
of the output; questions and inference keep 7991 first, and at most 200 of the output. So `last`
and `output` are a task's own, and `first` is what the row has left. It is a function over the
counts of tokens: ids and marks are indexed by what it returns.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Literal

import numpy as np

from train.errors import DataError

OnLong = Literal["cut", "error"]
_END = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What is kept of one example.

    prompt: indices of the prompt tokens that are kept, in order. joint: where in `prompt` the last
    tokens begin, if tokens were left out before them; a segment begins there. output: number of
    output tokens that are kept. prompt_cut, output_cut: numbers of tokens left out.
    """

    prompt: np.ndarray
    joint: int | None
    output: int
    prompt_cut: int
    output_cut: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Truncation:
    """The room of a row, in tokens.

    last: prompt tokens kept at the end. output: most output tokens. on_long: "cut" what is too
    long, or "error".
    """

    row_length: int
    output: int
    last: int = 0
    on_long: OnLong = "cut"

    def __post_init__(self) -> None:
        if self.output < 1 or self.last < 0:
            raise DataError(
                f"output_tokens must be at least 1 and last_tokens at least 0, were: {self.output} "
                f"and {self.last}"
            )
        if self.on_long not in ("cut", "error"):
            raise DataError(f"on_long must be cut or error, was: {self.on_long}")
        if self.first < 1:
            raise DataError(
                f"row_length must hold {self.last} last tokens of the prompt, {self.output} of the "
                f"output and its end, and some of the document, was: {self.row_length}; set "
                f"row_length to more than {self.row_length - self.first}, or the task's "
                "output_tokens to fewer"
            )

    @property
    def first(self) -> int:
        """Prompt tokens kept at the start."""
        return self.row_length - self.last - self.output - _END

    def keep(self, *, prompt: int, output: int = 0, where: str = "") -> Kept:
        """What is kept of an example with so many tokens; without `output`, to be decoded.

        Raises DataError naming `where` (the example) if it is too long and that is an error.
        """
        room = self.first + self.last
        prompt_cut, output_cut = max(0, prompt - room), max(0, output - self.output)
        if self.on_long == "error" and (prompt_cut or output_cut):
            raise DataError(
                f"{where}: the prompt must have at most {room} tokens and the output {self.output} "
                f"in a row of {self.row_length}, had: {prompt} and {output}. Set row_length to "
                "more, or on_long=cut"
            )
        kept = np.arange(prompt - prompt_cut)
        kept[self.first :] += prompt_cut
        return Kept(
            prompt=kept,
            joint=self.first if prompt_cut and self.last else None,
            output=output - output_cut,
            prompt_cut=prompt_cut,
            output_cut=output_cut,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """How much truncation left out: numbers of examples, and of tokens."""

    examples: int = 0
    prompts_cut: int = 0
    prompt_tokens_cut: int = 0
    outputs_cut: int = 0
    output_tokens_cut: int = 0

    def __add__(self, other: Counts) -> Counts:
        names = [field.name for field in fields(self)]
        return Counts(**{name: getattr(self, name) + getattr(other, name) for name in names})


def counted(kept: Iterable[Kept]) -> Counts:
    """The counts of many examples."""
    total = Counts()
    for one in kept:
        total += Counts(
            examples=1,
            prompts_cut=int(one.prompt_cut > 0),
            prompt_tokens_cut=one.prompt_cut,
            outputs_cut=int(one.output_cut > 0),
            output_tokens_cut=one.output_cut,
        )
    return total
