"""Segments that end where a pattern says: regular expressions, newlines, and the controls.

`Newline` and `Official` are what the released BiPE (He et al., arXiv 2401.16421) does in effect,
`Stride` and `RandomCuts` are the controls of a segmentation ablation: the same segment lengths
without the language. None of them knows about words or sentences.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from segmenters.base import Cuts, Segmenter, require_integer
from segmenters.code.physical import in_characters, utf8
from segmenters.random_numbers import GOLDEN, mix

_NEWLINE, _SPACE, _PERIOD = b"\n ."
# Draws are made for so many characters at a time: they take fifty bytes a character.
_PIECE = 1 << 18


@dataclass(frozen=True, kw_only=True, slots=True)
class Pattern(Segmenter):
    r"""Ends a segment at the end of each match of the regular expression `ends`.

    `Pattern(ends=r";\n")` cuts after a semicolon at the end of a line. A match may be empty, so a
    look-around such as `(?=def )` cuts in front of a word. An expression may read the whole text,
    so the lookahead is that; linear time is up to the expression.
    """

    ends: str

    def __post_init__(self) -> None:
        if not isinstance(self.ends, str):
            raise TypeError(f"ends must be a str, was: {type(self.ends).__name__}")
        try:
            re.compile(self.ends)
        except re.error as error:
            raise ValueError(
                f"ends must be a regular expression, was: {self.ends!r} ({error})"
            ) from error

    @property
    def lookahead(self) -> int | None:
        return None

    def _ends(self, text: str) -> Iterable[int]:
        return [*map(re.Match.end, re.finditer(self.ends, text))]


@dataclass(frozen=True, kw_only=True, slots=True)
class Newline(Segmenter):
    r"""Ends a segment after each "\n"; a blank line is a segment of its own."""

    @property
    def lookahead(self) -> int | None:
        return 0

    def _ends(self, text: str) -> Cuts:
        data = utf8(text)
        return in_characters(np.flatnonzero(data == _NEWLINE) + 1, data, text)


@dataclass(frozen=True, kw_only=True, slots=True)
class Official(Segmenter):
    r"""The rule of the released BiPE, in characters: after "\n", and after a space and a period.

    The release knows token ids only, 13 and 869 of the LLaMA tokenizer, which stand for "\n" and
    " .". An ordinary "." is another token and ends nothing, so this is in effect segmentation by
    newlines, never sentences. `official_marks` is the same rule over token ids.
    """

    @property
    def lookahead(self) -> int | None:
        return 0

    def _ends(self, text: str) -> Cuts:
        data = utf8(text)
        found = data == _NEWLINE
        found[1:] |= (data[1:] == _PERIOD) & (data[:-1] == _SPACE)
        return in_characters(np.flatnonzero(found) + 1, data, text)


def official_marks(
    ids: npt.ArrayLike, *, separators: tuple[int, ...] = (13, 869)
) -> npt.NDArray[np.bool_]:
    """Where segments start, by the released rule over token ids: bool [..., time].

    A separator closes its segment and belongs to it; rows are independent:

        ids     7  13   8   9  869  869   4
        starts  1   0   1   0    0    1   1
    """
    array = np.asarray(ids)
    starts = np.ones(array.shape, dtype=bool)
    starts[..., 1:] = np.isin(array[..., :-1], separators)
    return starts


@dataclass(frozen=True, kw_only=True, slots=True)
class Stride(Segmenter):
    """Segments of a fixed `length` in characters; the last may be shorter."""

    length: int

    def __post_init__(self) -> None:
        require_integer("length", self.length, 1)

    @property
    def lookahead(self) -> int | None:
        return 0

    def _ends(self, text: str) -> Cuts:
        return np.arange(self.length, len(text), self.length, dtype=np.int64)


@dataclass(frozen=True, kw_only=True, slots=True)
class RandomCuts(Segmenter):
    """Segments of random length: each place is a cut with probability 1 / `mean` (characters).

    The draw at a place is a hash of `seed` and of all the text before it, so lengths are geometric,
    the same text is always cut in the same way, two documents are not, and nothing that comes
    after the place is read.
    """

    mean: float
    seed: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.mean, int | float) or isinstance(self.mean, bool):
            raise TypeError(f"mean must be a number, was: {type(self.mean).__name__}")
        if not 1 <= self.mean < float("inf"):
            raise ValueError(f"mean must be at least 1 and finite, was: {self.mean}")
        require_integer("seed", self.seed, 0)

    @property
    def lookahead(self) -> int | None:
        return 0

    def _ends(self, text: str) -> Cuts:
        found, total = [np.zeros(0, dtype=np.int64)], 0
        for read in range(0, len(text), _PIECE):
            cuts, total = self.draw(text[read : read + _PIECE], read=read, total=total)
            found.append(cuts + read)
        return np.concatenate(found)

    def draw(self, text: str, *, read: int, total: int) -> tuple[Cuts, int]:
        """Cuts of `text`, in characters of it, behind `read` characters; and the next `total`.

        `total` sums up the characters read, so that the draws go on in the next piece of a text.
        """
        codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")
        counter = np.arange(read + 1, read + 1 + len(codes), dtype=np.uint64) * np.uint64(GOLDEN)
        start = np.uint64((self.seed * GOLDEN + 1) % 2**64)
        # A sum of mixed terms is a hash of each prefix in one vectorised pass.
        sums = np.cumsum(mix((codes + counter) ^ start)) + np.array([total], dtype=np.uint64)
        draws = mix(sums ^ start)
        cuts = np.flatnonzero(draws <= np.uint64(int(2**64 / self.mean) - 1)) + 1
        return cuts, int(sums[-1]) if len(sums) else total
