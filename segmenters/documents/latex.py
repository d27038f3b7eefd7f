r"""LaTeX papers -> parts: the preamble and listings, which are code, and text and proofs.

The preamble ends at the line of `\begin{document}`; without it or `\documentclass`, all is text. A
listing is an environment of `listings`, `minted` or `verbatim` that begins a line; its options name
its language ([language=C++], {python}), and the lines that open and close it are segments.
"""

import re
from collections.abc import Iterator

from segmenters.documents.parts import Part
from segmenters.places import Walk, past

_CLASS = re.compile(r"^[ \t]*\\document(?:class|style)\b", re.MULTILINE)
_DOCUMENT = re.compile(r"^[ \t]*\\begin[ \t]*\{document\}", re.MULTILINE)
_LISTING = re.compile(
    r"^[ \t]*\\begin\{(?P<name>lstlisting|minted|verbatim|Verbatim|alltt|pycode|code)"
    r"(?P<star>\*?)\}(?P<options>\[[^\]\n]{0,500}\])?(?:\{(?P<language>[^{}\n]{1,40})\})?[^\n]*+\n",
    re.MULTILINE,
)
_AGDA = re.compile(r"^[ \t]*+(?:open import|module|data|record|[^\s:]{1,60} :)\s", re.MULTILINE)
_LANGUAGE = re.compile(r"\blanguage\s*=\s*\{?(?:\[[^\]]*\])?\s*([^\s,\]{}]+)")
_REST = re.compile(r"[^\n]*+\s*+")


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
            language = _language(listing, text[place:closing])
            yield Part(end=closing, kind="code", language=language, paragraph=False)
        end = past(_REST, text, closing)
        listings.skip(end)
        yield Part(end=end, kind="line", paragraph=False)
    if end < len(text):
        yield Part(end=len(text), kind="tex")


def _language(listing: re.Match[str], code: str) -> str | None:
    """Return the language that a listing names, or that of literate programs."""
    if listing["name"] == "minted":
        return listing["language"]
    if listing["name"] == "pycode":
        return "python"
    if listing["name"] == "code":
        return "agda" if _AGDA.search(code) and "::" not in code else "haskell"
    match = _LANGUAGE.search(listing["options"] or "")
    return match[1] if match else None
