r"""LaTeX papers -> parts: the preamble, which is code, and the text, which is prose and proofs.

The preamble runs from `\documentclass` up to `\begin{document}`, each in front of its line's text;
without both, all is text. `LaTeXProofs` finds sentences, proofs and displays in the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from segmenters.mixed.parts import Part

_CLASS = re.compile(r"^[ \t]*\\document(?:class|style)\b", re.MULTILINE)
_DOCUMENT = re.compile(r"^[ \t]*\\begin[ \t]*\{document\}", re.MULTILINE)


def parts(text: str) -> Iterator[Part]:
    """The parts of a paper, in order."""
    opening = _CLASS.search(text)
    start = _DOCUMENT.search(text, opening.end()) if opening else None
    if start is not None and start.start():
        yield Part(end=start.start(), kind="code", language="latex")
    yield Part(end=len(text), kind="latex")
