"""Dealing: every prefix holds the weights, exactly, without what came before."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from train.data.rows.mixture import by_temperature
from train.data.rows.order import Deal
from train.errors import DataError

BOUND = 2  # rows; proved in order.py
whole = st.lists(st.integers(1, 10**6), min_size=1, max_size=40)
uneven = st.lists(st.floats(1e-6, 1e6, allow_nan=False), min_size=1, max_size=12)


@settings(deadline=None)
@given(weights=whole)
def test_every_prefix_is_within_two_rows_of_the_weights(weights):
    source, turn = Deal(weights).turns(np.arange(3000))
    for index, weight in enumerate(weights):
        counts = np.cumsum(source == index)
        wanted = np.arange(1, 3001) * weight / sum(weights)
        assert np.abs(counts - wanted).max() < BOUND
        assert turn[source == index].tolist() == list(range(counts[-1]))


@settings(deadline=None)
@given(weights=whole, number=st.integers(0, 10**15))
def test_far_rows_are_dealt_exactly(weights, number):
    """Against whole numbers without a size: no product overflows, no share drifts."""
    deal = Deal(weights)
    counts = deal.counts(number)
    assert sum(counts) == number
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


@settings(deadline=None)
@given(weights=whole)
def test_after_as_many_rows_as_shares_the_counts_are_the_shares(weights):
    assert Deal(weights).counts(sum(weights)) == weights
    assert Deal(weights).counts(3 * sum(weights)) == [3 * weight for weight in weights]


@settings(deadline=None)
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


@given(tokens=st.dictionaries(st.text(max_size=3), st.integers(1, 10**13), min_size=1, max_size=6))
def test_a_temperature_of_one_is_by_size_and_a_high_one_is_even(tokens):
    by_size = by_temperature(tokens, temperature=1.0)
    largest = max(tokens.values())
    assert by_size == {name: count / largest for name, count in tokens.items()}
    even = by_temperature(tokens, temperature=1e9)
    assert all(weight == pytest.approx(1, abs=1e-6) for weight in even.values())


def test_a_temperature_is_one_over_the_alpha_of_the_papers():
    weights = by_temperature({"a": 10_000, "b": 100}, temperature=2.0)
    assert weights["a"] / weights["b"] == pytest.approx((10_000 / 100) ** 0.5)
    with pytest.raises(DataError, match=r"rows\.temperature must be above 0, was: 0"):
        by_temperature({"a": 1}, temperature=0)
