"""What a task provides: prompts in parts, and the outputs that count as right.

Each part keeps its own cuts, so a segment never runs from the question into the document. Parts
come from a template, with the names of fields in braces:

    "{instruction}\\n\\n{question}\\n\\n{document}\\n\\nSummary:"

White space after a field belongs to the part before it, as a separator belongs to the segment that
it ends; other wording is a part of kind "text". An empty field has no part.
"""

import string
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from train.errors import DataError

Kind = Literal["instruction", "question", "document", "text"]
Metric = Literal["rouge", "f1", "exact_match"]
SPLITS = ("train", "validation", "test")


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One part of a prompt; "text" is the fixed wording between the fields."""

    kind: Kind
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A prompt and its references: one to learn from, several to score against."""

    id: str
    parts: tuple[Part, ...]
    references: tuple[str, ...]  # () where outputs are not public

    @property
    def prompt(self) -> str:
        return "".join(part.text for part in self.parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """A template, checked on construction.

    needs: fields that it must name, each once; only "instruction" is allowed besides. Raises
    DataError naming the task, the key and the field.
    """

    task: str
    template: str
    needs: tuple[str, ...]
    instruction: str = ""
    pieces: tuple[tuple[str, str], ...] = field(init=False)  # wording, and the field after it

    def __post_init__(self) -> None:
        try:
            parsed = list(string.Formatter().parse(self.template))
        except ValueError as fault:
            raise self._fault(
                f"is not a valid template: {fault}; double the braces that belong to the text"
            ) from None
        object.__setattr__(self, "pieces", tuple((text, name or "") for text, name, *_ in parsed))
        allowed = {"instruction", *self.needs}
        for _, name, spec, conversion in parsed:
            if name is not None and (name not in allowed or spec or conversion):
                fields = ", ".join(f"{{{name}}}" for name in sorted(allowed))
                raise self._fault(f"must have no field but {fields}, was: {self.template!r}")
        names = [name for _, name in self.pieces]
        for name in (*self.needs, *(["instruction"] if self.instruction else [])):
            if names.count(name) != 1:
                raise self._fault(f"must name the field {{{name}}} once, was: {self.template!r}")

    def parts(self, *, document: str, question: str = "") -> tuple[Part, ...]:
        """Return the non-empty parts of one prompt, in order."""
        fields: dict[Any, str] = {"instruction": self.instruction}
        fields |= {"question": question, "document": document}
        parts: list[tuple[Kind, str]] = []
        for wording, name in self.pieces:
            words = wording.lstrip()
            if parts:
                kind, text = parts[-1]
                parts[-1] = (kind, text + wording[: len(wording) - len(words)])
            if words:
                parts.append(("text", words))
            if name and fields[name]:
                parts.append((cast(Kind, name), fields[name]))
        return tuple(Part(kind=kind, text=text) for kind, text in parts)

    def _fault(self, rule: str) -> DataError:
        return DataError(f"task {self.task}: prompt {rule}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Task(ABC):
    """A named set of examples in three splits, and the metric that scores it.

    output_tokens: maximum per output, without the end of the text. last_tokens: prompt tokens that
    truncation keeps at the end.
    """

    name: str
    prompt: str
    output_tokens: int
    last_tokens: int = 0
    instruction: str = ""

    @property
    @abstractmethod
    def metric(self) -> Metric: ...

    @abstractmethod
    def examples(self, split: str) -> Sequence[Example]:
        """Return the examples of "train", "validation" or "test", in the order of the data.

        train: one example per row, so an id occurs once per reference. validation, test: one
        example per id, with all its references.
        """

    def template(self, *needs: str) -> Prompt:
        """Return the template of prompts; DataError unless it names these fields."""
        return Prompt(
            task=self.name, template=self.prompt, needs=needs, instruction=self.instruction
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Unprompted:
    """One example before it has a prompt. output: None where it is not public."""

    id: str
    question: str
    document: str
    output: str | None
    where: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Examples(Sequence[Example]):
    """One example per group; the rows of a group differ only in the output.

    Built on access, so that documents are held once: a book of NarrativeQA has fifty questions.
    """

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
