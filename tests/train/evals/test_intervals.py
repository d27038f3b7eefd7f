"""Intervals hold what they are of as often as they promise, and end where shares do."""

import math
import random
from statistics import fmean

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from train.evals.intervals import half_width, interval, over_documents, wilson


def test_the_interval_holds_the_mean_as_often_as_it_says():
    random.seed(5)
    held = 0
    for _ in range(2000):
        values = [random.gauss(1.0, 0.3) for _ in range(3)]
        held += abs(fmean(values) - 1.0) <= half_width(values)
    assert 0.93 < held / 2000 < 0.97
    assert half_width([1.0]) == math.inf and math.isnan(half_width([1.0, math.nan]))


def test_an_interval_of_shares_ends_where_shares_do_and_one_value_has_none():
    assert interval([0.0, 1.0], share=True) == (0.0, 1.0)
    assert interval([0.0, 1.0])[0] < 0
    assert interval([1.0]) is None and interval([1.0, math.nan]) is None
    assert over_documents(np.array([3.0]), np.array([2])) is None
    assert over_documents(np.array([3.0, 0.0]), np.array([2, 0])) is None
    assert over_documents(np.array([3.0, math.inf]), np.array([2, 1])) is None


@pytest.mark.parametrize(
    ("right", "total", "low", "high"),  # Newcombe, Statistics in Medicine 17 (1998), table I
    [(81, 263, 0.2553, 0.3662), (0, 20, 0, 0.1611)],
)
def test_intervals_of_wilson_are_those_of_newcombe(right, total, low, high):
    assert wilson(right, total) == pytest.approx((low, high), abs=6e-5)


@given(st.integers(1, 500), st.data())
def test_intervals_hold_their_share_and_mirror(total, data):
    right = data.draw(st.integers(0, total))
    low, high = wilson(right, total)
    assert 0 <= low <= right / total <= high <= 1
    assert wilson(total - right, total) == pytest.approx((1 - high, 1 - low))
    with pytest.raises(ValueError, match="right must be"):
        wilson(total + 1, total)


@given(st.integers(2, 400), st.integers(1, 50))
def test_the_interval_over_documents_is_that_of_the_normal_law_where_there_are_many(size, tokens):
    means = np.random.default_rng(size).normal(3.0, 0.5, size)
    sums, counts = means * tokens, np.full(size, tokens)
    low, high = over_documents(sums, counts)
    assert min(means) - 1e-9 <= low <= high <= max(means) + 1e-9
    assert over_documents(sums, counts) == (low, high)
    if size > 60:
        error = means.std() / size**0.5
        ends = (means.mean() - 1.96 * error, means.mean() + 1.96 * error)
        assert (low, high) == pytest.approx(ends, abs=0.4 * error)
