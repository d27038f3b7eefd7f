"""Indices of training are counted exactly, whatever stops a run and how many processes it has."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bipe import Positions
from tests.train.studies import composed, crashing, indices_seen, pretrain
from train.data.rows.datamodule import LMDataModule
from train.data.rows.loader import RowLoader
from train.fit.module import positions_of
from train.fit.watching.counts import IndexCounts, bin_of, largest_in, summary_of

CPU = torch.device("cpu")


def of_indices(values):
    """What is told of these token indices."""
    counts = IndexCounts()
    ids = torch.tensor([values])
    counts.add(Positions(document=torch.zeros_like(ids), token=ids, inter=ids, intra=ids))
    return summary_of(counts.state(CPU))["token"]


@given(st.lists(st.integers(0, 8191), min_size=1, max_size=400))
def test_percentiles_are_those_of_the_sorted_indices(values):
    ordered, told = sorted(values), of_indices(values)
    assert told["counted"] == len(values) and told["maximum"] == ordered[-1]
    for name, permille in (("p99", 990), ("p99.9", 999)):
        assert told[name] == ordered[-(-len(values) * permille // 1000) - 1]


@given(st.integers(0, 2**31 - 1))
def test_a_bin_is_narrow(value):
    largest = largest_in(int(bin_of(torch.tensor(value))))
    assert value <= largest <= value + value // 4096
    assert value >= 8192 or largest == value


def test_padding_is_not_counted_and_documents_begin_again():
    counts = IndexCounts()
    nothing = {"counted": 0, "maximum": -1, "p99": -1, "p99.9": -1}
    assert summary_of(counts.state(CPU))["segment"] == nothing
    marks = torch.tensor([[3, 0, 2, 3, 0, 0], [3, 2, 2, 2, 0, 0]], dtype=torch.uint8)
    padding = torch.zeros(2, 6, dtype=torch.bool)
    padding[:, 5] = True
    counts.add(Positions.from_marks(marks, padding=padding))
    state = counts.state(CPU)
    assert state["token"]["bins"].tolist() == [0, 1, 2, 3, 4]
    assert state["token"]["counts"].tolist() == [3, 3, 2, 1, 1]
    assert state["segment"]["counts"].tolist() == [5, 2, 1, 2]
    assert state["segment"]["maximum"] == 3


def by_hand(words):
    """Indices of all tokens of a run, from its rows."""
    study = composed(*words)
    data = LMDataModule(folder=study.data, row_length=64, global_batch=4, micro_batch=4)
    loader = RowLoader(order=data.order(), micro_batch=4, global_batch=4, steps=study.steps)
    found = [positions_of(batch) for batch in loader.batches()]
    return {
        "token": torch.cat([at.token.flatten() for at in found]).numpy(),
        "segment": torch.cat([at.inter.flatten() for at in found]).numpy(),
    }


@pytest.mark.slow
def test_a_run_records_what_it_saw_stopped_or_not(smoke):
    words = (*smoke, "rows.micro_batch=1")
    with crashing(at=3):
        pretrain(*words)
    run = pretrain(*words)
    told = indices_seen(run)
    for level, indices in by_hand(words).items():
        ordered = np.sort(indices)
        assert (told[level]["counted"], told[level]["maximum"]) == (len(ordered), ordered[-1])
        for name, permille in (("p99", 990), ("p99.9", 999)):
            assert told[level][name] == ordered[-(-len(ordered) * permille // 1000) - 1]
    # A run that is done already tells the same.
    assert indices_seen(pretrain(*words)) == told
