"""What the dialects of formal proofs share: comments that nest, and where white space goes.

Linear by construction: every pattern handed in consumes what it looks at, and no place is left
and scanned again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

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
