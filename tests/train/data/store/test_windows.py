"""Rows read at once are the rows read one by one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.train.data.store.test_shards import random_documents, write
from train.data.rows.choices import PACKINGS, SPLIT_DOCUMENTS, Packing
from train.data.rows.order import RowOrder
from train.data.rows.packing import Rows
from train.data.store.shards import open_dataset
from train.data.store.windows import window_marks

lengths = st.lists(st.integers(1, 60), min_size=1, max_size=12)
shard_tokens = st.sampled_from([1, 20, 100, 10**6])


def dataset(factory, lengths, shard_tokens, *, levels=2, seed=0):
    folder = factory.mktemp("windows")
    documents = random_documents(seed=seed, lengths=lengths, levels=levels)
    write(folder, documents, levels=levels, shard_tokens=shard_tokens)
    return open_dataset(folder)


@given(lengths=lengths, shard_tokens=shard_tokens, levels=st.integers(1, 7), data=st.data())
def test_marks_of_windows_are_those_of_each(tmp_path_factory, lengths, shard_tokens, levels, data):
    found = dataset(tmp_path_factory, lengths, shard_tokens, levels=levels)
    total = sum(lengths)
    length = data.draw(st.integers(1, total))
    places = st.lists(st.integers(0, total - length), min_size=1, max_size=8)
    starts = np.array(data.draw(places), np.int64)
    marks = window_marks(found, starts, length)
    assert marks.dtype == np.uint8
    for start, row in zip(starts.tolist(), marks, strict=True):
        assert np.array_equal(row, found.marks(start, start + length))


@pytest.mark.parametrize("packing", PACKINGS)
@pytest.mark.parametrize("split_documents", SPLIT_DOCUMENTS)
@given(lengths=lengths, shard_tokens=shard_tokens, row_length=st.integers(1, 70), data=st.data())
def test_rows_read_at_once_are_those_of_each(
    tmp_path_factory, packing, split_documents, lengths, shard_tokens, row_length, data
):
    rows = Rows(
        data=dataset(tmp_path_factory, lengths, shard_tokens),
        row_length=row_length,
        packing=Packing(strategy=packing, split_documents=split_documents),
    )
    chosen = data.draw(st.lists(st.integers(0, len(rows) - 1), min_size=1, max_size=8))
    for index, row in zip(chosen, rows.read(chosen), strict=True):
        assert same(row, rows.row(index))


def test_rows_of_several_sources_keep_their_order(tmp_path_factory):
    mixture = RowOrder(
        rows={
            name: Rows(data=dataset(tmp_path_factory, [50, 9, 31], 40, seed=seed), row_length=6)
            for seed, name in enumerate("abc")
        }
    )
    sources, numbers = mixture.global_rows(np.arange(30))
    read = mixture.read_all(sources.tolist(), numbers.tolist())
    for source, number, row in zip(sources.tolist(), numbers.tolist(), read, strict=True):
        assert same(row, mixture.read(source, number))


def test_a_row_that_is_not_there_is_named(tmp_path_factory):
    rows = Rows(data=dataset(tmp_path_factory, [50], 40), row_length=6)
    for index in (-1, len(rows)):
        with pytest.raises(ValueError, match=f"row {index} of source a cannot be read: IndexErr"):
            RowOrder(rows={"a": rows}).read_all([0, 0], [1, index])


def same(one, other):
    return (
        np.array_equal(one.tokens, other.tokens)
        and np.array_equal(one.marks, other.marks)
        and np.array_equal(one.carry, other.carry)
        and one.padding == other.padding
    )
