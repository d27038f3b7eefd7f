"""Documents of several kinds of text: each part goes to the segmenter of its kind.

Parts tile the document and a part always ends a segment, so offsets are exact. Prose goes to the
causal rules of sentences, code to `Lines`, mathematics in LaTeX to `LaTeXProofs`. A notebook is
kept as the text of its JSON file, in which a line of a cell is a line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from segmenters.base import Segmenter
from segmenters.code import parsed
from segmenters.code.tables import TABLES
from segmenters.lines import Lines
from segmenters.mixed import html, markdown, papers
from segmenters.mixed.parts import Part
from segmenters.proofs import LaTeXProofs
from segmenters.sentences import Sentences


def _notebook(text: str) -> Iterator[Part]:
    yield Part(end=len(text), kind="code")


FORMATS: Final[Mapping[str, Callable[[str], Iterator[Part]]]] = {
    "html": html.parts,
    "latex": papers.parts,
    "markdown": markdown.parts,
    "notebook": _notebook,
}
_SEGMENTERS: Final[Mapping[str, Segmenter]] = {
    "prose": Sentences(backend="rules"),
    "latex": LaTeXProofs(),
    "tagged": html.Tagged(),
}
# "block" has two levels, which not all kinds of text have.
GRANULARITIES: Final = ("physical", "logical")


@dataclass(frozen=True, kw_only=True, slots=True)
class Mixed(Segmenter):
    """Cuts the parts of a document by their kinds.

    `format`: "markdown", "latex", "html" or "notebook". `granularity` of code: "physical", or
    "logical" where its language is known and its grammar installed.
    """

    format: str = "markdown"
    granularity: str = "physical"

    def __post_init__(self) -> None:
        if self.format not in FORMATS:
            raise ValueError(
                f"format must be one of {', '.join(sorted(FORMATS))}, was: {self.format!r}"
            )
        require_granularity(self.granularity)

    @property
    def lookahead(self) -> int | None:
        # Where a part ends depends on what closes it.
        return None

    def versions(self) -> dict[str, str]:
        """What the segmenters of the parts depend on."""
        return versions_of(_SEGMENTERS) | versions_of_code(self.granularity)

    def _ends(self, text: str) -> Iterable[int]:
        ends: list[int] = []
        start = 0
        for part in FORMATS[self.format](text):
            if part.kind != "line":
                segmenter = _SEGMENTERS.get(part.kind)
                if segmenter is None:
                    code = Lines(granularity=self.granularity, fallback=True)
                    segmenter = code.for_document(language=part.language)
                cuts = segmenter.cut(text[start : part.end])
                ends += (cuts[1:-1] + start).tolist()
            ends.append(part.end)
            start = part.end
        return ends


def require_granularity(granularity: str) -> None:
    """Raise ValueError unless code in one level can be cut so."""
    if granularity not in GRANULARITIES:
        raise ValueError(
            f"granularity must be one of {', '.join(GRANULARITIES)}, was: {granularity!r}"
        )


def versions_of(segmenters: Mapping[str, Segmenter]) -> dict[str, str]:
    """What the cuts of several segmenters depend on, by their names."""
    return {
        f"{kind}.{name}": value
        for kind, segmenter in segmenters.items()
        for name, value in {"version": str(segmenter.version), **segmenter.versions()}.items()
    }


def versions_of_code(granularity: str) -> dict[str, str]:
    """What the cuts of code depend on: logical lines on the grammars that are installed."""
    found = {"code.version": str(Lines.version)}
    if granularity == "physical":
        return found
    installed = [language for language in TABLES if parsed.missing(language) is None]
    return found | {
        f"code.{name}": value
        for language in installed
        for name, value in parsed.versions(language).items()
    }
