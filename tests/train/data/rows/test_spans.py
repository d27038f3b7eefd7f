"""Bins: the fast packing is best fit decreasing, document by document."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from train.data.rows.spans import Bins

lengths = st.lists(st.integers(1, 60), min_size=1, max_size=60)


def one_by_one(lengths, room):
    """Room that is left in each row, by the definition of best fit decreasing."""
    rooms = []
    for length in sorted(lengths, reverse=True):
        fitting = [index for index, left in enumerate(rooms) if left >= length]
        if fitting:
            rooms[min(fitting, key=lambda index: rooms[index])] -= length
        else:
            rooms.append(room - length)
    return sorted(rooms)


def filled(bins):
    spans = [bins.spans(index) for index in range(len(bins))]
    return [int((each[:, 1] - each[:, 0]).sum()) for each in spans]


@given(lengths=lengths)
def test_it_is_best_fit_decreasing(lengths):
    bins = Bins(np.cumsum(lengths), 60, together=True, tails_first=False)
    assert sorted(61 - number for number in filled(bins)) == one_by_one(lengths, 61)


def test_it_is_best_fit_decreasing_over_many_documents():
    lengths = np.random.default_rng(0).geometric(1 / 40, 3000).clip(1, 128)
    bins = Bins(np.cumsum(lengths), 127, together=True, tails_first=False)
    assert sorted(128 - number for number in filled(bins)) == one_by_one(lengths.tolist(), 128)


@given(
    lengths=st.lists(st.integers(1, 90), min_size=1, max_size=40),
    row_length=st.integers(1, 40),
    together=st.booleans(),
    tails_first=st.booleans(),
    window=st.integers(1, 50),
)
def test_every_token_but_the_first_of_its_document_is_a_target_once(
    lengths, row_length, together, tails_first, window
):
    ends = np.cumsum(lengths)
    bins = Bins(ends, row_length, together=together, tails_first=tails_first, window=window)
    spans = [span for index in range(len(bins)) for span in bins.spans(index).tolist()]
    targets = sorted(token for start, stop in spans for token in range(start + 1, stop))
    assert targets == np.setdiff1d(np.arange(ends[-1]), [0, *ends]).tolist()
    assert max(filled(bins)) <= row_length + 1
    assert bins.pieces() == len(spans)
    assert bins.inputs() == sum(min(number, row_length) for number in filled(bins))
    rows = np.arange(len(bins))
    assert bins.targets(rows).tolist() == [
        sum(stop - start - 1 for start, stop in bins.spans(row).tolist()) for row in rows
    ]
    if tails_first or not together:  # what goes on from the row before is the first of its row
        begins = {0, *ends.tolist()}
        for row in rows:
            assert all(start in begins for start, _ in bins.spans(row).tolist()[1:])
    if not together:
        assert all(len(bins.spans(row)) == 1 for row in rows)


@pytest.mark.parametrize("together", [True, False])
def test_a_million_documents_take_little_memory_beyond_the_rows(together):
    lengths = np.random.default_rng(1).geometric(1 / 300, 200_000)
    bins = Bins(np.cumsum(lengths), 1024, together=together, tails_first=False, window=50_000)
    tokens = int(lengths.sum())
    padding = 1 - bins.inputs() / (len(bins) * 1024)
    assert int(bins.targets(np.arange(len(bins))).sum()) == tokens - len(lengths)
    assert (padding < 0.01) == together
