r"""Lines of code as segments: a segment ends with its line end, "\n", "\r\n" or "\r".

A line end stays with its line and the indentation goes with the line that it indents, so that a
model sees how deep a line is inside of its own segment. `str.splitlines` is not used: it also cuts
at form feeds, vertical tabs and Unicode separators, which may stand inside of a line of code.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from segmenters.base import Segmenter

GRANULARITIES = ("physical",)
_LINE_END = re.compile(r"\r\n?|\n")


@dataclass(frozen=True, kw_only=True, slots=True)
class Lines(Segmenter):
    """Ends a segment at each line end. A blank line is a segment of its own."""

    granularity: str = "physical"

    def __post_init__(self) -> None:
        if self.granularity not in GRANULARITIES:
            raise ValueError(
                f"granularity must be one of {', '.join(GRANULARITIES)}, was: {self.granularity!r}"
            )

    @property
    def lookahead(self) -> int | None:
        # Whether "\r" ends the line, or the "\n" behind it does, is known one character later.
        return 1

    def _ends(self, text: str) -> Iterable[int]:
        return (match.end() for match in _LINE_END.finditer(text))
