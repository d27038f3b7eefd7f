"""Where sentences start for another reason than the signs before them.

Such are the items of lists, the lines that a caller has found, and white space of Thai and Lao.
"""

import re
from array import array
from collections.abc import Callable, Iterator, Sequence

from segmenters.prose import ahead
from segmenters.prose.line_ends import list_starts

# Thai and Lao have no full stop: white space is between sentences, and between phrases. Few letters
# before it are those of a name or a list, and no sentence ends at "that", "namely", "such as".
_MOST_SPACES = 8
_PAUSES = re.compile(
    r"[\u0e01-\u0edf](?=\s)(?<=[\u0e01-\u0edf]{8})"
    r"(?<!\u0e27\u0e48\u0e32)(?<!\u0e04\u0e37\u0e2d)(?<!\u0e40\u0e0a\u0e48\u0e19)"
    r"(?<!\u0ea7\u0ec8\u0eb2)(?<!\u0e84\u0eb7)(?<!\u0ec0\u0e8a\u0eb1\u0ec8\u0e99)"
    r"\s{1,8}(?=[\u0e01-\u0edf])"
)
_PHRASES = re.compile(r"[\u0e01-\u0e5b]\s{1,8}(?=[\u0e01-\u0e5b])")


def openings(
    text: str,
    position: int,
    starts: Sequence[int],
    *,
    next_word: bool,
    thai: Callable[[str, Sequence[int]], list[int]] | None,
) -> Iterator[int]:
    """Return those places, increasing; the parameters are those of `rules.sentence_ends`."""
    items = array("q", starts)
    if not text.isascii():
        first = max(0, position - _MOST_SPACES - 1)
        items.extend(match.end() for match in _PAUSES.finditer(text, first))
        if thai is not None:
            items = array("q", (i for i in items if not "\u0e01" <= text[i] <= "\u0e5b"))
            items.extend(thai(text, [match.end() for match in _PHRASES.finditer(text, first)]))
    if "\n" in text.rstrip():
        items.extend(list_starts(text, position))
    if next_word:
        items.extend(ahead.item_starts(text))
    return iter(sorted(items) if items else ())
