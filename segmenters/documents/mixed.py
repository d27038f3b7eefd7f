"""Documents of several kinds of text: each part goes to the segmenter of its kind.

Parts tile the document and always end a segment; a `View` maps what is read back to the document,
so offsets are exact. A document inside of a document (a quotation, a cell of a notebook) is cut by
its own format.
"""

from __future__ import annotations

import dataclasses
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Final

from segmenters.base import END_OF_TEXT, Ruling, Segmenter, nested
from segmenters.checks import require_choice
from segmenters.code import advice
from segmenters.code.lines import Lines
from segmenters.code.tables import TABLES
from segmenters.documents import html, latex, markdown, notebook, rst
from segmenters.documents.parts import LEVELS, Part, after_blank_lines, marked_ends, masked
from segmenters.proofs.latex import LaTeXProofs
from segmenters.prose import rules
from segmenters.prose.sentences import Sentences
from segmenters.registry import PROOFS, of_kind, route_of_language

FORMATS: Final[Mapping[str, Callable[[str], Iterator[Part]]]] = {
    "html": html.parts,
    "latex": latex.parts,
    "markdown": markdown.parts,
    "notebook": notebook.parts,
    "rst": rst.parts,
}
# Segmenters of the kinds of parts that the registry does not name.
_OWN: Final[Mapping[str, Segmenter]] = {
    "tagged": html.Tagged(),
    "tex": LaTeXProofs(),
}
_PARTS: Final = ("lines", "prose")
_DEEPEST: Final = 8  # deeper documents inside of documents are prose
# "block" has two levels, which not all kinds of text have.
GRANULARITIES: Final = ("physical", "logical")


@dataclass(frozen=True, kw_only=True, slots=True)
class Mixed(Segmenter):
    """Cuts each part of a document according to its kind.

    `format`: "markdown", "rst", "latex", "html" or "notebook". `granularity` of code: "physical",
    or "logical" where its language is known and its grammar installed.

    A paragraph is a paragraph of the format, a heading, an item of a list, a listing, a table or
    the output of a cell. A section begins at a heading or a cell.
    """

    format: str = "markdown"
    granularity: str = "physical"
    version: ClassVar[int] = 7
    # Where a part ends depends on what closes it.
    lookahead = None
    level_names = LEVELS

    def __post_init__(self) -> None:
        require_choice("format", self.format, FORMATS)
        require_choice("granularity", self.granularity, GRANULARITIES)

    def versions(self) -> dict[str, str]:
        segmenters = {**_OWN, **{kind: of_kind(kind) for kind in (*_PARTS, *PROOFS)}}
        marked = {"marked.version": "1", "marked.tables": rules.tables()}
        return marked | versions_of(segmenters) | _versions_of_code(self.granularity)

    def _why(self, text: str) -> list[Ruling]:
        """Return the rule of the part that each place is in, and where parts end."""
        ends = set(self.cut(text)[1:].tolist())
        rulings = {ruling.place: ruling for ruling in _why_in(text, self.format, self.granularity)}
        rulings |= {p: Ruling(p, True, type(self).__name__) for p in ends - rulings.keys()}
        rulings |= {len(text): Ruling(len(text), True, END_OF_TEXT)} if text else {}
        return [
            dataclasses.replace(rulings[place], ends=place in ends)
            for place in sorted(rulings)
            if place > 0
        ]

    def _ends(self, text: str) -> Iterable[int]:
        return _ends_of(text, self.format, self.granularity, levels=1)[0]

    def _levels(self, text: str) -> Sequence[Iterable[int]]:
        return _ends_of(text, self.format, self.granularity, levels=len(LEVELS))


# What `why` calls kinds of parts.
_SHOWN_AS: Final = {"marked": "text", "tagged": "text", "line": "a line", "tex": "text"}


def _why_in(text: str, format: str, granularity: str, *, depth: int = 0) -> list[Ruling]:
    """Return the rule at each place of a document, also in documents inside of it."""
    rules: dict[int, Ruling] = {}
    start = 0
    for part in FORMATS[format](text):
        shown = part.view.text if part.view else text[start : part.end]
        inner: list[Ruling] = []
        if part.kind != "line" and not _is_line(part, shown):
            if part.kind in FORMATS and depth < _DEEPEST:
                inner = _why_in(shown, part.kind, granularity, depth=depth + 1)
            elif part.kind == "marked":
                inner = Sentences().why(masked(shown))
            else:
                inner = _segmenter_of(part, granularity).why(shown)
        for ruling in inner:
            if ruling.place < len(shown):
                place = int(part.view.places[ruling.place]) if part.view else start + ruling.place
                rules[place] = Ruling(place, ruling.ends, ruling.rule)
        rules[part.end] = Ruling(
            part.end, True, f"end of {_SHOWN_AS.get(part.kind, part.kind)} in {format}"
        )
        start = part.end
    return [rules[place] for place in sorted(rules)]


def _ends_of(
    text: str, format: str, granularity: str, *, levels: int, depth: int = 0
) -> list[array[int]]:
    """Return where segments of each level end, also in documents inside of the document."""
    level_ends = [array("q") for _ in range(levels)]
    start, coarse = 0, range(1, levels)
    for part in FORMATS[format](text):
        shown = part.view.text if part.view else text[start : part.end]
        for level in coarse:
            if part.section or (level == 1 and part.paragraph):
                level_ends[level].append(start)
        if part.kind != "line" and not _is_line(part, shown):
            inner: Sequence[Iterable[int]]
            if part.kind in FORMATS and depth < _DEEPEST:
                inner = _ends_of(shown, part.kind, granularity, levels=levels, depth=depth + 1)
            else:
                inner = _ends_in(part, shown, granularity, levels)
            # What is quoted has no section of the document; code has no paragraph.
            for level, ends in enumerate(inner[:2] if part.view else inner):
                if part.view:
                    places = part.view.places.data
                    level_ends[level].extend(places[end] for end in ends if end < len(places))
                else:
                    level_ends[level].extend(map(start.__add__, ends))
        level_ends[0].append(part.end)
        start = part.end
    return level_ends


def _ends_in(part: Part, shown: str, granularity: str, levels: int) -> list[Iterable[int]]:
    """Return the ends of levels in a part that is no document."""
    if part.kind == "marked":  # most parts are such
        ends = marked_ends(shown)
        paragraphs = [*after_blank_lines(shown)] if levels > 1 else []
        if not paragraphs:
            return [ends]
        return [cuts[1:-1].data for cuts in nested([ends, paragraphs], len(shown), count=2)]
    segmenter = _segmenter_of(part, granularity)
    if levels == 1 or part.kind in ("code", "lines"):
        return [segmenter.cut(shown)[1:-1].data]
    if part.kind not in _OWN:
        return [segmenter.cut(shown)[1:-1].data, after_blank_lines(shown)]
    return [cuts[1:-1].data for cuts in segmenter.levels(shown)]


def _is_line(part: Part, shown: str) -> bool:
    """Return whether the part is one line of code, which nothing cuts: hostile text has many."""
    return (
        (part.kind == "lines" or (part.kind == "code" and not part.language))
        and shown.find("\n", 0, len(shown) - 1) < 0
        and "\r" not in shown
    )


def _segmenter_of(part: Part, granularity: str) -> Segmenter:
    if part.kind == "code":
        return _segmenter_of_code((part.language or "").lower(), granularity)
    if part.kind in _OWN:
        return _OWN[part.kind]
    return of_kind(part.kind if part.kind in _PARTS else "prose")  # a document nested too deep


@lru_cache(maxsize=256)
def _segmenter_of_code(language: str, granularity: str) -> Segmenter:
    """Return the segmenter of a language as a document names it, known or not."""
    if language in PROOFS:
        return of_kind(language)
    if route_of_language(language, is_code=True) == "lines":  # SQL, YAML: they have no grammar
        return of_kind("lines")
    return _Listing(granularity=granularity, fallback=True).for_document(language=language)


class _Listing(Lines):
    """Code in a document, of which only the document can name the language."""

    unknown = advice.IN_DOCUMENT


def versions_of(segmenters: Mapping[str, Segmenter]) -> dict[str, str]:
    """Return what the cuts of several segmenters depend on, with their names in front."""
    return {
        f"{kind}.{name}": value
        for kind, segmenter in segmenters.items()
        for name, value in {"version": str(segmenter.version), **segmenter.versions()}.items()
    }


def _versions_of_code(granularity: str) -> dict[str, str]:
    """Return what the cuts of code depend on: for logical lines, the installed grammars."""
    numbers = {"code.version": str(Lines.version)}
    for language in TABLES if granularity == "logical" else ():
        if advice.missing(language) is None:
            numbers |= {f"code.{name}": value for name, value in advice.versions(language).items()}
    return numbers
