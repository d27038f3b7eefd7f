"""What the dialects of formal proofs share: comments that nest, and where white space goes.

Linear by construction: every pattern handed in consumes what it looks at, and no place is left
and scanned again.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from segmenters.streaming.machine import Machine

_SPACE = re.compile(r"\s*+")


def nested_end(text: str, place: int, pattern: re.Pattern[str]) -> int:
    """The end of the nest that opens at `place`; the end of the text if it never closes.

    `pattern` has the groups `open` and `close`; whatever else it matches is skipped.
    """
    depth = 0
    for match in pattern.finditer(text, place):
        if match.lastgroup == "open":
            depth += 1
        elif match.lastgroup == "close":
            depth -= 1
            if depth == 0:
                return match.end()
    return len(text)


def after_space(text: str, places: Iterable[int]) -> Iterator[int]:
    """Each place moved behind the white space that follows it, which stays with the step before.

    So a cut stands right in front of a character that is not white space.
    """
    for place in places:
        match = _SPACE.match(text, place)
        assert match is not None
        yield match.end()


@dataclass(slots=True, kw_only=True)
class SpacedMachine(Machine):
    """A machine whose steps keep the white space behind them.

    `ended`: a step has ended, and its cut stands in front of the next visible character.
    """

    ended: bool = False

    @abstractmethod
    def step_ends(self, text: str) -> list[int]:
        """Where steps end in the next piece, in characters of it, white space left outside.

        A step whose last character stood in the piece before may end at 0.
        """

    def _read(self, text: str) -> list[int]:
        ends = self.step_ends(text)
        cuts = list(after_space(text, [0, *ends] if self.ended else ends))
        self.ended = bool(cuts) and cuts[-1] == len(text)
        return [self.size + cut for cut in dict.fromkeys(cuts) if cut < len(text)]
