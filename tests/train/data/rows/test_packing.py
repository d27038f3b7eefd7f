"""Packing: rows tile the corpus, targets are counted right, positions continue or restart."""

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from bipe.positions import Carry, Positions
from tests.train.data.streams import Stream
from train.data.rows.choices import PACKINGS, Packing
from train.data.rows.datamodule import row_statistics, table
from train.data.rows.order import RowOrder
from train.data.rows.packing import Rows
from train.data.rows.spans import Bins

lengths = st.lists(st.integers(2, 40), min_size=1, max_size=9)


def packed(data, row_length, **packing):
    return Rows(data=data, row_length=row_length, packing=Packing(**packing))


def real(row):
    end = len(row.tokens) - row.padding
    return row.tokens[:end], row.marks[:end]


every_row = pytest.mark.parametrize("packing", PACKINGS)
every_split = pytest.mark.parametrize("split_documents", ["restart", "continue"])


@every_row
@every_split
@given(lengths=lengths, row_length=st.integers(1, 40))
def test_positions_of_rows_are_those_of_their_documents(
    packing, split_documents, lengths, row_length
):
    data = Stream(lengths)
    continues = split_documents == "continue"
    rows = packed(data, row_length, strategy=packing, split_documents=split_documents)
    whole = Positions.from_marks(torch.from_numpy(data.marks(0, len(data.tokens)))[None])
    for number in range(len(rows)):
        row = rows.row(number)
        tokens, marks = real(row)
        carry = Carry.from_columns(torch.from_numpy(row.carry)[None]) if continues else None
        found = Positions.from_marks(torch.from_numpy(marks)[None], carry=carry)
        at = 0
        for start, stop in rows.spans(number).tolist():
            here, there = slice(at, at + stop - start), slice(start, stop)
            at += stop - start
            begins = start in (0, *data.document_ends)
            for name in ("token", "inter", "intra"):
                expected = getattr(whole, name)[0, there]
                ids = getattr(found, name)[0, here]
                if begins or (continues and here.start == 0):
                    assert torch.equal(ids, expected), name
                elif name != "intra":  # restarted: counted from the first token of the span
                    document = whole.document[0, there]
                    own = document == document[0]
                    assert torch.equal(ids[own], (expected - expected[0])[own]), name
        assert len(tokens) == at


@every_split
@given(lengths=lengths, row_length=st.integers(1, 40))
def test_best_fit_holds_whole_documents(split_documents, lengths, row_length):
    data = Stream(lengths)
    rows = packed(data, row_length, strategy="best_fit", split_documents=split_documents)
    spans = [tuple(span) for n in range(len(rows)) for span in rows.spans(n).tolist()]
    for index, length in enumerate(lengths):
        if length <= row_length + 1:
            assert data.span(index) in spans
    filled = [sum(stop - start for start, stop in rows.spans(n).tolist()) for n in range(len(rows))]
    assert max(filled) <= row_length + 1


def test_long_first_sorts_documents():
    data = Stream([3, 9, 2, 9])
    rows = packed(data, 9, strategy="long_first")
    first = np.concatenate([rows.row(n).tokens[:9] for n in range(2)])
    assert first.tolist() == [*range(3, 12), *range(14, 23)]
    assert len(rows) == 3


@given(lengths=lengths, row_length=st.integers(1, 40))
def test_long_rows_come_first_and_hold_nothing_else(lengths, row_length):
    data = Stream(lengths)
    rows = packed(data, row_length, strategy="long_first")
    of = np.repeat(lengths, lengths)  # the length of the document of each token
    whole = [
        row.padding <= 1 and bool((of[row.tokens[:row_length]] >= row_length).all())
        for row in rows.read(range(len(rows)))
    ]
    assert rows.long_rows() == sum(whole)
    assert all(whole[: sum(whole)])


def test_a_row_may_be_longer_than_the_corpus():
    for packing in set(PACKINGS) - {"single"}:
        rows = packed(Stream([3, 2]), 100, strategy=packing)
        assert len(rows) == 1
        assert rows.row(0).padding == 96
        assert rows.targets(0) == 3


many = st.lists(st.integers(1, 60), min_size=1, max_size=60)


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


@given(lengths=many)
@example(np.random.default_rng(0).geometric(1 / 20, 3000).clip(1, 61).tolist())
def test_it_is_best_fit_decreasing(lengths):
    bins = Bins(np.cumsum(lengths), 60, together=True, tails_first=False)
    assert sorted(61 - number for number in filled(bins)) == one_by_one(lengths, 61)


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


@pytest.mark.parametrize("packing", PACKINGS)
@given(lengths=st.lists(st.integers(1, 60), min_size=1, max_size=20), row_length=st.integers(1, 40))
def test_they_are_what_reading_counts(packing, lengths, row_length):
    rows = Rows(data=Stream(lengths), row_length=row_length, packing=Packing(strategy=packing))
    (found,) = row_statistics(RowOrder(rows={"x": rows}), rows=3 * len(rows))
    padding = targets = documents = long = 0
    ends = np.cumsum(lengths)
    for number in range(len(rows)):
        row = rows.row(number)
        inputs = min(row_length, row_length + 1 - row.padding)
        padding += row_length - inputs
        documents += int((row.marks[:inputs] & 1).sum())
        targets += int(rows.targets(number))
        of = np.searchsorted(ends, row.tokens[:inputs], side="right")  # a stream of 0, 1, 2 ...
        long += int((np.array(lengths)[of] >= row_length).sum())
        assert rows.long_share(number + 1) == pytest.approx(
            long / ((number + 1) * row_length - padding)
        )
    places = len(rows) * row_length
    assert found.padding == pytest.approx(padding / places)
    assert found.targets == pytest.approx(targets / places)
    if packing in ("concat", "long_first"):
        assert found.documents_per_row == pytest.approx(documents / len(rows))
    assert found.long_documents == rows.long_share(len(rows))
    assert (found.rows, found.read, found.epochs) == (len(rows), 3 * len(rows), 3.0)
    assert (found.documents, found.tokens) == (len(lengths), sum(lengths))


def test_the_table_has_a_line_a_source():
    rows = {name: Rows(data=Stream([50] * 9), row_length=10) for name in ("prose", "code")}
    mixture = RowOrder(rows=rows, weights={"prose": 3, "code": 1})
    found = row_statistics(mixture, rows=180)
    assert [each.read for each in found] == [135, 45]
    head, *lines = table(found)
    assert [line.split()[0] for line in lines] == ["prose", "code"]
    assert [line.split()[3] for line in lines] == ["3.000", "1.000"]
    assert len({len(line) for line in (head, *lines)}) == 1
    assert np.isclose(found[0].documents_per_row, 1.0)
