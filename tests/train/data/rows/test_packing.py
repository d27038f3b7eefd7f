"""Packing: rows tile the corpus, targets are counted right, positions continue or restart."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bipe.positions import Carry, Positions
from tests.train.data.streams import Stream
from train.data.rows.choices import PACKINGS, Packing
from train.data.rows.order import RowOrder
from train.data.rows.packing import Rows

lengths = st.lists(st.integers(2, 60), min_size=1, max_size=12)


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
        for row in map(rows.row, range(len(rows)))
    ]
    assert rows.long_rows() == sum(whole)
    assert all(whole[: sum(whole)])


def test_few_rows_are_of_many_long_documents():
    """A run that needs a tenth of them does not take all from the one that is longest."""
    rows = packed(Stream([2000, *[200] * 30, *[9] * 100]), 100, strategy="long_first")
    mixture = RowOrder(rows={"x": rows}, first=8)
    _, read = mixture.global_rows(np.arange(8))
    assert rows.long_rows() == 80
    assert ((read >= 0) & (read < 80)).all()
    assert (read >= 20).sum() >= 3


def test_a_row_may_be_longer_than_the_corpus():
    for packing in set(PACKINGS) - {"single"}:
        rows = packed(Stream([3, 2]), 100, strategy=packing)
        assert len(rows) == 1
        assert rows.row(0).padding == 96
        assert rows.targets(0) == 3
