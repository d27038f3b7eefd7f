"""Documents of several files, such as repositories: each file by its own route, files as a level.

The reader states the files in the field `files` of the document: a list of objects with `path`,
`start` and `body`, where the file and, behind its header, its text begin (characters), and `meta`,
its own fields. A document without that field is one file.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any

from segmenters.base import (
    Cuts,
    Machine,
    Meta,
    Segmenter,
    SegmenterError,
    shares_of,
    tallied,
    tally,
)
from segmenters.levels.levels import Derived, Never

FIELD = "files"
HEADERS = "headers of files"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Repository(Derived):
    """Cuts each file by what `of` chooses for it; "file" is the level above those of `of`.

    The header of a file is a segment; every level is cut where a file begins.
    """

    lookahead = None
    # Of a chosen document: start, start of the text, and segmenter of each file.
    files: tuple[tuple[int, int, Segmenter], ...] = dataclasses.field(
        default=(), init=False, repr=False
    )

    @property
    def level_names(self) -> tuple[str, ...]:
        return (*self.of.level_names, "file")

    def choose(
        self, *, text: str, kind: str | None = None, name: str | None = None, meta: Meta = None
    ) -> Repository:
        if self.files:
            return self
        whole = {"path": name, "start": 0, "body": 0, "meta": meta or {}}
        stated = (meta or {}).get(FIELD)
        files: list[Any] = [whole] if stated is None else [*stated]
        _require_places(files, len(text))
        ends = [*(file["start"] for file in files[1:]), len(text)]
        choices = []
        for file, end in zip(files, ends, strict=True):
            fields, piece = file.get("meta") or {}, text[file["body"] : end]
            chosen = self.of.choose(text=piece, kind=kind, name=file["path"], meta=fields)
            choices.append((file["start"], file["body"], chosen))
        twin = copy.copy(self)
        object.__setattr__(twin, "files", tuple(choices))
        return twin

    def _ends(self, text: str) -> Iterable[int]:
        for start, body, (cuts, *_) in self._cut_files(text, coarse=False):
            yield from (start, body, *(body + cuts).tolist())

    def _levels(self, text: str) -> list[list[int]]:
        level_ends: list[list[int]] = [[] for _ in self.level_names]
        for start, body, levels in self._cut_files(text, coarse=True):
            level_ends[0].append(body)
            for level in level_ends:
                level.append(start)
            for level, cuts in zip(level_ends, levels, strict=False):
                level += (body + cuts[1:-1]).tolist()
        return level_ends

    def _cut_files(self, text: str, *, coarse: bool) -> Iterator[tuple[int, int, tuple[Cuts, ...]]]:
        """Yield start, start of the text, and cuts in it of each file; tally its characters."""
        files = self.choose(text=text).files
        ends = [*(start for start, _, _ in files[1:]), len(text)]
        for (start, body, segmenter), end in zip(files, ends, strict=True):
            piece = text[body:end]
            with tallied() as rules:
                levels = segmenter.levels(piece) if coarse else (segmenter.cut(piece),)
            tally(HEADERS, body - start)
            for rule, characters in shares_of(segmenter, rules, len(piece)).items():
                tally(rule, characters)
            yield start, body, levels

    def machine(self) -> Machine:
        return self._only().machine()

    def _coarser_machine(self, level: int) -> Machine:
        only = self._only()
        return only.level_machine(level) if level < len(only.level_names) else Never()

    def _only(self) -> Segmenter:
        if len(self.files) > 1 or any(body for _, body, _ in self.files):
            raise self.refusal("file boundaries are known only for a whole document")
        return self.files[0][2] if self.files else self.of


def _require_places(files: list[Any], length: int) -> None:
    """Raise SegmenterError unless the files follow each other and begin with the text."""
    place = 0
    for number, file in enumerate(files):
        try:
            start, body, _ = file["start"], file["body"], file["path"]
            fits = place <= start <= body <= length and (number > 0 or start == 0)
        except (TypeError, KeyError):
            fits = False
        if not fits:
            raise SegmenterError(
                f"field {FIELD!r}: files must have path, start and body, in order, was: {file!r}"
            )
        place = body
    if not files:
        raise SegmenterError(f"field {FIELD!r}: there must be at least one file")
