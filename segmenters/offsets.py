r"""Places in a text as arrays: offsets of bytes and characters, and the ends of physical lines.

A physical line ends only with "\n", "\r\n" or "\r".
"""

import re
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

_LF, _CR = 10, 13
_BLOCK = 1 << 20  # bytes at once, since their places take eight times their memory
_SURROGATE = re.compile("[\ud800-\udfff]")


def utf8(text: str) -> npt.NDArray[np.uint8]:
    """Return the UTF-8 bytes of the text; lone surrogates are encoded like other characters."""
    return np.frombuffer(text.encode("utf-8", "surrogatepass"), dtype=np.uint8)


def without_surrogates(text: str) -> tuple[str, int]:
    """Return the text with U+FFFD for each lone surrogate, and how many there were."""
    return (text, 0) if text.isascii() else _SURROGATE.subn("\ufffd", text)


def characters(
    places: npt.NDArray[Any], data: npt.NDArray[np.uint8], text: str
) -> npt.NDArray[Any]:
    """Convert increasing byte offsets, each at the start of a character, to character offsets."""
    if len(data) == len(text):
        return places
    counts, before = places.copy(), 0  # bytes that do not start a character
    for start in range(0, len(data) + 1, _BLOCK):
        inside = np.flatnonzero((data[start : start + _BLOCK] & 0xC0) == 0x80)
        first, last = rows_of(places, start, start + _BLOCK)
        counts[first:last] -= before + inside.searchsorted(places[first:last] - start)
        before += len(inside)
    return counts


def rows_of(places: npt.NDArray[Any], *keys: int, side: Literal["left", "right"] = "left") -> Any:
    """Return where keys belong in sorted places, which are not copied to the type of the keys."""
    return places.searchsorted(np.array(keys, dtype=places.dtype), side=side).tolist()


def distinct(*places: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Return all places in order, each once.

    `np.unique` is four times as slow and loads a further part of numpy at its first call.
    """
    ordered = np.sort(np.concatenate(places, dtype=np.int64, casting="unsafe"))
    is_new = np.ones(len(ordered), bool)
    np.not_equal(ordered[1:], ordered[:-1], out=is_new[1:])
    return ordered[is_new]


def line_ends(data: npt.NDArray[np.uint8]) -> npt.NDArray[Any]:
    """Return where physical lines end, in bytes of UTF-8."""
    # int32, if twice the places fit, takes half of the memory.
    kind = np.int64 if len(data) >= 1 << 30 else np.int32
    blocks = [_line_ends(data, start).astype(kind) for start in range(0, len(data) or 1, _BLOCK)]
    return blocks[0] if len(blocks) == 1 else np.concatenate(blocks)


def _line_ends(data: npt.NDArray[np.uint8], start: int) -> npt.NDArray[np.int64]:
    """Return where the lines end whose ends are in the block that starts here."""
    block = data[start : start + _BLOCK]
    ends = (block == _LF).nonzero()[0] + (start + 1)
    returns = (block == _CR).nonzero()[0] + (start + 1)
    if not len(returns):
        return ends
    alone = data.take(returns, mode="clip") != _LF  # at the end of the text it is the return itself
    return np.sort(np.concatenate((ends, returns[alone])))  # np.union1d is not linear


def character_ends(text: str) -> npt.NDArray[Any]:
    """Return where physical lines end, in characters; an unfinished last line is left out."""
    data = utf8(text)
    return characters(line_ends(data), data, text)
