"""Draws: the published sequence, fair, and the same for ever."""

import hypothesis.strategies as st
import pytest
from hypothesis import given

from train.evals.probes.draws import Draw


@given(key=st.lists(st.integers() | st.text(), max_size=4), stop=st.integers(1, 2**64))
def test_a_key_gives_the_same_numbers_below_the_stop(key, stop):
    one, two = Draw(*key), Draw(*key)
    found = [one.below(stop) for _ in range(5)]
    assert found == [two.below(stop) for _ in range(5)]
    assert all(0 <= number < stop for number in found)


@given(items=st.lists(st.integers()), seed=st.integers())
def test_shuffled_and_sampled_are_the_items(items, seed):
    draw = Draw(seed)
    assert sorted(draw.shuffled(items)) == sorted(items)
    assert sorted(draw.sample(items, len(items))) == sorted(items)
    for count in range(len(items)):
        assert len(draw.sample(range(len(items)), count)) == count


def test_numbers_are_fair():
    draw = Draw("fair")
    counts = [0] * 7
    for _ in range(7000):
        counts[draw.below(7)] += 1
    assert all(abs(count - 1000) < 4 * (1000 * 6 / 7) ** 0.5 for count in counts)


def test_names_are_different_and_of_their_size():
    draw = Draw(0)
    numbers, letters = draw.numbers(90, digits=2), draw.letters(8, length=3, alphabet="AB")
    assert sorted(numbers) == [str(n) for n in range(10, 100)]
    assert len(set(letters)) == 8


@pytest.mark.parametrize(("call", "told"), [
    (lambda draw: draw.below(0), r"stop must be from 1 .*, was: 0"),
    (lambda draw: draw.sample([1], 2), r"count must be at most 1"),
])  # fmt: skip
def test_what_cannot_be_drawn_is_refused(call, told):
    with pytest.raises(ValueError, match=told):
        call(Draw(0))
