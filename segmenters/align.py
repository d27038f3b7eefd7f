"""Cuts in characters and the tokens of a text -> one mark a token.

A token belongs to the segment that holds its first character that is not white space; a token of
white space alone, to the one that holds its first character; special tokens and empty offsets, to
that of the token before (at the start: the first segment). That deciding character is the token's
anchor, and anchors never decrease. A mark is one uint8 a token: bit 0 starts a document, bit 1 a
segment, bits 2 to 7 further levels:

    text     Yes.\\n   It is.         cuts 0, 5, 15
    tokens   Yes  .\\n  ' It'  ' is'  .
    anchors    0   3     8     11  13
    marks    0b11  0  0b10      0   0

Anchors come from the offsets of any tokenizer, or, faster, from a `ByteTable` of a byte-level
vocabulary. A cut that no token follows before the next one vanishes. No tokenizer is run here.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from segmenters.base import Cuts

DOCUMENT, SEGMENT = 1, 2
MAX_LEVELS = 7

Anchors = npt.NDArray[np.int64]
Marks = npt.NDArray[np.uint8]
_Mask = npt.NDArray[np.bool_]

# No character beyond this one is white space, by str.isspace; a test looks at all of them.
_LAST_SPACE = 0x3000


def mark(anchors: Anchors, levels: Sequence[Cuts]) -> Marks:
    """Marks uint8 [tokens] from the anchors of the tokens and the cuts of each level.

    The first token starts the document and a segment of every level.
    Raises ValueError for more than seven levels or anchors that decrease.
    """
    if not 1 <= len(levels) <= MAX_LEVELS:
        raise ValueError(f"levels must number 1 to {MAX_LEVELS}, was: {len(levels)}")
    if (anchors[1:] < anchors[:-1]).any():
        raise ValueError("anchors must not decrease; make them with ByteTable or from offsets")
    marks = np.zeros(len(anchors), dtype=np.uint8)
    if not len(marks):
        return marks
    marks[0] = DOCUMENT
    for level, cuts in enumerate(levels):
        # The first token at or behind each cut; cuts that share it hold no token in between.
        starts = np.searchsorted(anchors, cuts)
        marks[starts[starts < len(marks)]] |= SEGMENT << level
        marks[0] |= SEGMENT << level
    return marks


def anchors_from_offsets(text: str, offsets: npt.ArrayLike) -> Anchors:
    """Anchors [tokens] from character offsets [tokens, 2], as a fast tokenizer gives them.

    A tokenizer that trims white space from its offsets hides it: tokens of white space alone then
    count as empty. Raises ValueError for offsets that do not fit the text.
    """
    spans = np.asarray(offsets, dtype=np.int64).reshape(-1, 2)
    starts, ends = spans[:, 0], spans[:, 1]
    if spans.size and (starts.min() < 0 or ends.max() > len(text) or (starts > ends).any()):
        raise ValueError(f"offsets must be spans of the text, between 0 and {len(text)}")
    return _first_visible(_white_space(text), starts, ends)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class ByteTable:
    """Bytes per token id of a byte-level BPE vocabulary: anchors without the tokenizer's offsets.

    `lengths` int64 [ids] bytes, -1 where there is no such id; `spaces` int64 [ids]: how many bytes
    of ASCII white space a piece starts with, 0 if it holds nothing else. Make it by
    `from_vocabulary`.
    """

    lengths: npt.NDArray[np.int64]
    spaces: npt.NDArray[np.int64]

    @classmethod
    def from_vocabulary(
        cls, vocabulary: Mapping[str, int], *, special: Collection[int] = ()
    ) -> ByteTable:
        """The table of a vocabulary {piece: id} in GPT-2's byte alphabet.

        `special` are the ids of tokens that stand for no text (added tokens): their length is zero.
        Raises ValueError for a piece that is not written in that alphabet.
        """
        alphabet = byte_alphabet()
        silent = set(special)
        size = 1 + max((*vocabulary.values(), *silent), default=-1)
        lengths = np.full(size, -1, dtype=np.int64)
        spaces = np.zeros(size, dtype=np.int64)
        lengths[list(silent)] = 0
        for piece, index in vocabulary.items():
            if index in silent:
                continue
            try:
                data = bytes(map(alphabet.__getitem__, piece))
            except KeyError as error:
                raise ValueError(
                    f"vocabulary must be byte-level, but piece {piece!r} (id {index}) holds "
                    f"{error.args[0]!r}; name added tokens in `special`, or use the offsets"
                ) from error
            lengths[index] = len(data)
            # latin-1 would take 0x85 and 0xa0, halves of other characters, for white space.
            visible = data.decode("ascii", "replace").lstrip()
            spaces[index] = (len(data) - len(visible)) if visible else 0
        return cls(lengths=lengths, spaces=spaces)

    def anchors(self, text: str, ids: npt.ArrayLike) -> Anchors:
        """Anchors [tokens] of the ids [tokens] of the text.

        A token belongs to the character that holds its first byte, also where a character is
        split over several tokens. Raises ValueError if the ids do not spell the text's bytes.
        """
        index = np.asarray(ids, dtype=np.int64)
        lengths = self._lengths_of(index)
        ends = np.cumsum(lengths)
        starts = ends - lengths
        plain = text.isascii()
        data = b"" if plain else text.encode("utf-8", "surrogatepass")
        size, spelt = len(text) if plain else len(data), int(ends[-1]) if len(ends) else 0
        if size != spelt:
            raise ValueError(
                f"ids must spell the text: it has {size} bytes of UTF-8, they spell {spelt}; "
                "the tokenizer normalises, adds a prefix or writes added tokens: use the offsets"
            )
        if plain:
            anchors = np.where(lengths > 0, starts + self.spaces[index], 0)
            return np.maximum.accumulate(anchors)
        bytes_ = np.frombuffer(data, dtype=np.uint8)
        inside = np.flatnonzero((bytes_ & 0xC0) == 0x80)  # not the first byte of its character
        # The character of a byte: its index less the continuation bytes up to it.
        first = starts - np.searchsorted(inside, starts, side="right")
        last = ends - 1 - np.searchsorted(inside, ends - 1, side="right")
        return _first_visible(_white_space(text), first, np.where(lengths > 0, last + 1, first))

    def _lengths_of(self, index: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        if index.size and not 0 <= index.min() <= index.max() < len(self.lengths):
            raise ValueError(f"ids must be below {len(self.lengths)}, was: {index.max()}")
        lengths = self.lengths[index]
        if (lengths < 0).any():
            raise ValueError(f"ids must be in the vocabulary, was: {index[lengths < 0][0]}")
        return lengths


def _first_visible(space: _Mask, starts: Anchors, ends: Anchors) -> Anchors:
    """The first character of each span that is no white space, else its first, never decreasing.

    `space` bool [characters]; empty spans take the anchor before them.
    """
    anchors = starts.copy()
    filled = starts < ends
    leading = np.flatnonzero(filled)
    leading = leading[space[starts[leading]]]
    # Most tokens that start with white space start with one blank: the search is for the rest.
    anchors[leading] += 1
    rest = (anchors[leading] == ends[leading]) | space.take(anchors[leading], mode="clip")
    leading = leading[rest]
    if len(leading):
        visible = np.flatnonzero(~space)
        place = np.searchsorted(visible, starts[leading])
        found = np.append(visible, len(space))[place]
        anchors[leading] = np.where(found < ends[leading], found, starts[leading])
    return np.maximum.accumulate(np.where(filled, anchors, 0))


def _white_space(text: str) -> _Mask:
    """Which characters are white space by str.isspace: bool [characters]."""
    table = _space_table()
    if text.isascii():
        return table[np.frombuffer(text.encode("ascii"), dtype=np.uint8)]
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")
    return table.take(codes, mode="clip")


@lru_cache(maxsize=1)
def _space_table() -> _Mask:
    return np.array([chr(code).isspace() for code in range(_LAST_SPACE + 2)])


@lru_cache(maxsize=1)
def byte_alphabet() -> dict[str, int]:
    """GPT-2's alphabet, character -> byte: printable bytes stand for themselves, the rest follow.

    Source: Radford et al. 2019, the byte-level BPE of GPT-2.
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in set(printable)]
    return {chr(byte): byte for byte in printable} | {
        chr(256 + rank): byte for rank, byte in enumerate(others)
    }
