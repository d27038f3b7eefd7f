"""Patches and diffs -> parts: what is said about the change, and its lines.

The change begins at the first "diff", "Index:", "---" with "+++", or "***" with "---" line; from
there on each line is a segment. What stands before is a letter with headers (git format-patch), or
prose.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from segmenters.documents.letters import HEADERS
from segmenters.documents.parts import Part

_CHANGE = re.compile(
    r"^(?:diff (?:--git |-)|Index: |--- [^\n]*\n\+\+\+ |\*\*\* [^\n]*\n--- |@@ -\d)", re.MULTILINE
)


def parts(text: str) -> Iterator[Part]:
    """The parts of a patch, in order."""
    change = _CHANGE.search(text)
    start = change.start() if change else len(text)
    if start:
        yield Part(end=start, kind="email" if HEADERS.match(text, 0, start) else "prose")
    if start < len(text):
        yield Part(end=len(text), kind="lines")
