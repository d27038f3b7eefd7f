"""A part of a document: where it ends, what kind of text it is, and how its segmenter reads it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from segmenters.base import Cuts


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class View:
    """What a segmenter reads in place of the raw characters: unescaped, or without prefixes.

    `places[i]`: where in the document a segment begins whose first character is `text[i]`
    (characters); what stands between two characters of the view goes with the latter.
    """

    text: str
    places: Cuts


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """The text from the end of the part before up to `end` (characters).

    `kind`: "line" (one segment), "lines" (physical lines), "prose", "marked" (prose with code spans
    and formulas), "tagged" (prose between tags), "code", or the name of a format, for a document
    inside of the document. `language`: what the document calls the language of its code, such as
    "python" or "c++". `view`: how the part is read, where not as it stands.
    """

    end: int
    kind: str
    language: str | None = None
    view: View | None = None


def spliced(text: str, pieces: Iterable[tuple[int, int, int]]) -> View:
    """A view of pieces of the text, each (place, start, end): its segment would begin at `place`.

    What stands between `place` and `start` is not seen, such as the "> " of a quotation.
    """
    seen, places = [], []
    for place, start, end in pieces:
        if end > start:
            seen.append(text[start:end])
            row = np.arange(start, end, dtype=np.int64)
            row[0] = place
            places.append(row)
    return View(
        text="".join(seen),
        places=np.concatenate(places) if places else np.empty(0, dtype=np.int64),
    )
