"""Batches and loaders: exact resume, and the same global batch however it is spread.

A curriculum of lengths gives the same targets in the same order, whatever the length.
"""

import threading
from dataclasses import fields

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from bipe.positions import Carry, Positions
from train.data.rows.choices import PACKINGS, Packing
from train.data.rows.curriculum import Curriculum, Stages
from train.data.rows.loader import IGNORED, RowLoader, ValidationLoader, ahead
from train.data.rows.order import RowOrder
from train.data.rows.packing import Rows
from train.data.store.shards import open_dataset
from train.data.store.writer import ShardWriter
from train.errors import DataError


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    draw = np.random.default_rng(0)
    folders = []
    for source, (documents, longest) in enumerate([(30, 50), (4, 900)]):
        folder = tmp_path_factory.mktemp(f"s{source}")
        with ShardWriter(
            folder=folder, name=f"s{source}", vocab_size=999, levels=1, description={}
        ) as writer:
            for number in range(documents):
                length = int(draw.integers(2, longest))
                marks = (draw.random(length) < 0.2).astype(np.uint8) << 1
                marks[0] = 3
                tokens = draw.integers(0, 999, length)
                writer.add(tokens, marks, id=str(number), size=length)
        folders.append(folder)
    return folders


def rows(folders, **packing):
    return {
        f"s{index}": Rows(data=open_dataset(folder), row_length=32, packing=Packing(**packing))
        for index, folder in enumerate(folders)
    }


def loader(folders, *, packing="concat", split_documents="restart", **options):
    mixture = RowOrder(
        rows=rows(folders, strategy=packing, split_documents=split_documents),
        weights={"s0": 1, "s1": 3},
        seed=5,
    )
    return RowLoader(
        **({"order": mixture, "micro_batch": 8, "global_batch": 8, "steps": 12} | options)
    )


def equal(one, other):
    for field in fields(one):
        a, b = getattr(one, field.name), getattr(other, field.name)
        if isinstance(a, Tensor) and isinstance(b, Tensor):
            if not torch.equal(a, b):
                return False
        elif a != b:
            return False
    return True


def joined(batches):
    return torch.cat([batch.tokens for batch in batches])


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
        assert torch.equal(joined(parts), batch.tokens)
        assert torch.equal(torch.cat([part.source for part in parts]), batch.source)
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


def test_types_are_those_that_models_expect(folders):
    batch = next(iter(loader(folders)))
    assert (batch.tokens.shape, batch.tokens.dtype) == ((8, 32), torch.int64)
    assert (batch.targets.shape, batch.targets.dtype) == ((8, 32), torch.int64)
    assert (batch.marks.shape, batch.marks.dtype) == ((8, 32), torch.uint8)
    assert (batch.source.shape, batch.source.dtype) == ((8,), torch.int64)
    assert equal(batch.to("cpu"), batch)
    assert batch.to("meta").tokens.device.type == "meta"


def reading():
    return [thread for thread in threading.enumerate() if thread.name == "bipe-rows"]


def test_what_the_thread_raises_arrives_in_its_turn(folders):
    good = list(loader(folders, steps=2))

    def failing():
        yield from good
        raise OSError("the disk is gone")

    found = []
    with pytest.raises(OSError, match="the disk is gone"):
        for batch in ahead(failing()):
            found.append(batch)
    assert len(found) == 2
    assert reading() == []


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"micro_batch": 3}, r"global_batch must be a multiple .* was: 8 for 3 \* 1"),
        ({"world": 3}, r"was: 8 for 8 \* 3"),
        ({"rank": 1}, "rank must be from 0 to 0, was: 1"),
        ({"start_row": 4}, "start_row must be a multiple of global_batch=8, was: 4"),
        ({"micro_batch": 0}, "micro_batch must be at least 1, was: 0"),
    ],
)
def test_what_does_not_divide_is_refused(folders, options, fault):
    with pytest.raises(DataError, match=fault):
        loader(folders, **options)


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


def staged(stages, *, global_batch=16, budget="tokens"):
    curriculum = Curriculum(stages=stages, budget=budget)
    return Stages(curriculum=curriculum, row_length=64, global_batch=global_batch)


stages = st.lists(st.sampled_from([4, 8, 16, 32]), unique=True, max_size=3).map(sorted)


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
        ([{"length": 64, "steps": 1}], r"must divide row_length \(64\) and be below.*was: 64"),
        ([{"length": 24, "steps": 1}], r"must divide row_length \(64\) and be below.*was: 24"),
        ([{"length": 16, "steps": 1}] * 2, r"curriculum\[1\]\.length must be above.*was: 16"),
        ([{"length": 16, "steps": 0}], r"curriculum\[0\]\.steps must be at least 1, was: 0"),
        ([{"length": 16, "until": 3}], r"curriculum\[0\] must be \{length: tokens, steps"),
        ([{"length": 4, "steps": 1}], r"multiple of row_length / length \(16\), or set rows.bud"),
    ],
)
def test_what_is_no_curriculum_is_refused(given, told):
    with pytest.raises(DataError, match=told):
        staged(given, global_batch=8, budget="rows")
