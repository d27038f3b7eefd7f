"""Segments that end at a pattern, and controls for ablations of segmentation.

`Newline` and `Official` are in effect what the released BiPE (He et al., arXiv 2401.16421) uses.
The controls test whether it matters where segments end: `Stride` and `RandomCuts` make segments of
fixed and of random length; `Matched` keeps the number of another segmenter's segments in each
document, or even their lengths, but moves the cuts. None of these considers words or sentences.
"""

import dataclasses
import hashlib
import re
from collections.abc import Iterable
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from segmenters.base import Cuts, Machine, Segmenter, SpacedMachine, Window, in_pieces
from segmenters.checks import require_choice, require_integer, require_type
from segmenters.levels.bounds import CLAUSE
from segmenters.levels.levels import Derived
from segmenters.offsets import characters, utf8
from segmenters.random_numbers import GOLDEN, mix

_NEWLINE, _SPACE, _PERIOD = b"\n ."
Kind = Literal["shuffled", "random", "stride"]
KINDS = get_args(Kind)
# The signs that end a clause: before white space, and anywhere.
_SPACED_SIGN = re.compile(r"[,;:\u2014](?=\s)|[\uff0c\uff1b\uff1a\u3001]")
_SIGNS_BEFORE_SPACE = tuple(",;:\u2014")


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Pattern(Segmenter):
    r"""Ends a segment at the end of each match of the regular expression `ends`.

    `Pattern(ends=r";\n")` cuts after a semicolon at a line end, and the empty match `(?=def )` in
    before a word. Time is linear in the text only if that of the expression is.
    """

    ends: str
    lookahead = None

    def __post_init__(self) -> None:
        require_type("ends", self.ends, str)
        try:
            re.compile(self.ends)
        except re.error as error:
            wrong = f"ends must be a regular expression, was: {self.ends!r} ({error})"
            raise ValueError(wrong) from error

    def _ends(self, text: str) -> Iterable[int]:
        return [*map(re.Match.end, re.finditer(self.ends, text))]


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Newline(Segmenter):
    r"""Ends a segment after each "\n"; a blank line is a segment of its own."""

    rule = "line end"
    lookahead = 0

    def _ends(self, text: str) -> Cuts:
        data = utf8(text)
        return characters(np.flatnonzero(data == _NEWLINE) + 1, data, text)

    def machine(self) -> Machine:
        return Window(segmenter=self, before=1, triggers="\n")


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Official(Segmenter):
    r"""The rule of the released BiPE, in characters: after "\n", and after a space and a period.

    The release knows only token ids: 13 and 869 of the LLaMA tokenizer, which are "\n" and " .". An
    ordinary "." is another token and ends nothing, so in effect this cuts at newlines, never at
    sentences. `official_marks` is the same rule over token ids.
    """

    lookahead = 0

    def _ends(self, text: str) -> Cuts:
        data = utf8(text)
        is_end = data == _NEWLINE
        is_end[1:] |= (data[1:] == _PERIOD) & (data[:-1] == _SPACE)
        return characters(np.flatnonzero(is_end) + 1, data, text)

    def machine(self) -> Machine:
        return Window(segmenter=self, before=2, triggers="\n.")


def official_marks(
    ids: npt.ArrayLike, *, separators: tuple[int, ...] = (13, 869)
) -> npt.NDArray[np.bool_]:
    """Return where segments start by the released rule over token ids: bool [..., time].

    A separator ends its segment; rows are independent:

        ids     7  13   8   9  869  869   4
        starts  1   0   1   0    0    1   1
    """
    array = np.asarray(ids)
    if array.dtype.kind not in "iu" or not array.ndim:
        raise ValueError(f"ids must be integers [..., time], were: {array.dtype} {[*array.shape]}")
    starts = np.ones(array.shape, dtype=bool)
    starts[..., 1:] = np.isin(array[..., :-1], separators)
    return starts


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Stride(Segmenter):
    """Segments of a fixed `length` in characters; the last may be shorter."""

    length: int
    lookahead = 0

    def __post_init__(self) -> None:
        require_integer("length", self.length, 1)

    def _ends(self, text: str) -> Cuts:
        return np.arange(self.length, len(text), self.length, dtype=np.int64)

    def machine(self) -> Machine:
        return _Strides(length=self.length)


@dataclasses.dataclass(slots=True, kw_only=True)
class _Strides(Machine):
    length: int

    def _read(self, text: str) -> list[int]:
        first = self.size // self.length + 1
        last = (self.size + len(text)) // self.length
        return [self.length * index for index in range(first, last + 1)]


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class RandomCuts(Segmenter):
    """Segments of random length: each place is a cut with probability 1 / `mean` (characters).

    Each draw hashes `seed` and all the text before it.
    """

    mean: float
    seed: int = 0
    lookahead = 0

    def __post_init__(self) -> None:
        require_type("mean", self.mean, float, int)
        if not 1 <= self.mean <= 2**64:
            raise ValueError(f"mean must be between 1 and 2**64, was: {self.mean}")
        require_integer("seed", self.seed, 0)

    def _ends(self, text: str) -> Iterable[int]:
        return in_pieces(self.machine(), text)

    def machine(self) -> Machine:
        return _Draws(mean=self.mean, seed=self.seed)


@dataclasses.dataclass(slots=True, kw_only=True)
class _Draws(Machine):
    mean: float
    seed: int
    total: int = 0  # a hash of all the text so far

    def _read(self, text: str) -> list[int]:
        codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")
        counter = np.arange(1, 1 + len(codes), dtype=np.uint64) + np.uint64(self.size)
        start = np.uint64((self.seed * GOLDEN + 1) % 2**64)
        terms = mix((codes + counter * np.uint64(GOLDEN)) ^ start)
        # Cumulative sums of mixed terms hash every prefix in one vectorised pass.
        sums = np.cumsum(terms) + np.array([self.total], dtype=np.uint64)
        self.total = int(sums[-1])
        draws = mix(sums ^ start)
        cuts = np.flatnonzero(draws <= np.uint64(int(2**64 / self.mean) - 1)) + 1
        return (cuts + self.size).tolist()


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Clauses(Derived):
    """The segments of another segmenter, cut further after each comma, semicolon, colon or dash.

    Except in Chinese and Japanese, only marks before white space count.
    """

    @property
    def lookahead(self) -> int | None:
        inner = self.of.lookahead
        return None if inner is None else max(1, inner)

    @property
    def level_names(self) -> tuple[str, ...]:
        return ("clause", *self.of.level_names)

    def _ends(self, text: str) -> Cuts:
        return self._clauses(text, self.of.cut(text))

    def _levels(self, text: str) -> tuple[Cuts, ...]:
        inner = self.of.levels(text)
        return (self._clauses(text, inner[0]), *inner)

    def _clauses(self, text: str, cuts: Cuts) -> Cuts:
        return np.concatenate((cuts, [m.end() for m in CLAUSE.finditer(text)]))

    def machine(self) -> Machine:
        return _Either(inner=self.of.machine(), clauses=_ClauseEnds())

    def _coarser_machine(self, level: int) -> Machine:
        return self.of.level_machine(level - 1)


@dataclasses.dataclass(slots=True, kw_only=True)
class _ClauseEnds(SpacedMachine):
    sign: bool = False  # the last character is a sign that ends a clause if white space follows

    def step_ends(self, text: str) -> list[int]:
        ends = [0] if self.sign and text[0].isspace() else []
        self.sign = text.endswith(_SIGNS_BEFORE_SPACE)
        return ends + [match.end() for match in _SPACED_SIGN.finditer(text)]


@dataclasses.dataclass(slots=True, kw_only=True)
class _Either(Machine):
    """The cuts of a segmenter and of clauses."""

    inner: Machine
    clauses: _ClauseEnds
    waiting: list[int] = dataclasses.field(default_factory=list)  # clauses beyond what inner knows

    @property
    def decided(self) -> int:
        return min(self.inner.decided, self.clauses.decided)

    def close(self) -> list[int]:
        return sorted({*self.waiting, *self.inner.close(), *self.clauses.close()})

    def _read(self, text: str) -> list[int]:
        places = sorted({*self.waiting, *self.inner.push(text), *self.clauses.push(text)})
        self.waiting = [cut for cut in places if cut > self.decided]
        return [cut for cut in places if cut <= self.decided]


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Matched(Derived):
    """As many segments per document as another segmenter makes, with meaningless boundaries.

    `kind`: "shuffled" permutes the lengths of its segments; "random" draws places uniformly without
    replacement; "stride" makes lengths equal up to one character. Draws depend only on `seed` and
    the text. Lengths are in characters; two cuts inside one token start one segment of tokens.
    """

    kind: Kind
    seed: int = 0
    lookahead = None

    def __post_init__(self) -> None:
        super(Matched, self).__post_init__()
        require_choice("kind", self.kind, KINDS)
        require_integer("seed", self.seed, 0)

    def _ends(self, text: str) -> npt.NDArray[np.int64]:
        cuts: Cuts = self.of.cut(text)
        count = len(cuts) - 1
        if self.kind == "stride":
            return np.arange(1, count, dtype=np.int64) * len(text) // max(1, count)
        if self.kind == "random":
            wanted = max(0, count - 1)
            return np.argsort(self._draws(text, max(0, len(text) - 1)))[:wanted] + 1
        lengths = np.diff(cuts)
        return np.cumsum(lengths[np.argsort(self._draws(text, count))])

    def _draws(self, text: str, count: int) -> npt.NDArray[np.uint64]:
        """Return hashes of a counter, which depend only on the text and the seed."""
        digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8)
        start = int.from_bytes(digest.digest(), "little") ^ ((self.seed * GOLDEN + 1) % 2**64)
        counter = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(GOLDEN)
        return mix(mix(counter ^ np.uint64(start)) + np.uint64(start))
