"""Top-level definitions: the coarser level of code, above its lines.

A definition starts a segment, together with decorators and with the comments directly above it;
so does the first other statement after a definition. Blank lines stay with what stands before
them. So what lies between two definitions (imports, constants) is one segment.
"""

from __future__ import annotations

import re

import numpy as np

from segmenters.base import Cuts

# How a logical line at the margin starts; all other lines are inside of something.
_MARGINS = {
    "python": r"(?P<definition>@|(?:async\s+def|def|class)\b)|(?P<comment>#)|(?P<other>\S)",
    "haskell": r"(?P<comment>--|\{-)|(?P<other>#|(?:import|default|infix[lr]?|foreign)"
    r"(?![\w']))|(?P<definition>\S)",
}


def of_machine(text: str, lines: Cuts, language: str) -> Cuts:
    """Cuts of the top-level definitions, some of `lines`, the cuts of the logical lines."""
    margin = re.compile(_MARGINS[language])
    ends: list[int] = []
    comments = -1  # where the run of comments directly above this line starts
    kind = ""  # of the last line at the margin: "definition", "decorator" or "other"
    for place in lines[:-1].tolist():
        match = margin.match(text, place)
        if match is None:
            comments = -1
            continue
        if match.lastgroup == "comment":
            comments = place if comments < 0 else comments
            continue
        start = place if comments < 0 else comments
        comments = -1
        if match.lastgroup == "other":
            if kind == "definition":
                ends.append(start)
            kind = "other"
        else:
            if kind != "decorator":
                ends.append(start)
            kind = "decorator" if match[0] == "@" else "definition"
    return np.array(sorted({0, *ends, int(lines[-1])}), dtype=np.int64)
