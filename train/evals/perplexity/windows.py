"""Windows that do not overlap; the same tokens are scored at every length.

    training row 4       . x x x . x x x      x is scored, . is not
    length 4             [     ] [     ]
    length 8             [             ]

Tokens at multiples of the training row have no context at the shortest length, and are scored at
none: so only what the model may look back on changes from one length to the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from train.evals.perplexity.protocol import Protocol, Window
from train.evals.perplexity.spans import document_spans


@dataclass(frozen=True, slots=True, kw_only=True)
class Windows(Protocol):
    """length: tokens of a window. row_length: see above, in tokens."""

    name: ClassVar[str] = "windows"

    length: int
    row_length: int

    @property
    def definition(self) -> str:
        return (
            f"Windows of {self.length} tokens that do not overlap (the last of a document may be "
            f"shorter); scored are all tokens but those at multiples of {self.row_length} in "
            "their document."
        )

    def windows(self, ends: Sequence[int]) -> list[Window]:
        return [
            Window(start=start, stop=min(start + self.length, end), first=start)
            for begin, end in document_spans(ends)
            for start in range(begin, end, self.length)
        ]

    def spares(self, place: np.ndarray) -> np.ndarray:
        return np.asarray(place % self.row_length == 0)
