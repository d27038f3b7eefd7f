r"""Lines of code as segments: physical lines, statements, top-level definitions.

physical  a segment ends with its line end, "\n", "\r\n" or "\r".
logical   a statement that spans several physical lines is one segment; blank lines and lines of
          comment are segments of their own.
block     logical lines, and above them a level of top-level definitions.

A line end stays with its line and the indentation goes with the line that it indents, so that a
model sees how deep a line is inside of its own segment. `str.splitlines` is not used: it also cuts
at form feeds, vertical tabs and Unicode separators, which may stand inside of a line of code.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, ClassVar

import numpy as np

from segmenters.base import Cuts, Segmenter, SegmenterError
from segmenters.code import definitions, haskell_lines, parsed, python_lines
from segmenters.code.fields import language_of_fields, path_of
from segmenters.code.languages import language_named, language_of, language_of_script
from segmenters.code.physical import character_ends

GRANULARITIES = ("physical", "logical", "block")
# Languages that are read by a machine of their own, without a grammar.
_MACHINES = ("haskell", "python")


@dataclass(frozen=True, kw_only=True, slots=True)
class Lines(Segmenter):
    """Ends a segment at a line end. A blank line is a segment of its own.

    `granularity`: "physical", "logical" or "block"; the latter two know statements. `language`: a
    name of `segmenters.code.languages`, or "auto": what `for_document` said, else what the first
    line of a script asks for, else none, and then lines are physical. Python is read by a state
    machine that can run during generation; other languages need tree-sitter and their grammar,
    which read the whole text. `fallback`: cut physical lines where a grammar is not installed.

    Raises ValueError for an unknown language, and SegmenterError for a missing grammar.
    """

    granularity: str = "physical"
    language: str = "auto"
    fallback: bool = False

    version: ClassVar[int] = 3

    def __post_init__(self) -> None:
        if self.granularity not in GRANULARITIES:
            raise ValueError(
                f"granularity must be one of {', '.join(GRANULARITIES)}, was: {self.granularity!r}"
            )
        if not isinstance(self.language, str):
            raise TypeError(f"language must be a str, was: {type(self.language).__name__}")
        if not isinstance(self.fallback, bool):
            raise TypeError(f"fallback must be a bool, was: {type(self.fallback).__name__}")
        if self.language != "auto":
            object.__setattr__(self, "language", language_named(self.language))
        if self.granularity == "physical" or self.fallback or self.language in ("auto", *_MACHINES):
            return
        if wrong := parsed.missing(self.language):
            raise SegmenterError(wrong)

    def for_document(
        self, *, path: str | PurePath | None = None, language: str | None = None
    ) -> Lines:
        """This segmenter for one document, if its own language is "auto".

        `language` is what the data say, and is not an error if it is unknown here; a `path`
        decides where it says nothing.
        """
        if self.language != "auto":
            return self
        found = None
        if language:
            try:
                found = language_named(language)
            except ValueError:
                found = None
        found = found or (language_of(path) if path else None)
        return dataclasses.replace(self, language=found) if found else self

    def choose(
        self,
        *,
        text: str,
        kind: str | None = None,
        name: str | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> Segmenter:
        """This segmenter in the language of the document's field or name, where it matters."""
        if self.granularity == "physical":
            return self
        language = language_of_fields(meta or {})
        return self.for_document(path=path_of(name, meta or {}), language=language)

    @property
    def lookahead(self) -> int | None:
        if self.granularity == "physical":
            # Whether "\r" ends the line, or the "\n" behind it does, is known one character later.
            return 1
        return python_lines.LOOKAHEAD if self.language == "python" else None

    def levels(self, text: str) -> tuple[Cuts, ...]:
        """Cuts of the lines; for granularity "block" also of the top-level definitions.

        Every cut of the second level is one of the first. What stands between two definitions is
        a segment of the second level.
        """
        if self.granularity != "block":
            return (self.cut(text),)
        language = self._language_for(text)
        if isinstance(text, str) and language is not None and language not in _MACHINES:
            return parsed.levels(text, language)
        cuts = self.cut(text)
        if language is None:
            return (cuts, np.unique(cuts[[0, -1]]))
        return (cuts, definitions.of_machine(text, cuts, language))

    def versions(self) -> dict[str, str]:
        """The versions of tree-sitter and of the grammar that decides, if one is named."""
        if self.granularity == "physical" or self.language in ("auto", *_MACHINES):
            return {}
        return {} if parsed.missing(self.language) else parsed.versions(self.language)

    def _language_for(self, text: str) -> str | None:
        """The language that decides about lines; None: lines are physical."""
        if self.granularity == "physical":
            return None
        language = self.language if self.language != "auto" else language_of_script(text)
        if language is None or language in _MACHINES:
            return language
        return None if self.fallback and parsed.missing(language) else language

    def _ends(self, text: str) -> Cuts:
        language = self._language_for(text)
        if language is None:
            return character_ends(text)
        if language == "python":
            return np.array(python_lines.PythonLines().read_all(text), dtype=np.int64)
        if language == "haskell":
            return haskell_lines.item_ends(text)
        return parsed.logical_ends(text, language)
