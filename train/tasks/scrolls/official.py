"""The seven tasks of SCROLLS in the official format (Shaham et al., 2022, arXiv 2201.03533).

A row is {id, pid, input, output}. Where a task has a question, it stands before the document, a
blank line between them; in QuALITY its four options, (A) to (D), belong to it. Several references
are several rows of one id, each with a pid of its own. Outputs of test splits are not public.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from train.data.reading.documents import clean
from train.errors import DataError
from train.tasks.scrolls.archive import rows
from train.tasks.scrolls.example import Example, Metric
from train.tasks.scrolls.examples import Examples
from train.tasks.scrolls.prompt import Prompt

HUB = "hf://datasets/tau/scrolls"
Layout = Literal["document", "query", "choices"]
# How an input is laid out, and what scores an output; in the order of a submission.
TASKS: dict[str, tuple[Layout, Metric]] = {
    "gov_report": ("document", "rouge"),
    "summ_screen_fd": ("document", "rouge"),
    "qmsum": ("query", "rouge"),
    "narrative_qa": ("query", "f1"),
    "qasper": ("query", "f1"),
    "quality": ("choices", "exact_match"),
    "contract_nli": ("query", "exact_match"),
}
_BLANK = "\n\n"
_OPTIONS = re.compile(r"\(A\).*?\(B\).*?\(C\).*?\(D\)", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Official:
    """One official task.

    path: its zip, a folder of zips or of unpacked tasks, or an address of one (archive.py).
    prompt, instruction: the template and its fixed instruction (prompt.py).
    output_tokens: most tokens of an output. last_tokens: tokens at the end of a prompt that
    truncation keeps (truncation.py).
    """

    name: str
    prompt: str
    output_tokens: int
    last_tokens: int
    path: str = HUB
    instruction: str = ""

    def __post_init__(self) -> None:
        if self.name not in TASKS:
            raise DataError(f"task must be one of {', '.join(TASKS)}, was: {self.name}")
        self.template()

    @property
    def metric(self) -> Metric:
        return TASKS[self.name][1]

    @property
    def layout(self) -> Layout:
        return TASKS[self.name][0]

    def template(self) -> Prompt:
        """The template of prompts, checked."""
        needs = ("document",) if self.layout == "document" else ("question", "document")
        return Prompt(
            task=self.name, template=self.prompt, needs=needs, instruction=self.instruction
        )

    def examples(self, split: str) -> Sequence[Example]:
        """See `example.Task.examples`; the whole split is read and checked first.

        Raises DataError naming file, row and field: for a split that is missing, a damaged
        archive, a field that is missing or empty, a pid that comes twice, outputs of some rows
        alone, and an id with two inputs where its rows are merged.
        """
        read = list(self._rows(split))
        if not read:
            raise DataError(f"{self.path}: split {split} of task {self.name} has no rows")
        hidden = [row for row in read if row.output is None]
        if hidden and len(hidden) < len(read):
            raise DataError(
                f"{hidden[0].where}: output must be there for all rows of a split or for none, "
                f"is missing in {len(hidden)} of {len(read)}"
            )
        merged = [[row] for row in read] if split == "train" else _merged(read)
        return Examples(groups=merged, prompt=self.template())

    def _rows(self, split: str) -> Iterator[Row]:
        # The rows of one document share its text: NarrativeQA has fifty for each.
        texts: dict[str, str] = {}
        seen: dict[str, str] = {}
        for where, row in rows(self.path, task=self.name, split=split):
            pid = _text(row, "pid", where=where)
            if pid in seen:
                raise DataError(f"{where}: pid must come once, was: {pid!r}, also in {seen[pid]}")
            seen[pid] = where
            question, document = split_input(
                _text(row, "input", where=where), layout=self.layout, where=where
            )
            hidden = split == "test" and row.get("output") in (None, "")
            yield Row(
                id=_text(row, "id", where=where),
                question=question,
                document=texts.setdefault(document, document),
                output=None if hidden else _text(row, "output", where=where),
                where=where,
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A row, its input taken apart; where: file and number, for messages."""

    id: str
    question: str
    document: str
    output: str | None
    where: str


def split_input(text: str, *, layout: Layout, where: str) -> tuple[str, str]:
    """The question ("" for a task without one) and the document of an input.

    Raises DataError naming `where` if one of them is missing.
    """
    if layout == "document":
        return "", text
    start = 0
    if layout == "choices":
        options = _OPTIONS.search(text)
        if options is None:
            raise DataError(f"{where}: input must begin with a question and its options (A) to (D)")
        start = options.end()
    end = text.find(_BLANK, start)
    question, document = (text[:end], text[end:].lstrip("\n")) if end >= 0 else (text, "")
    if not question.strip() or not document.strip():
        raise DataError(
            f"{where}: input must be a question, a blank line, and a document, was: {text[:60]!r}"
        )
    return question, document


def _merged(read: Sequence[Row]) -> list[list[Row]]:
    groups: dict[str, list[Row]] = {}
    for row in read:
        group = groups.setdefault(row.id, [])
        if group and (row.question, row.document) != (group[0].question, group[0].document):
            raise DataError(
                f"{row.where}: id must name one input, but {row.id!r} has another input in "
                f"{group[0].where}"
            )
        group.append(row)
    return list(groups.values())


def _text(row: Mapping[str, Any], field: str, *, where: str) -> str:
    value = row.get(field)
    if not isinstance(value, str):
        was = type(value).__name__ if field in row else f"missing (there is: {', '.join(row)})"
        raise DataError(f"{where}: {field} must be text, was: {was}")
    if not value.strip():
        raise DataError(f"{where}: {field} must not be empty, was: {value!r}")
    return clean(value)[0]
