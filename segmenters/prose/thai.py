"""White space of Thai, judged by PyThaiNLP; the only file that imports it.

Thai has no full stop: a space is between sentences, and between phrases. PyThaiNLP finds words by a
dictionary, and a model (CRFCut, trained on ORCHID and talks) tells after which a sentence ends;
both are part of the package, and nothing is downloaded. Only places behind white space are asked
about: full stops and question marks are left to the rules. The model reads a few words on either
side, so it reads pieces of bounded length, and the time is linear in the text.
"""

import os
from bisect import bisect_left
from collections.abc import Iterator, Sequence

from segmenters.registry import installed

os.environ.setdefault("PYTHAINLP_READ_ONLY", "1")  # else it makes a folder in the user's home

from pythainlp.tokenize.crfcut import segment

# How many characters around a place the model reads, and how many at most between two places that
# it reads together.
_AROUND, _PIECE = 100, 600


def versions() -> dict[str, str]:
    """Return the versions of PyThaiNLP, which holds dictionary and model, and of its reader."""
    return installed("pythainlp", "python-crfsuite")


def sentence_starts(text: str, places: Sequence[int]) -> list[int]:
    """Return those of `places`, increasing, at which a sentence of Thai starts."""
    ends: list[int] = []
    index = 0
    while index < len(places):
        first = max(0, places[index] - _AROUND)
        after = bisect_left(places, places[index] + _PIECE, index)
        stop = min(len(text), places[after - 1] + _AROUND)
        group = places[index:after]
        starts = set(_starts(text[first:stop], first))
        # A few pieces come back with signs left out or composed: the rules decide.
        ends += group if stop not in starts else [place for place in group if place in starts]
        index = after
    return ends


def _starts(piece: str, place: int) -> Iterator[int]:
    """Yield where sentences start in the piece at `place`, and its end, as the model reads it."""
    valid = piece.encode("utf-8", "replace").decode()  # a lone surrogate is one question mark
    for sentence in segment(valid):
        # White space behind a sentence starts the next one.
        yield place + len(sentence) - len(sentence.lstrip())
        place += len(sentence)
    yield place
