r"""LaTeX papers -> parts: the preamble and listings, which are code, and text and proofs.

The preamble ends at the line of `\begin{document}`; without it or `\documentclass`, all is text. A
listing is an environment of `listings`, `minted` or `verbatim` that begins a line; its options name
its language ([language=C++], {python}), and the lines that open and close it are segments.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from segmenters.base import Segmenter
from segmenters.documents.parts import LEVELS, Part
from segmenters.places import Walk, past
from segmenters.proofs.latex import LaTeXProofs

_CLASS = re.compile(r"^[ \t]*\\document(?:class|style)\b", re.MULTILINE)
_DOCUMENT = re.compile(r"^[ \t]*\\begin[ \t]*\{document\}", re.MULTILINE)
_LISTING = re.compile(
    r"^[ \t]*\\begin\{(?P<name>lstlisting|minted|verbatim|Verbatim|alltt|pycode)(?P<star>\*?)\}"
    r"(?P<options>\[[^\]\n]{0,500}\])?(?:\{(?P<language>[^{}\n]{1,40})\})?[^\n]*+\n",
    re.MULTILINE,
)
_LANGUAGE = re.compile(r"\blanguage\s*=\s*\{?(?:\[[^\]]*\])?\s*([^\s,\]{}]+)")
_REST_OF_LINE = re.compile(r"[^\n]*+\n?")
_REST = re.compile(r"[^\n]*+\s*+")


# Where a section or paragraph of text begins, with the blank lines in front of it.
_BEGINS = re.compile(
    r"(?P<section>^[ \t]*+\\(?:part|chapter|(?:sub){0,2}section)\*?[\[{])"
    r"|(?P<start>^[ \t]*+(?=\\(?:item|par|paragraph|begin\{(?!(?:equation|align|gather|array|cases"
    r"|split|aligned|[bpvBV]?matrix|multline|eqnarray|tabular)\*?\}))(?![A-Za-z])"
    r"|\\begin\{))|(?P<blank>\n[ \t]*\n)",
    re.MULTILINE,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Text(Segmenter):
    """Sentences of LaTeX outside of preambles and listings, with paragraphs and sections."""

    lookahead = None
    level_names = LEVELS

    def versions(self) -> dict[str, str]:
        return {"version": str(LaTeXProofs.version), **LaTeXProofs().versions()}

    def _ends(self, text: str) -> Iterable[int]:
        return LaTeXProofs().cut(text)

    def _levels(self, text: str) -> Sequence[Iterable[int]]:
        found = [(match.lastgroup, match) for match in _BEGINS.finditer(text)]
        paragraphs = [match.end() if kind == "blank" else match.start() for kind, match in found]
        sections = [match.start() for kind, match in found if kind == "section"]
        # Behind a heading that fills its line.
        lines = (_REST_OF_LINE.match(text, place) for place in sections)
        paragraphs += [line.end() for line in lines if line and line.group().rstrip()[-1:] == "}"]
        return LaTeXProofs().cut(text), paragraphs, sections


def parts(text: str) -> Iterator[Part]:
    """Yield the parts of a paper, in order."""
    opening = _CLASS.search(text)
    start = _DOCUMENT.search(text, opening.end()) if opening else None
    end = start.start() if start is not None else 0
    if end:
        yield Part(end=end, kind="code", language="latex")
    missing: set[str] = set()
    listings = Walk(_LISTING, text, end)
    for listing in listings:
        place = listing.end()
        name = listing["name"] + listing["star"]
        closing = -1 if name in missing else text.find(f"\\end{{{name}}}", place)
        if closing < 0:
            missing.add(name)
            continue
        if listing.start() > end:
            yield Part(end=listing.start(), kind="tex")
        # In all listings that people write, only blanks are in front of \end on its line.
        closing = max(place, text.rfind("\n", place, closing) + 1)
        yield Part(end=place, kind="line")
        if closing > place:
            language = _language(listing)
            yield Part(end=closing, kind="code", language=language, paragraph=False)
        end = past(_REST, text, closing)
        listings.skip(end)
        yield Part(end=end, kind="line", paragraph=False)
    if end < len(text):
        yield Part(end=len(text), kind="tex")


def _language(listing: re.Match[str]) -> str | None:
    """Return the language that a listing names."""
    if listing["name"] == "minted":
        return listing["language"]
    if listing["name"] == "pycode":
        return "python"
    found = _LANGUAGE.search(listing["options"] or "")
    return found[1] if found else None
