"""A curriculum of lengths: the same targets in the same order, whatever the length."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from train.data.rows.curriculum import Curriculum, Stages
from train.errors import DataError


def staged(stages, *, global_batch=16, budget="tokens"):
    curriculum = Curriculum(stages=stages, budget=budget)
    return Stages(curriculum=curriculum, row_length=64, global_batch=global_batch)


stages = st.lists(st.sampled_from([4, 8, 16, 32]), unique=True, max_size=3).map(sorted)
options = settings(deadline=None)


@options
@given(
    lengths=stages,
    steps=st.lists(st.integers(1, 9), min_size=3, max_size=3),
    budget=st.sampled_from(["tokens", "rows"]),
)
def test_steps_and_rows_tell_each_other(lengths, steps, budget):
    given = [{"length": one, "steps": many} for one, many in zip(lengths, steps, strict=False)]
    made = staged(given, budget=budget)
    consumed = np.cumsum([0] + [made.at(step).consumes for step in range(40)])
    for step in range(41):
        assert made.consumed(step) == consumed[step]
        assert made.steps(made.consumed(step)) == step
    for rows in range(int(consumed[-1])):
        assert made.steps(rows) == int(np.searchsorted(consumed, rows))
    assert made.at(10**9).length == 64
    for step in range(40):
        stage = made.at(step)
        tokens = stage.rows * stage.length
        assert (tokens if budget == "tokens" else stage.rows) == (16 * 64, 16)[budget == "rows"]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ([{"length": 64, "steps": 1}], r"must divide row_length \(64\) and be below it, was: 64"),
        ([{"length": 16, "steps": 1}] * 2, r"curriculum\[1\]\.length must be above.*was: 16"),
        ([{"length": 24, "steps": 1}], r"must divide row_length \(64\) and be below it, was: 24"),
        ([{"length": 16, "steps": 0}], r"curriculum\[0\]\.steps must be at least 1, was: 0"),
        ([{"length": 16}], r"curriculum\[0\] must be \{length: tokens, steps: steps\}"),
        ([{"length": 16, "until": 3}], r"curriculum\[0\] must be"),
    ],
)
def test_what_is_no_curriculum_is_refused(given, told):
    with pytest.raises(DataError, match=told):
        staged(given)


def test_what_makes_no_whole_rows_is_refused():
    given = [{"length": 4, "steps": 1}]
    with pytest.raises(DataError, match=r"must be a multiple of row_length / length \(16\)"):
        staged(given, global_batch=8, budget="rows")
    with pytest.raises(DataError, match=r"budget must be one of tokens, rows, was: steps"):
        Curriculum(budget="steps")
