"""Whole long documents: all of each, in the order of the file, by chunks."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.train.data.streams import Stream
from train.data.store.windows import LongDocuments
from train.errors import DataError

lengths = st.lists(st.integers(1, 50), min_size=1, max_size=12)


@given(lengths=lengths, at_least=st.integers(1, 60), size=st.integers(1, 70))
def test_chunks_joined_are_the_documents_that_are_long_enough(lengths, at_least, size):
    data = Stream(lengths)
    documents = LongDocuments(data, at_least=at_least)
    assert documents.documents.tolist() == [i for i, n in enumerate(lengths) if n >= at_least]
    assert documents.lengths.tolist() == [n for n in lengths if n >= at_least]
    chunks = list(documents.chunks(size))
    for index in documents.documents.tolist():
        own = [chunk for chunk in chunks if chunk.document == index]
        start, stop = data.span(index)
        assert np.concatenate([chunk.tokens for chunk in own]).tolist() == list(range(start, stop))
        marks = np.concatenate([chunk.marks for chunk in own])
        assert np.array_equal(marks, data.marks(start, stop))
        assert [chunk.start for chunk in own] == list(range(0, stop - start, size))
        assert [chunk.last for chunk in own] == [False] * (len(own) - 1) + [True]
    assert len(chunks) == sum(-(-n // size) for n in lengths if n >= at_least)


def test_the_first_of_them_are_taken_from_their_start():
    documents = LongDocuments(Stream([3, 9, 4, 8, 20]), at_least=8, limit=2)
    tokens, marks = documents.beginnings(5)
    assert tokens.tolist() == [[3, 4, 5, 6, 7], [16, 17, 18, 19, 20]]
    assert (marks[:, 0] == 3).all()
    with pytest.raises(DataError, match="at_least must be at least 1 token, was: 0"):
        LongDocuments(Stream([3]), at_least=0)
    with pytest.raises(DataError, match="a chunk must have at least 1 token, was: 0"):
        next(documents.chunks(0))
