"""`Records`: segments are the records of a file, as readers of its format expect them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import ClassVar, Final

from segmenters.base import Cuts, Meta, Segmenter
from segmenters.checks import require_choice
from segmenters.fields import path_of
from segmenters.records import formats
from segmenters.records.logs import LOG
from segmenters.records.reading import Format, Reading
from segmenters.records.statements import JSON, SQL
from segmenters.records.yaml import YAML
from segmenters.registry import language_of, route_of_file

FORMATS: Final[Mapping[str, Format]] = {
    **formats.FORMATS,
    **{"json": JSON, "log": LOG, "sql": SQL, "yaml": YAML},
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Records(Segmenter):
    """Cuts a file at the starts of its records: cues, rows, entries, items, statements.

    `format`: "csv", "log", "sql" ...; "auto" uses the file name, else "log", whose records are
    lines unless the text has times. The last level of some formats is coarser: sections,
    tables, targets, stages.
    """

    format: str = "auto"
    version: ClassVar[int] = 4

    def __post_init__(self) -> None:
        require_choice("format", self.format, ("auto", *FORMATS))

    @property
    def lookahead(self) -> int:
        found = self._format
        return max(found.head, found.reach)

    @property
    def level_names(self) -> tuple[str, ...]:
        return self._format.names

    def choose(
        self, *, text: str, kind: str | None = None, name: str | None = None, meta: Meta = None
    ) -> Segmenter:
        path = path_of(name, meta or {}, known=_format_of)
        found = _format_of(path or "")
        if self.format != "auto" or found is None:
            return self
        return dataclasses.replace(self, format=found)

    def machine(self) -> Reading:
        return self._format.reading(format=self._format)

    @property
    def _format(self) -> Format:
        return FORMATS["log" if self.format == "auto" else self.format]

    def _ends(self, text: str) -> Cuts:
        return self.machine().cuts_of(text, final=True)[0]

    def _levels(self, text: str) -> Iterator[Cuts]:
        places, levels = self.machine().cuts_of(text, final=True)
        return (places[levels > rank] for rank in range(len(self.level_names)))


def _format_of(path: str) -> str | None:
    found = route_of_file(PurePath(path.lower()))
    if found == "code":  # JSON and SQL are languages, too
        found = language_of(path)
    return found if found in FORMATS else None
