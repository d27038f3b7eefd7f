"""Order: permutations without memory, and deals in exact proportions over every prefix."""

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from train.data.rows.choices import by_temperature
from train.data.rows.order import Deal, RowOrder, _keys, _permuted, _shape


class Counted:
    """Rows that know only how many they are."""

    row_length = 8
    continues = False

    def __init__(self, number, long=0):
        self.number, self.long = number, long

    def __len__(self):
        return self.number

    def long_rows(self):
        return self.long

    def targets(self, index):
        return np.asarray(index) % 5


def mixture(sizes, weights=None, seed=0, first=None, long=0):
    rows = {name: Counted(size, min(size, long)) for name, size in enumerate(sizes)}
    shares = dict(enumerate(weights)) if weights else None
    return RowOrder(rows=rows, weights=shares, seed=seed, first=first)


def permute(index, *, size, seed, epoch):
    """Return where numbers below `size` go in the order of an epoch."""
    shape, keys = (np.array(each)[:, None] for each in (_shape(size), _keys(seed, epoch)))
    each = (shape.repeat(len(index), 1), keys.repeat(len(index), 1))
    return _permuted(np.array(index, np.int64), *each)


@given(size=st.integers(1, 3000), seed=st.integers(0, 2**40), epoch=st.integers(0, 5))
def test_an_epoch_is_a_permutation(size, seed, epoch):
    order = permute(np.arange(size), size=size, seed=seed, epoch=epoch)
    assert np.array_equal(np.sort(order), np.arange(size))


@given(size=st.integers(1, 10**12), data=st.data())
def test_a_row_is_placed_without_the_others(size, data):
    index = data.draw(st.lists(st.integers(0, size - 1), min_size=1, max_size=5))
    together = permute(index, size=size, seed=1, epoch=2)
    alone = [int(permute([one], size=size, seed=1, epoch=2)[0]) for one in index]
    assert together.tolist() == alone
    assert 0 <= together.min() <= together.max() < size


@given(
    sizes=st.lists(st.integers(1, 200), min_size=1, max_size=4),
    share=st.floats(0.01, 3.0),
    weighted=st.booleans(),
)
def test_a_run_that_needs_few_rows_reads_the_first_of_each_source_once(sizes, share, weighted):
    weights = [1.0 + index for index in range(len(sizes))] if weighted else None
    first = max(1, int(share * sum(sizes)))
    source, row = mixture(sizes, weights, first=first).global_rows(np.arange(first))
    whole, _ = mixture(sizes, weights).global_rows(np.arange(first))
    assert np.array_equal(source, whole)  # the turns of the sources stay
    for index, size in enumerate(sizes):
        own, asked = row[source == index], int((source == index).sum())
        assert np.array_equal(np.unique(own), np.arange(min(asked, size)))
        if asked <= size:
            assert np.array_equal(np.sort(own), np.arange(asked))


@given(sizes=st.lists(st.integers(1, 200), min_size=1, max_size=3), long=st.integers(0, 250))
def test_a_run_that_needs_few_rows_reads_from_all_that_are_of_long_documents(sizes, long):
    """Each at most once, and others only where these do not suffice."""
    first = min(sizes)
    made = mixture(sizes, first=first, long=long)
    asked = made.deal.counts(first)
    assert made.sizes == [
        max(1, few, min(size, long)) for size, few in zip(sizes, asked, strict=True)
    ]
    source, row = made.global_rows(np.arange(first))
    for index, size in enumerate(made.sizes):
        own = row[source == index]
        assert len(np.unique(own)) == len(own) == asked[index]
        assert (own < size).all()


def test_orders_differ_by_seed_and_epoch_and_look_random():
    size = 10_000
    orders = [
        permute(np.arange(size), size=size, seed=seed, epoch=epoch)
        for seed, epoch in ((0, 0), (0, 1), (1, 0))
    ]
    for one, other in combinations([*orders, np.arange(size)], 2):
        assert abs(np.corrcoef(one, other)[0, 1]) < 0.05
        assert (one == other).sum() < 10
    steps = np.diff(orders[0])
    assert abs(np.corrcoef(steps[:-1], steps[1:])[0, 1] + 0.5) < 0.05  # as of independent draws


@given(sizes=st.lists(st.integers(1, 40), min_size=1, max_size=4))
def test_without_weights_an_epoch_of_all_is_an_epoch_of_each(sizes):
    mixed = mixture(sizes)
    source, row = mixed.global_rows(np.arange(sum(sizes)))
    assert sorted(zip(source.tolist(), row.tolist(), strict=True)) == [
        (index, number) for index, size in enumerate(sizes) for number in range(size)
    ]


@given(weights=st.lists(st.integers(1, 50), min_size=1, max_size=5), seed=st.integers(0, 9))
def test_each_source_walks_its_own_epochs(weights, seed):
    sizes = [3 + 2 * index for index in range(len(weights))]
    mixed = mixture(sizes, weights, seed)
    source, row = mixed.global_rows(np.arange(400))
    for index, size in enumerate(sizes):
        own = row[source == index]
        for epoch in range(len(own) // size):
            walked = own[epoch * size : (epoch + 1) * size]
            assert sorted(walked.tolist()) == list(range(size))


def test_a_global_row_needs_no_past():
    mixed = mixture([10, 20, 5], [0.5, 0.3, 0.2], seed=3)
    numbers = np.array([5, 10**11 + 7, 0, 123])
    source, row = mixed.global_rows(numbers)
    alone = [mixed.global_rows([number]) for number in numbers]
    assert [(int(s[0]), int(r[0])) for s, r in alone] == [*zip(source, row, strict=True)]
    assert mixed.targets(source, row) == int((row % 5).sum())
    assert mixture([3, 3], [0, 2]).names == [1]


BOUND = 2  # rows; proved in order.py
whole = st.lists(st.integers(1, 10**6), min_size=1, max_size=40)
uneven = st.lists(st.floats(1e-6, 1e6, allow_nan=False), min_size=1, max_size=12)


@given(weights=whole)
def test_every_prefix_is_within_two_rows_of_the_weights(weights):
    source, turn = Deal(weights).turns(np.arange(3000))
    for index, weight in enumerate(weights):
        counts = np.cumsum(source == index)
        wanted = np.arange(1, 3001) * weight / sum(weights)
        assert np.abs(counts - wanted).max() < BOUND
        assert turn[source == index].tolist() == list(range(counts[-1]))


@given(weights=whole, number=st.integers(0, 10**15))
def test_far_rows_are_dealt_exactly(weights, number):
    """Against whole numbers without a size: no product overflows, no share drifts."""
    deal = Deal(weights)
    counts = deal.counts(number)
    assert sum(counts) == number
    for times in (1, 3):  # after as many rows as shares, the counts are the shares
        assert deal.counts(times * sum(weights)) == [times * weight for weight in weights]
    for count, weight in zip(counts, weights, strict=True):
        assert abs(count - Fraction(number * weight, sum(weights))) < BOUND
    numbers = np.arange(number, number + 5)
    source, turn = deal.turns(numbers)
    for at, which, before in zip(numbers.tolist(), source.tolist(), turn.tolist(), strict=True):
        now, after = deal.counts(at), deal.counts(at + 1)
        assert before == now[which]
        assert [b - a for a, b in zip(now, after, strict=True)] == [
            int(index == which) for index in range(len(weights))
        ]


@given(weights=uneven, number=st.integers(0, 10**9))
def test_any_weights_are_kept_to_one_part_in_two_thousand_million(weights, number):
    counts = Deal(weights).counts(number)
    total = sum(map(Fraction, weights))
    for count, weight in zip(counts, weights, strict=True):
        off = abs(count - number * Fraction(weight) / total)
        assert off < BOUND + number * len(weights) / 2**30


def test_decimals_are_what_they_say():
    assert Deal([0.6, 0.25, 0.15]).weights == [12, 5, 3]
    assert Deal([0.1, 0.2]).weights == [1, 2]
    assert Deal([1e-12, 1.0]).weights[0] == 1  # too small to keep: still read


def test_a_temperature_is_one_over_the_alpha_of_the_papers():
    weights = by_temperature({"a": 10_000, "b": 100}, temperature=2.0)
    assert weights["a"] / weights["b"] == pytest.approx((10_000 / 100) ** 0.5)
