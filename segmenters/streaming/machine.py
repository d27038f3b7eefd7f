"""What follows a text that is still being written: a machine that is given it piece by piece.

A segmenter cuts a text that is there; its machine gives the same cuts of a text that grows. All
cuts of a machine together are the cuts of the segmenter, however the text falls into pieces.
`machines.py` says which segmenter has which machine, `online.py` turns cuts into marks of tokens.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Self

from segmenters.base import Segmenter


@dataclass(slots=True, kw_only=True)
class Machine(ABC):
    """Cuts of a text that arrives in pieces; its fields are all of its state.

    Two machines are equal if they are in the same state; a machine can be pickled. `size` counts
    the characters read.
    """

    size: int = 0

    def push(self, text: str) -> list[int]:
        """Read the next piece; the cuts that it decides, increasing, in characters of the text.

        The start of the text is not among them; the very end of what was read may be.
        """
        if not text:
            return []
        cuts = self._read(text)
        self.size += len(text)
        return cuts

    def close(self) -> list[int]:
        """End the text; the cuts left undecided. Push nothing afterwards."""
        return []

    @property
    def decided(self) -> int:
        """Every cut at or before this character was returned.

        By default the last character read: what a causal rule asks about a place is the character
        that stands there.
        """
        return self.size - 1

    def copy(self) -> Self:
        """A machine in the same state, independent of this one."""
        return copy.copy(self)

    @abstractmethod
    def _read(self, text: str) -> list[int]:
        """The cuts decided by `text`, not empty; `size` does not count it yet."""


@dataclass(slots=True, kw_only=True)
class Window(Machine):
    """Follows a rule that sees `before` characters before a place and the one at the place.

    The segmenter is asked about the window around what is new, and only if one of `triggers`, the
    characters behind which it may cut, stands in there.
    """

    segmenter: Segmenter
    before: int
    triggers: str
    tail: str = ""

    def _read(self, text: str) -> list[int]:
        window = self.tail + text
        known, start = len(self.tail), self.size - len(self.tail)
        self.tail = window[-self.before :]
        if not any(trigger in window for trigger in self.triggers):
            return []
        cuts = self.segmenter.cut(window)[1:-1].tolist()
        return [start + cut for cut in cuts if cut >= known]
