"""From the fields of an example to the parts of its prompt, by a template.

    "{instruction}\\n\\n{question}\\n\\n{document}\\n\\nSummary:"

A template is the wording with the names of fields in braces. White space after a field belongs to
the part it ends, as a separator belongs to the segment that it ends; other wording is a part of
kind "text". A field that is empty leaves no part.
"""

from __future__ import annotations

import string
from dataclasses import dataclass, field

from train.errors import DataError
from train.tasks.scrolls.example import Kind, Part

_KINDS: dict[str, Kind] = {
    "instruction": "instruction",
    "question": "question",
    "document": "document",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """A template, checked when it is made.

    needs: fields that it must name, each once; it may name no others but "instruction".
    Raises DataError naming the task, the key and the field.
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
            raise self._fault(f"is no template: {fault}; a brace of the text is doubled") from None
        object.__setattr__(self, "pieces", tuple((text, name or "") for text, name, *_ in parsed))
        allowed = {"instruction", *self.needs}
        for _, name, spec, conversion in parsed:
            if name is not None and (name not in allowed or spec or conversion):
                known = ", ".join(f"{{{name}}}" for name in sorted(allowed))
                raise self._fault(f"names no field by {{{name}}}; there is: {known}")
        names = [name for _, name in self.pieces]
        for name in (*self.needs, *(["instruction"] if self.instruction else [])):
            if names.count(name) != 1:
                raise self._fault(f"must name the field {{{name}}} once, was: {self.template!r}")

    def parts(self, *, document: str, question: str = "") -> tuple[Part, ...]:
        """The parts of one prompt, in order; none is empty."""
        fields = {"instruction": self.instruction, "question": question, "document": document}
        parts: list[tuple[Kind, str]] = []
        for wording, name in self.pieces:
            words = wording.lstrip()
            if parts:
                kind, text = parts[-1]
                parts[-1] = (kind, text + wording[: len(wording) - len(words)])
            if words:
                parts.append(("text", words))
            if name and fields[name]:
                parts.append((_KINDS[name], fields[name]))
        return tuple(Part(kind=kind, text=text) for kind, text in parts)

    def _fault(self, rule: str) -> DataError:
        return DataError(f"task {self.task}: prompt {rule}")
