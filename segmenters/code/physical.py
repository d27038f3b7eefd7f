r"""Physical lines: they end with "\n", "\r\n" or "\r", and with nothing else."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from segmenters.base import Cuts

_LF, _CR = 10, 13


def character_ends(text: str) -> Cuts:
    """Where physical lines end, in characters; a last line without an end is left out."""
    data = utf8(text)
    return in_characters(line_ends(data), data, text)


def utf8(text: str) -> npt.NDArray[np.uint8]:
    """The bytes of the text, lone surrogates as if they were characters."""
    return np.frombuffer(text.encode("utf-8", "surrogatepass"), dtype=np.uint8)


def in_characters(places: Cuts, data: npt.NDArray[np.uint8], text: str) -> Cuts:
    """Places in the bytes of the text, each where a character starts, counted in characters."""
    if len(data) == len(text):
        return places
    inside = np.flatnonzero((data & 0xC0) == 0x80)  # bytes that do not start a character
    return places - np.searchsorted(inside, places)


def line_ends(data: npt.NDArray[np.uint8]) -> Cuts:
    """Where physical lines of text in UTF-8 end, in bytes."""
    ends = np.flatnonzero(data == _LF) + 1
    returns = np.flatnonzero(data == _CR) + 1
    if not len(returns):
        return ends
    alone = data.take(returns, mode="clip") != _LF
    alone[-1] |= returns[-1] == len(data)
    return np.sort(np.concatenate((ends, returns[alone])))  # np.union1d is not linear
