"""Documents of several kinds of text: each part goes to the segmenter of its kind.

Parts tile the document and always end a segment; a `View` maps what is read back to the document,
so offsets are exact. A document inside of a document (a quotation, a cell of a notebook) is cut by
its own format.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Final

from segmenters.base import Segmenter, nested
from segmenters.checks import require_choice
from segmenters.code import parsed
from segmenters.code.lines import Lines
from segmenters.code.tables import TABLES
from segmenters.documents import email, html, latex, markdown, notebook, rst
from segmenters.documents.light import LIGHT
from segmenters.documents.parts import LEVELS, Part, after_blank_lines, marked_ends
from segmenters.proofs.latex import LaTeXProofs
from segmenters.prose import rules
from segmenters.records.records import FORMATS as RECORDS
from segmenters.records.records import Records
from segmenters.registry import PROOFS, of_kind, route_of_language

FORMATS: Final[Mapping[str, Callable[[str], Iterator[Part]]]] = {
    "diff": email.changes,
    "email": email.parts,
    "html": html.parts,
    "latex": latex.parts,
    "markdown": markdown.parts,
    "notebook": notebook.parts,
    "rst": rst.parts,
    **LIGHT,
}
# The formats inside of documents, with one that occurs only there.
_INNER: Final = {**FORMATS, "letter": email.letter}
# Segmenters of the kinds of parts that the registry does not name.
_OWN: Final[Mapping[str, Segmenter]] = {
    "tagged": html.Tagged(),
    "tex": LaTeXProofs(),
    "changes": email.Changes(),
}
_PARTS: Final = ("lines", "prose")
_DEEPEST: Final = 8  # deeper documents inside of documents are prose
# "block" has two levels, which not all kinds of text have.
GRANULARITIES: Final = ("physical", "logical")


@dataclass(frozen=True, kw_only=True, slots=True)
class Mixed(Segmenter):
    """Cuts each part of a document according to its kind.

    `format`: "markdown", "rst", "latex", "html", "notebook", "email", "diff", "asciidoc", "org",
    "mediawiki", "typst" or "man". `granularity` of code: "physical", or "logical" where its
    language is known and its grammar installed; records (SQL, YAML ...) need none.

    A paragraph is a paragraph of the format, a heading, an item of a list, a listing, a table, the
    output of a cell, the headers of a message, or a hunk. A section begins at a heading, a cell, a
    message, or the changes of another file.
    """

    format: str = "markdown"
    granularity: str = "physical"
    version: ClassVar[int] = 4
    # Where a part ends depends on what closes it.
    lookahead = None
    level_names = LEVELS

    def __post_init__(self) -> None:
        require_choice("format", self.format, FORMATS)
        require_choice("granularity", self.granularity, GRANULARITIES)

    def versions(self) -> dict[str, str]:
        known = {**_OWN, **{kind: of_kind(kind) for kind in (*_PARTS, *PROOFS)}}
        marked = {"marked.version": "1", "marked.tables": rules.tables()}
        return marked | versions_of(known) | _versions_of_code(self.granularity)

    def _ends(self, text: str) -> Iterable[int]:
        return _ends_of(text, self.format, self.granularity, levels=1)[0]

    def _levels(self, text: str) -> Sequence[Iterable[int]]:
        return _ends_of(text, self.format, self.granularity, levels=len(LEVELS))


def _ends_of(
    text: str, format: str, granularity: str, *, levels: int, depth: int = 0
) -> list[array[int]]:
    """Return where segments of each level end, also in documents inside of the document."""
    found = [array("q") for _ in range(levels)]
    start, coarse = 0, range(1, levels)
    for part in _INNER[format](text):
        shown = part.view.text if part.view else text[start : part.end]
        for level in coarse:
            if part.section or (level == 1 and part.paragraph):
                found[level].append(start)
        if part.kind != "line" and not _is_line(part, shown):
            inner: Sequence[Iterable[int]]
            if part.kind in _INNER and depth < _DEEPEST:
                inner = _ends_of(shown, part.kind, granularity, levels=levels, depth=depth + 1)
            else:
                inner = _ends_in(part, shown, granularity, levels)
            # What is quoted has no section of the document; code has no paragraph.
            for level, ends in enumerate(inner[:2] if part.view else inner):
                if part.view:
                    places = part.view.places.data
                    found[level].extend(places[end] for end in ends if end < len(places))
                else:
                    found[level].extend(map(start.__add__, ends))
        found[0].append(part.end)
        start = part.end
    return found


def _ends_in(part: Part, shown: str, granularity: str, levels: int) -> list[Iterable[int]]:
    """Return the ends of levels in a part that is no document."""
    if part.kind == "marked":  # most parts are such
        ends = marked_ends(shown, part.language)
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
        (part.kind in ("lines", "changes") or (part.kind == "code" and not part.language))
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
    route = route_of_language(language, is_code=True) or ""
    if granularity == "logical" and route in RECORDS:  # SQL, YAML: no grammar reads them
        return Records(format=route)
    return _Listing(granularity=granularity, fallback=True).for_document(language=language)


class _Listing(Lines):
    """Code in a document, of which only the document can name the language."""

    unknown = parsed.IN_DOCUMENT


def versions_of(segmenters: Mapping[str, Segmenter]) -> dict[str, str]:
    """Return what the cuts of several segmenters depend on, with their names in front."""
    return {
        f"{kind}.{name}": value
        for kind, segmenter in segmenters.items()
        for name, value in {"version": str(segmenter.version), **segmenter.versions()}.items()
    }


def _versions_of_code(granularity: str) -> dict[str, str]:
    """Return what the cuts of code depend on: for logical lines, the installed grammars."""
    found = {"code.version": str(Lines.version), "records.version": str(Records.version)}
    for language in TABLES if granularity == "logical" else ():
        if parsed.missing(language) is None:
            found |= {f"code.{name}": value for name, value in parsed.versions(language).items()}
    return found
