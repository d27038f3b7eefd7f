"""Which row comes n-th: a pure function of (seed, n), so that the state of a loader is n.

Inside a source the rows of an epoch come in the order of a keyed permutation: a Feistel network
over pairs of digits (l, r) of mixed radix, each round adding a hash of one digit to the other.
Any n is permuted without the others, so that a billion rows cost no memory. Numbers beyond the
last row, which are few, walk on along their cycle. The keys come from Philox (seed, epoch).

Between sources the n-th row is dealt by error diffusion: of the first n rows source i has
floor(n * w_i + 1/2), the sources one after the other over what is left. So every prefix, and
every global batch, holds the weights as nearly as whole rows can. Each source walks its own
epochs. Nothing here depends on the world size, the micro-batch or the past.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from train.data.documents import DataError
from train.data.packing import Row, Rows

_ROUNDS = 4
# Weights are fractions with at most this denominator, so that products with row numbers fit int64.
_LARGEST_PART = 1_000_000
_MIX = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))

Integers = npt.NDArray[np.int64]


def permute(index: npt.ArrayLike, *, size: int, seed: int, epoch: int) -> Integers:
    """Where the numbers 0 .. size - 1 go in the order of an epoch: int64, shaped as `index`."""
    keys = np.random.Philox(key=[seed, epoch]).random_raw(2 * _ROUNDS)
    numbers = np.array(index, dtype=np.int64)
    flat = numbers.reshape(-1)
    if flat.size and not 0 <= flat.min() <= flat.max() < size:
        raise IndexError(f"index must be from 0 to {size - 1}, was: {flat.min()} to {flat.max()}")
    flat[:] = _rounds(flat, size, keys)
    while (outside := flat >= size).any():
        flat[outside] = _rounds(flat[outside], size, keys)
    return numbers


def _rounds(numbers: Integers, size: int, keys: npt.NDArray[np.uint64]) -> Integers:
    """One pass of the network over 0 .. left * right - 1, the least such range above `size`."""
    left = math.isqrt(size - 1) + 1
    right = -(-size // left)
    high, low = np.divmod(numbers, right)
    for key in range(0, len(keys), 2):
        high = (high + _hash(low, keys[key], left)) % left
        low = (low + _hash(high, keys[key + 1], right)) % right
    return high * right + low


def _hash(numbers: Integers, key: np.uint64, size: int) -> Integers:
    """A number below `size` for each number: the finaliser of splitmix64 under a key."""
    mixed = numbers.astype(np.uint64) ^ key
    mixed = (mixed ^ (mixed >> np.uint64(30))) * _MIX[0]
    mixed = (mixed ^ (mixed >> np.uint64(27))) * _MIX[1]
    return ((mixed ^ (mixed >> np.uint64(31))) % np.uint64(size)).astype(np.int64)


class Mixture:
    """An endless order of rows of several sources, shuffled and in exact proportions.

    rows: the rows of each source, by name.
    weights: share of rows of each named source (any scale; a source of weight 0 or not named is
    left out); by default each source has as many shares as rows.
    seed: another one gives another order.
    """

    def __init__(
        self, *, rows: Mapping[str, Rows], weights: Mapping[str, float] | None = None, seed: int = 0
    ) -> None:
        if seed < 0:
            raise DataError(f"seed must be at least 0, was: {seed}")
        shares = weights if weights else {name: len(each) for name, each in rows.items()}
        require_known(shares, known=rows)
        for name, share in shares.items():
            if not 0 <= share < math.inf:
                raise DataError(f"sources.{name}: a weight must be 0 or more, was: {share}")
        self.names = [name for name, share in shares.items() if share > 0]
        if not self.names:
            raise DataError("sources: at least one weight must be above 0")
        self.rows = [rows[name] for name in self.names]
        self.row_length = self.rows[0].row_length
        self.continues = self.rows[0].continues
        self._parts = _parts([Fraction(shares[name]) for name in self.names])
        # One seed a source, or equal sources would come in step.
        self._seeds = [_source_seed(seed, index) for index in range(len(self.names))]

    def global_rows(self, numbers: npt.ArrayLike) -> tuple[Integers, Integers]:
        """Source (index into `names`) and row of each global number, int64 as `numbers`."""
        numbers = np.asarray(numbers, dtype=np.int64)
        source, turn = self._deal(numbers)
        row = np.empty_like(numbers)
        for index, rows in enumerate(self.rows):
            epochs, places = np.divmod(turn, len(rows))
            for epoch in np.unique(epochs[source == index]).tolist():
                here = (source == index) & (epochs == epoch)
                row[here] = permute(
                    places[here], size=len(rows), seed=self._seeds[index], epoch=epoch
                )
        return source, row

    def global_row(self, number: int) -> tuple[int, int]:
        """Source (index into `names`) and row of one global number."""
        source, row = self.global_rows([number])
        return int(source[0]), int(row[0])

    def read(self, source: int, row: int) -> Row:
        """Content of a row of a source (index into `names`)."""
        return self.rows[source].row(row)

    def targets(self, source: Integers, row: Integers) -> int:
        """Scored targets of these rows of these sources together."""
        return sum(
            int(rows.targets(row[source == index]).sum()) for index, rows in enumerate(self.rows)
        )

    def _deal(self, numbers: Integers) -> tuple[Integers, Integers]:
        """Source of each global number, and how many rows that source gave before it."""
        source = np.full(numbers.shape, len(self.rows) - 1)
        turn, left = numbers.copy(), np.ones(numbers.shape, bool)
        rest = numbers.copy()  # the number among the rows that sources so far have not taken
        for index, part in enumerate(self._parts):
            given, after = _share(rest, part), _share(rest + 1, part)
            taken = left & (after > given)
            source[taken], turn[taken] = index, given[taken]
            left &= ~taken
            rest = rest - given
        turn[left] = rest[left]
        return source, turn


def require_known(names: Mapping[str, object], *, known: Mapping[str, object]) -> None:
    """Raise DataError for a source that there is not, with the nearest that there is."""
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]}? " if near else ""
            raise DataError(f"sources.{name}: no such source; {hint}there is: {', '.join(known)}")


def _parts(weights: list[Fraction]) -> list[Fraction]:
    """Share of each source but the last in what the sources before it have left."""
    parts = []
    for index, weight in enumerate(weights[:-1]):
        part = (weight / sum(weights[index:])).limit_denominator(_LARGEST_PART)
        parts.append(part)
    return parts


def _share(numbers: Integers, part: Fraction) -> Integers:
    """Of the first n rows: floor(n * part + 1/2)."""
    top, bottom = part.numerator, part.denominator
    return (2 * numbers * top + bottom) // (2 * bottom)


def _source_seed(seed: int, index: int) -> int:
    return int(np.random.Philox(key=[seed, index]).random_raw()) >> 1
