"""Whose turn it is: of the first n rows of a mixture, how many each source gives. Pure in n.

Sources are the leaves of a binary tree; a node gives the left of its two sides floor(n p + 1/2)
of its own first n rows, p being the weight of that side in the node, and the right side the rest.
Any number is dealt without those before it, by a walk from the root.

Every prefix holds the weights within two rows: |count - n w| < 2, for any number of sources.
Proof. A node that is off by e leaves its sides off by at most p e + 1/2. The heaviest source first,
each source goes to the lighter side, so a side of several sources weighs at most 2/3 of its node:
if it does not hold the heaviest, it weighs at most half; else its last source came when the side
weighed no more than the other, and is no heavier than the two before it, hence than 1/3. So at
inner nodes e <= 2/3 e + 1/2, which never exceeds 3/2, and a leaf is off by less than 3/2 + 1/2.
(A chain of sources one after the other, instead of a tree, is off by k / (2e) for k equal ones.)
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from train.errors import DataError

Integers = npt.NDArray[np.int64]

# Weights become whole numbers with at most this sum, so that products of two fit int64.
_LARGEST_SUM = 2**31 - 1


@dataclass(frozen=True, slots=True)
class _Side:
    """A node: its first n rows give floor(n * top / bottom + 1/2) to `left`, the rest to `right`.

    A side that is one source is its index.
    """

    left: _Side | int
    right: _Side | int
    top: int
    bottom: int

    def given(self, numbers: Integers) -> Integers:
        """Rows of `left` among the first n. Exact: n is split so that no product overflows."""
        whole, rest = np.divmod(numbers, self.bottom)
        return whole * self.top + (2 * rest * self.top + self.bottom) // (2 * self.bottom)


class Deal:
    """An endless turn-taking of sources in fixed proportions.

    weights: one a source, above 0, in any scale. They are kept exactly where, as fractions, they
    have a common denominator below 2^31 (decimals, numbers of rows); else to within 2^-31.
    """

    def __init__(self, weights: Sequence[float | Fraction]) -> None:
        if not weights:
            raise DataError("sources: at least one weight must be above 0")
        self.weights = _whole(weights)
        self._root = _tree(list(range(len(weights))), self.weights)

    def turns(self, numbers: Integers) -> tuple[Integers, Integers]:
        """Source of each global row number, and how many rows that source gave before it."""
        source = np.empty(numbers.shape, np.int64)
        turn = np.empty(numbers.shape, np.int64)
        nodes = [(self._root, np.arange(numbers.size), numbers.reshape(-1))]
        flat_source, flat_turn = source.reshape(-1), turn.reshape(-1)
        while nodes:
            node, where, own = nodes.pop()
            if isinstance(node, int):
                flat_source[where], flat_turn[where] = node, own
                continue
            before = node.given(own)
            left = node.given(own + 1) > before
            right = ~left
            if left.any():
                nodes.append((node.left, where[left], before[left]))
            if right.any():
                nodes.append((node.right, where[right], (own - before)[right]))
        return source, turn

    def counts(self, number: int) -> list[int]:
        """Of the first `number` global rows, how many each source gives."""
        counts = [0] * len(self.weights)
        nodes = [(self._root, np.array(number, np.int64))]
        while nodes:
            node, own = nodes.pop()
            if isinstance(node, int):
                counts[node] = int(own)
            else:
                left = node.given(own)
                nodes += [(node.left, left), (node.right, own - left)]
        return counts


def by_temperature(tokens: Mapping[str, int], *, temperature: float) -> dict[str, float]:
    """Weights proportional to tokens^(1/T): 1 is by size, higher ones raise the small sources.

    The convention of mT5 (2010.11934), whose alpha is 1/T: alpha 0.3 is T = 3.33. As T grows,
    sources become equally likely.
    """
    if not 0 < temperature < math.inf:
        raise DataError(f"rows.temperature must be above 0, was: {temperature}")
    # Relative to the largest: powers of token counts themselves can overflow for T below 1.
    largest = max(tokens.values())
    return {name: (count / largest) ** (1 / temperature) for name, count in tokens.items()}


def _whole(weights: Sequence[float | Fraction]) -> list[int]:
    """Whole numbers in the same proportions."""
    # As written: 0.1 is a tenth, not the binary fraction nearest to it.
    exact = [Fraction(repr(w)) if isinstance(w, float) else Fraction(w) for w in weights]
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
