"""Batches and loaders: the same global batch however it is spread; stages; what is refused."""

from dataclasses import fields

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from bipe.positions import Carry, Positions
from tests.train.data.corpora import random_documents, write_shards
from tests.train.data.streams import Stream
from train.data.rows.choices import PACKINGS, Packing, by_temperature
from train.data.rows.curriculum import Curriculum, Stages
from train.data.rows.loader import IGNORED, RowLoader, ValidationLoader
from train.data.rows.order import RowOrder
from train.data.rows.packing import Rows
from train.data.store.shards import open_dataset
from train.errors import DataError


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    folders = []
    for source, (documents, longest) in enumerate([(30, 50), (4, 900)]):
        folders.append(tmp_path_factory.mktemp(f"s{source}"))
        lengths = np.random.default_rng(source).integers(2, longest, documents)
        write_shards(folders[-1], random_documents(lengths, levels=1), levels=1)
    return folders


def rows(folders, **packing):
    return {
        f"s{index}": Rows(data=open_dataset(folder), row_length=32, packing=Packing(**packing))
        for index, folder in enumerate(folders)
    }


def loader(folders, *, packing="concat", split_documents="restart", **options):
    made = rows(folders, strategy=packing, split_documents=split_documents)
    mixture = RowOrder(rows=made, weights={"s0": 1, "s1": 3}, seed=5)
    return RowLoader(
        **({"order": mixture, "micro_batch": 8, "global_batch": 8, "steps": 12} | options)
    )


def equal(one, other):
    for field in fields(one):
        a, b = getattr(one, field.name), getattr(other, field.name)
        if not (torch.equal(a, b) if isinstance(a, Tensor) else a == b):
            return False
    return True


@pytest.mark.parametrize(("world", "micro"), [(1, 2), (2, 4), (4, 1)])
def test_the_global_batch_does_not_depend_on_how_it_is_spread(folders, world, micro):
    whole = list(loader(folders))
    spread = [
        list(loader(folders, micro_batch=micro, rank=rank, world=world)) for rank in range(world)
    ]
    turns = 8 // (world * micro)
    for step, batch in enumerate(whole):
        parts = [
            spread[rank][step * turns + turn] for turn in range(turns) for rank in range(world)
        ]
        for name in ("tokens", "source"):
            joined = torch.cat([getattr(part, name) for part in parts])
            assert torch.equal(joined, getattr(batch, name))
        assert {(part.step, part.rows_after) for part in parts} == {(step, 8 * step + 8)}
        scored = sum(int((part.targets != IGNORED).sum()) for part in parts)
        assert {part.step_targets for part in parts} == {scored}


@pytest.mark.parametrize("packing", PACKINGS)
@pytest.mark.parametrize("split_documents", ["restart", "continue"])
def test_targets_follow_their_tokens_inside_a_document(folders, packing, split_documents):
    for batch in loader(folders, packing=packing, split_documents=split_documents, steps=6):
        carry = Carry.from_columns(batch.carry) if batch.carry is not None else None
        assert (carry is not None) == (split_documents == "continue")
        positions = Positions.from_marks(batch.marks, carry=carry, padding=batch.padding)
        same = positions.document[:, 1:] == positions.document[:, :-1]
        same &= positions.document[:, 1:] >= 0
        inner = batch.targets[:, :-1]
        assert torch.equal(inner != IGNORED, same)
        assert torch.equal(inner[same], batch.tokens[:, 1:][same])
        one = bool((positions.document == positions.document[:, :1]).all())
        assert batch.packed == (not one)
        shapes = {(each.shape, each.dtype) for each in (batch.tokens, batch.targets)}
        assert shapes == {((8, 32), torch.int64)} and batch.marks.dtype == torch.uint8
        assert batch.source.shape == (8,) and batch.to("meta").tokens.device.type == "meta"


@pytest.mark.parametrize("world", [2, 5])
def test_validation_is_the_same_rows_however_spread(folders, world):
    options = {"rows": rows(folders), "micro_batch": 3, "rows_per_source": 10}
    whole = list(ValidationLoader(**options))
    ranks = [list(ValidationLoader(**options, rank=rank, world=world)) for rank in range(world)]
    assert len({len(each) for each in ranks}) == 1
    spread = sorted((batch for each in ranks for batch in each), key=lambda batch: batch.step)
    assert all(equal(a, b) for a, b in zip(whole, spread[: len(whole)], strict=True))
    assert all((batch.targets == IGNORED).all() for batch in spread[len(whole) :])
    assert [int((batch.targets != IGNORED).sum()) for batch in spread] == [
        batch.step_targets for batch in spread
    ]
    assert sorted(torch.cat([batch.source for batch in whole]).tolist()) == [0] * 10 + [1] * 10


def staged(*stages, global_batch=8, budget="rows"):
    stages = [{"length": length, "steps": steps} for length, steps in stages]
    curriculum = Curriculum(stages=stages, budget=budget)
    return Stages(curriculum=curriculum, row_length=64, global_batch=global_batch)


@given(
    lengths=st.lists(st.sampled_from([4, 8, 16, 32]), unique=True, max_size=3).map(sorted),
    steps=st.lists(st.integers(1, 9), min_size=3, max_size=3),
    budget=st.sampled_from(["tokens", "rows"]),
)
def test_steps_and_rows_tell_each_other(lengths, steps, budget):
    made = staged(*zip(lengths, steps, strict=False), global_batch=16, budget=budget)
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


def some(lengths=(3,), row_length=4, **packing):
    return Rows(data=Stream(lengths), row_length=row_length, packing=Packing(**packing))


def ordered(**options):
    return RowOrder(rows={"prose": some(), "code": some()}, **options)


def loaded(**options):
    given = {"order": ordered(), "micro_batch": 8, "global_batch": 8, "steps": 12} | options
    return RowLoader(**given)


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: loaded(micro_batch=3), r"global_batch must be a multiple .* was: 8 for 3 \* 1"),
        (lambda: loaded(world=3), r"was: 8 for 8 \* 3"),
        (lambda: loaded(rank=1), "rank must be from 0 to 0, was: 1"),
        (lambda: loaded(start_row=4), "start_row must be a multiple of global_batch=8, was: 4"),
        (lambda: loaded(micro_batch=0), "micro_batch must be at least 1, was: 0"),
        (lambda: staged((64, 1)), r"must divide row_length \(64\) and be below.*was: 64"),
        (lambda: staged((24, 1)), r"must divide row_length \(64\) and be below.*was: 24"),
        (lambda: staged((16, 1), (16, 1)), r"m\[1\]\.length must be above.*\(16\), was: 16"),
        (lambda: staged((16, 0)), r"curriculum\[0\]\.steps must be at least 1, was: 0"),
        (lambda: Curriculum(stages=[{"length": 1, "no": 3}]), r"\[0\] must be \{length: tokens"),
        (lambda: staged((4, 1)), r"multiple of row_length / length \(16\), or set rows.bud"),
        (lambda: some(row_length=0), "row_length must be at least 1, was: 0"),
        (lambda: some(strategy="x"), r"packing must be one of concat, best_fit.*was: x"),
        (lambda: some(split_documents="x"), "must be restart or continue, was: x"),
        (lambda: some([]), r"source x, split train: has no documents\. Prepare"),
        (lambda: ordered(weights={"pros": 1}), r"pros: no such .* you mean 'prose'\?"),
        (lambda: ordered(weights={"code": -1}), r"code: a weight must be 0 or more, was: -1"),
        (lambda: ordered(weights={"code": 0}), "at least one weight must be above 0"),
        (lambda: ordered(seed=-1), "seed must be at least 0, was: -1"),
        (lambda: by_temperature({"a": 1}, temperature=0), "temperature must be above 0, was: 0"),
    ],
)
def test_what_cannot_be_read_is_refused(make, told):
    with pytest.raises(DataError, match=told):
        make()
