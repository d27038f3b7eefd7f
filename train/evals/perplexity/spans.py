"""Where documents and the windows that slide over them start and end."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from train.evals.perplexity.protocol import Window


def document_spans(ends: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Start and end of each document that has tokens, in tokens of the stream."""
    return ((begin, end) for begin, end in itertools.pairwise([0, *ends]) if end > begin)


def sliding_windows(begin: int, end: int, *, length: int, stride: int) -> Iterator[Window]:
    """Windows over one document, each scoring what those before it did not.

    The last one ends with the document, and may be shorter.
    """
    scored = begin
    for start in range(begin, end, stride):
        stop = min(start + length, end)
        yield Window(start=start, stop=stop, first=scored)
        scored = stop
        if stop == end:
            return
