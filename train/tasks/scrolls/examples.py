"""Examples made when they are asked for, so that documents are held once.

A document has many questions (a book of NarrativeQA about fifty), and a prompt is a text of its
own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from train.tasks.scrolls.example import Example
from train.tasks.scrolls.prompt import Prompt


class Unprompted(Protocol):
    """One example before it has a prompt; output: None where it is not public."""

    @property
    def id(self) -> str: ...

    @property
    def question(self) -> str: ...

    @property
    def document(self) -> str: ...

    @property
    def output(self) -> str | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Examples(Sequence[Example]):
    """One example a group; what is in a group differs in the output alone."""

    groups: Sequence[Sequence[Unprompted]]
    prompt: Prompt

    def __len__(self) -> int:
        return len(self.groups)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return Examples(groups=self.groups[index], prompt=self.prompt)
        rows = self.groups[index]
        return Example(
            id=rows[0].id,
            parts=self.prompt.parts(document=rows[0].document, question=rows[0].question),
            references=tuple(row.output for row in rows if row.output is not None),
        )
