"""Which row is the n-th: a pure function of (seed, n), so that the state of a loader is n.

In a source, the rows of an epoch come in the order of a keyed permutation: a Feistel network over
pairs of digits (l, r) of mixed radix, each round adding a hash of one digit to the other. Each n is
permuted by itself, so a billion rows need no memory. The few results beyond the last row are
permuted again until they fit (cycle walking). The keys come from Philox (seed, epoch).

Between sources, rows are dealt in exact proportions. Sources are the leaves of a binary tree. Of
the first n rows of a node, floor(n p + 1/2) go to its left side, where p is that side's share of
the node's weight, and the rest to the right side; a walk from the root deals any n.

Each prefix holds the weights within two rows: |count - n w| < 2, for any number of sources. Proof.
A node that is off by e leaves its sides off by at most p e + 1/2. Each source, heaviest first, goes
to the lighter side. If a side holds several, its last source x came when the side had s >= x and
the other side at least s, so its share is at most (s + x) / (2 s + x) <= 2/3. So at inner nodes e
<= 2/3 e + 1/2, which never exceeds 3/2, and a leaf is off by less than 3/2 + 1/2.

Each source counts its own epochs. Nothing depends on the world size, the micro-batch or the past.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from segmenters.random_numbers import mix
from train.data.rows.choices import require_weights
from train.data.rows.packing import Row, Rows
from train.data.rows.spans import Integers
from train.errors import DataError

# Weights become whole numbers with at most this sum, so that products of two fit int64.
_LARGEST_SUM = 2**31 - 1
_ROUNDS = 4  # over both digits each; two are enough for ideal hashes (Luby and Rackoff, 1988)

Keys = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class _Side:
    """A node: of its first n rows, floor(n * top / bottom + 1/2) go to `left`, the rest to `right`.

    A side of one source is that source's index.
    """

    left: _Side | int
    right: _Side | int
    top: int
    bottom: int

    def of_left(self, numbers: Integers) -> Integers:
        """Return the rows of `left` among the first n; n is split so that no product overflows."""
        whole, rest = np.divmod(numbers, self.bottom)
        return whole * self.top + (2 * rest * self.top + self.bottom) // (2 * self.bottom)


class Deal:
    """An endless turn-taking of sources in fixed proportions.

    weights: one per source, above 0, in any scale. They are exact if, as fractions, they have a
    common denominator below 2^31 (decimals, numbers of rows); else to within 2^-31.
    """

    def __init__(self, weights: Sequence[float | Fraction]) -> None:
        self.weights = _whole(weights)
        self._root = _tree(list(range(len(weights))), self.weights)

    def turns(self, numbers: Integers) -> tuple[Integers, Integers]:
        """Return the source of each global row, and how many rows that source gave before it."""
        source, turn = np.empty((2, numbers.size), np.int64)
        nodes = [(self._root, np.arange(numbers.size), numbers.reshape(-1))]
        while nodes:
            node, where, turns = nodes.pop()
            if isinstance(node, int):
                source[where], turn[where] = node, turns
                continue
            before = node.of_left(turns)
            left = node.of_left(turns + 1) > before
            nodes.append((node.left, where[left], before[left]))
            nodes.append((node.right, where[~left], (turns - before)[~left]))
        return source.reshape(numbers.shape), turn.reshape(numbers.shape)

    def counts(self, number: int) -> list[int]:
        """Return how many of the first rows each source gives."""
        return [count for _, count in sorted(_counts(self._root, np.array(number, np.int64)))]


def _counts(node: _Side | int, rows: Integers) -> list[tuple[int, int]]:
    if isinstance(node, int):
        return [(node, int(rows))]
    left = node.of_left(rows)
    return _counts(node.left, left) + _counts(node.right, rows - left)


def _whole(weights: Sequence[float | Fraction]) -> list[int]:
    """Return weights as whole numbers with a sum of at most _LARGEST_SUM."""
    # As written: 0.1 is a tenth, not the binary fraction nearest to it.
    exact = [Fraction(repr(float(w))) if isinstance(w, float) else Fraction(w) for w in weights]
    scale = math.lcm(*(weight.denominator for weight in exact))
    whole = [int(weight * scale) for weight in exact]
    common = math.gcd(*whole)
    whole = [weight // common for weight in whole]
    total = sum(whole)
    if total > _LARGEST_SUM:
        room = _LARGEST_SUM - len(whole)  # for those that are rounded up to 1
        whole = [max(1, weight * room // total) for weight in whole]
    return whole


def _tree(sources: list[int], weights: list[int]) -> _Side | int:
    """Return the binary tree of some sources: each, heaviest first, goes to the lighter side."""
    if len(sources) == 1:
        return sources[0]
    sides: tuple[list[int], list[int]] = ([], [])
    sums = [0, 0]
    for source in sorted(sources, key=lambda index: -weights[index]):
        lighter = int(sums[1] < sums[0])
        sides[lighter].append(source)
        sums[lighter] += weights[source]
    left, right = (_tree(side, weights) for side in sides)
    return _Side(left, right, sums[0], sum(sums))


def _shape(size: int) -> tuple[int, int, int]:
    """Return `size` and two radices near its root whose product is at least `size`."""
    left = math.isqrt(size - 1) + 1
    return size, left, -(-size // left)


def _permuted(numbers: Integers, shapes: Integers, keys: Keys) -> Integers:
    """Permute each number: shapes int64 [3, numbers], keys uint64 [2 rounds, numbers]."""
    sizes, left, right = shapes
    numbers = _rounds(numbers, left, right, keys)
    while (outside := np.flatnonzero(numbers >= sizes)).size:
        numbers[outside] = _rounds(
            numbers[outside], left[outside], right[outside], keys[:, outside]
        )
    return numbers


def _rounds(numbers: Integers, left: Integers, right: Integers, keys: Keys) -> Integers:
    """Make one pass of the network over 0 .. left * right - 1."""
    high, low = np.divmod(numbers, right)
    for key in range(0, len(keys), 2):
        high = (high + _hash(low, keys[key], left)) % left
        low = (low + _hash(high, keys[key + 1], right)) % right
    return high * right + low


def _hash(numbers: Integers, key: Keys, size: Integers) -> Integers:
    return (mix(numbers.astype(np.uint64) ^ key) % size.astype(np.uint64)).astype(np.int64)


@functools.lru_cache(maxsize=4096)
def _keys(seed: int, epoch: int) -> Keys:
    """Return the keys of an epoch, uint64 [2 rounds]; cached, since batches share few epochs."""
    keys = np.random.Philox(key=[seed, epoch]).random_raw(2 * _ROUNDS)
    keys.flags.writeable = False
    return keys


class RowOrder:
    """An endless order of rows of several sources, shuffled and in exact proportions.

    weights: share of rows of each source, in any scale; one of weight 0 or not named is left out;
    by default the number of its rows. first: global rows of the run, of which each source gives
    only its rows of long documents, or more of its first rows if those are too few; None: all rows.
    """

    def __init__(
        self,
        *,
        rows: Mapping[str, Rows],
        weights: Mapping[str, float | Fraction] | None = None,
        seed: int = 0,
        first: int | None = None,
    ) -> None:
        shares = weights if weights else {name: len(each) for name, each in rows.items()}
        require_weights(shares, known=rows)
        self.names = [name for name, share in shares.items() if share > 0]
        self.rows = [rows[name] for name in self.names]
        self.row_length = self.rows[0].row_length
        self.continues = self.rows[0].continues
        self.deal = Deal([shares[name] for name in self.names])
        # One seed per source, or equal sources would be shuffled alike.
        keys = (np.random.Philox(key=[seed, index]) for index in range(len(self.names)))
        # 63 bits, since numpy makes a list with a larger number an array of floats.
        self._seeds = [int(key.random_raw()) >> 1 for key in keys]
        self.sizes = [len(each) for each in self.rows]
        if first is not None:
            # All rows of long documents are used, however few are needed: the first rows hold
            # only the very longest documents, which are not typical.
            asked = map(max, self.deal.counts(first), (each.long_rows() for each in self.rows))
            self.sizes = [min(n, max(1, k)) for n, k in zip(self.sizes, asked, strict=True)]
        self._shapes = np.array([_shape(size) for size in self.sizes], np.int64).T

    def __len__(self) -> int:
        return sum(self.sizes)

    def global_rows(self, numbers: npt.ArrayLike) -> tuple[Integers, Integers]:
        """Return source (index into `names`) and row of each global number, int64 as `numbers`."""
        numbers = np.asarray(numbers, dtype=np.int64)
        source, turn = self.deal.turns(numbers)
        if not numbers.size:
            return source, turn
        flat = source.reshape(-1)
        shapes = self._shapes[:, flat]
        epoch, place = np.divmod(turn.reshape(-1), shapes[0])
        # A batch has few epochs of few sources: their keys are made once.
        # Epoch and source as one number, since np.unique is slow on pairs.
        walk, which = np.unique(flat + epoch * len(self.rows), return_inverse=True)
        epochs_of = [divmod(number, len(self.rows)) for number in walk.tolist()]
        keys = np.stack([_keys(self._seeds[of], at) for at, of in epochs_of], axis=1)
        return source, _permuted(place, shapes, keys[:, which]).reshape(numbers.shape)

    def read(
        self,
        sources: Sequence[int],
        rows: Sequence[int],
        part: Sequence[int] | None = None,
        *,
        parts: int = 1,
    ) -> list[Row]:
        """Read rows of sources, or parts of them (`Rows.read`); DataError names the row."""
        places = [*zip(sources, rows, part or [0] * len(rows), strict=True)]
        read: dict[int, Iterator[Row]] = {}
        for source in set(sources):
            inside = [(row, at) for of, row, at in places if of == source]
            read[source] = iter(self._read(source, inside, parts))
        return [next(read[source]) for source in sources]

    def _read(self, source: int, places: list[tuple[int, int]], parts: int) -> list[Row]:
        """Read places (row, part) of a source."""
        rows = self.rows[source]
        try:
            return rows.read(*map(list, zip(*places, strict=True)), parts=parts)
        except Exception as fault:
            if len(places) > 1:  # each by itself: the message then names the row
                return [row for place in places for row in self._read(source, [place], parts)]
            raise DataError(
                f"{rows.data.folder}: row {places[0][0]} of source {self.names[source]} cannot be "
                f"read: {type(fault).__name__}: {fault}"
            ) from fault

    def targets(self, source: Integers, row: Integers) -> int:
        """Count the scored targets of rows of sources."""
        return sum(
            int(rows.targets(row[source == index]).sum()) for index, rows in enumerate(self.rows)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RowStatistics:
    """The rows that a run reads from one source.

    rows, documents, tokens: per epoch, which is each row once. read: rows of the whole run.
    padding: share of inputs that are padding. targets: share of inputs whose next token is scored.
    documents_per_row: also counts parts of documents. long_documents: share of inputs in documents
    of at least row_length tokens.
    """

    source: str
    rows: int
    documents: int
    tokens: int
    read: int
    padding: float
    targets: float
    documents_per_row: float
    long_documents: float

    @property
    def epochs(self) -> float:
        return self.read / self.rows


def row_statistics(order: RowOrder, *, rows: int) -> list[RowStatistics]:
    """Return what the first rows of an order read of each source."""
    return [
        RowStatistics(
            source=name,
            rows=len(rows_of),
            documents=len(rows_of.data),
            tokens=int(rows_of.data.document_ends[-1]),
            read=count,
            padding=1 - rows_of.packed.inputs() / (len(rows_of) * rows_of.row_length),
            targets=rows_of.all_targets() / (len(rows_of) * rows_of.row_length),
            documents_per_row=rows_of.packed.pieces() / len(rows_of),
            long_documents=rows_of.packed.long_inputs(size) / rows_of.packed.inputs(size),
        )
        for name, rows_of, count, size in zip(
            order.names, order.rows, order.deal.counts(rows), order.sizes, strict=True
        )
    ]


def table(statistics: Sequence[RowStatistics]) -> list[str]:
    """Return the lines of a table, one per source, under a line with the columns."""
    width = max(len("source"), *(len(each.source) for each in statistics))
    head = f"{'source':<{width}} {'rows':>11} {'tokens':>15} {'epochs':>8}"
    head += f" {'padding':>8} {'documents/row':>14} {'targets':>8} {'long documents':>15}"
    return [head] + [
        f"{each.source:<{width}} {each.rows:>11,} {each.tokens:>15,} {each.epochs:>8.3f}"
        f" {each.padding:>8.2%} {each.documents_per_row:>14.2f} {each.targets:>8.2%}"
        f" {each.long_documents:>15.2%}"
        for each in statistics
    ]
