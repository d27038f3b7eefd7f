"""The characters that tokens spell, and which of them belongs to which token.

Bytes that are no UTF-8 count as a character each, so that every token keeps its place whatever it
was cut from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

_LONE = "\ufffd"  # how a byte that is no UTF-8 appears


@dataclass(frozen=True, slots=True)
class Spelled:
    """text, and its code points uint32 [characters].

    first, last: int64 [tokens], the characters of a token's first byte and behind its last one.
    """

    text: str
    characters: np.ndarray
    first: np.ndarray
    last: np.ndarray


def spelled(ids: np.ndarray, pieces: Sequence[bytes], sizes: np.ndarray) -> Spelled:
    """What ids spell; pieces and sizes: the bytes of every id of the vocabulary, and their count.

    Ids of no text (special tokens) have empty places.
    """
    text = b"".join([pieces[id] for id in ids.tolist()]).decode("utf-8", "surrogateescape")
    characters = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")
    escaped = (characters >= 0xDC80) & (characters <= 0xDCFF)
    widths = np.ones(len(characters), dtype=np.int64)
    for beyond in (0x80, 0x800, 0x10000):
        widths += (characters >= beyond) & ~escaped
    if escaped.any():
        characters = np.where(escaped, ord(_LONE), characters).astype("<u4")
        text = characters.tobytes().decode("utf-32-le")
    bounds, own = np.cumsum(widths), sizes[ids]
    ends = np.cumsum(own)
    first = np.searchsorted(bounds, ends - own, side="right")
    last = np.where(own == 0, first, np.searchsorted(bounds, ends - 1, side="right") + 1)
    return Spelled(text, characters, first, last)
