"""Loaders: every target once, however a batch is spread, staged or resumed; what is refused."""

import threading
from dataclasses import fields

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from lightning.fabric.utilities import move_data_to_device
from torch import Tensor

from bipe.loss import IGNORE
from bipe.positions import Carry, Positions
from tests.train.data.corpora import Stream
from train.data.rows.choices import PACKINGS, Curriculum, Packing, Stages, by_temperature
from train.data.rows.loader import RowLoader, ValidationLoader
from train.data.rows.order import RowOrder
from train.data.rows.packing import Rows
from train.errors import DataError

LENGTH, BATCH = 32, 8


def staged(budget, *steps):
    stages = [{"length": length, "steps": n} for length, n in zip((8, 16), steps, strict=False)]
    return Curriculum(stages=stages, budget=budget)


CURRICULA = {"none": staged("rows"), "tokens": staged("tokens", 2, 3), "rows": staged("rows", 3, 5)}


def sources(packing, split="restart"):
    draw = np.random.default_rng(3)
    lengths = {"short": draw.integers(1, 30, 60), "long": draw.integers(100, 400, 7), "tiny": [2]}
    data = {name: Stream(each, name=name, seed=1) for name, each in lengths.items()}
    how = Packing(strategy=packing, split_documents=split)
    rows = {name: Rows(data=each, row_length=LENGTH, packing=how) for name, each in data.items()}
    return data, RowOrder(rows=rows, seed=7)


def loaders(mixture, *, world=1, micro=2, curriculum="none", **options):
    stages = Stages(curriculum=CURRICULA[curriculum], row_length=LENGTH, global_batch=BATCH)
    given = {"order": mixture, "micro_batch": micro, "global_batch": BATCH, "stages": stages}
    given |= {"end_row": len(mixture), "steps": stages.steps(len(mixture)), "world": world}
    return [RowLoader(**given | {"rank": rank} | options) for rank in range(world)]


def scored(batches):
    """(source, target) of all scored targets, each the token behind its place."""
    for batch in batches:
        here = batch.targets != IGNORE
        assert torch.equal(batch.targets[here], batch.tokens[here] + 1)
    return sorted(
        (source, int(token))
        for batch in batches
        for source, targets in zip(batch.source.tolist(), batch.targets, strict=True)
        for token in targets[targets != IGNORE]
    )


def every_target(data):
    return sorted(
        (index, int(token)) for index, each in enumerate(data.values()) for token in each.inner()
    )


@pytest.mark.parametrize("curriculum", CURRICULA)
@pytest.mark.parametrize("packing", PACKINGS)
def test_every_target_comes_once(packing, curriculum):
    data, mixture = sources(packing)
    assert len(mixture) % BATCH  # the last batch is short
    ranks = [list(loader) for loader in loaders(mixture, world=2, curriculum=curriculum)]
    assert len({len(batches) for batches in ranks}) == 1
    together = [batch for batches in ranks for batch in batches]
    assert all(batch.carry is None and batch.marks.dtype == torch.uint8 for batch in together)
    assert scored(together) == every_target(data)
    for step in {batch.step for batch in together}:
        parts = [batch for batch in together if batch.step == step]
        count = sum(int((batch.targets != IGNORE).sum()) for batch in parts)
        assert {batch.step_targets for batch in parts} == {count}
    assert max(batch.tokens_after for batch in together) == len(mixture) * LENGTH


@pytest.mark.parametrize(("world", "micro"), [(1, 2), (2, 4), (4, 1)])
def test_the_global_batch_does_not_depend_on_how_it_is_spread(world, micro):
    _, mixture = sources("concat")
    told = {"steps": 12, "end_row": None}
    (whole,) = loaders(mixture, micro=BATCH, **told)
    spread = [list(loader) for loader in loaders(mixture, world=world, micro=micro, **told)]
    turns = BATCH // (world * micro)
    for step, batch in enumerate(whole):
        split = [each[step].split() for each in spread]
        assert all(len(parts) == turns for parts in split)
        parts = [parts[turn] for turn in range(turns) for parts in split]
        for name in ("tokens", "source"):
            joined = torch.cat([getattr(part, name) for part in parts])
            assert torch.equal(joined, getattr(batch, name))
        tokens_after = BATCH * (step + 1) * LENGTH
        assert {(part.step, part.tokens_after) for part in parts} == {(step, tokens_after)}
        count = sum(int((part.targets != IGNORE).sum()) for part in parts)
        assert {part.step_targets for part in parts} == {count}
        assert batch.source.shape == (BATCH,)
        moved = move_data_to_device(batch, torch.device("meta"))
        assert moved.tokens.is_meta and moved.step == step and not batch.tokens.is_meta


@pytest.mark.parametrize("packing", PACKINGS)
def test_parts_have_the_positions_of_their_documents(packing):
    """Read in parts, with positions that continue: each token stands where its document has it."""
    data, mixture = sources(packing, "continue")
    whole = [
        Positions.from_marks(torch.from_numpy(each.marks(0, len(each.tokens)))[None])
        for each in data.values()
    ]
    batches = list(loaders(mixture, curriculum="rows", steps=6, end_row=None)[0])
    assert {batch.tokens.shape[1] for batch in batches} == {8, 16}
    for batch in batches:
        carry = Carry.from_columns(batch.carry)
        at = Positions.from_marks(batch.marks, carry=carry, padding=batch.padding)
        for row, source in enumerate(batch.source.tolist()):
            first = at.document[row] == at.document[row, 0]
            if batch.padding is not None:
                first &= ~batch.padding[row]
            tokens = batch.tokens[row][first]
            for name in ("token", "inter", "intra"):
                expected = getattr(whole[source], name)[0, tokens]
                assert torch.equal(getattr(at, name)[row][first], expected), name
    steps = loaders(mixture, steps=3, end_row=None)[0]
    for batch in (part for step in steps for part in step.split()):
        carry = Carry.from_columns(batch.carry)
        document = Positions.from_marks(batch.marks, carry=carry, padding=batch.padding).document
        assert batch.packed == (bool((document != document[:, :1]).any()),)


@pytest.mark.parametrize("curriculum", CURRICULA)
def test_a_resumed_loader_gives_the_tail_over_a_change_of_length(curriculum):
    _, mixture = sources("concat")
    world = 2
    for rank, loader in enumerate(loaders(mixture, world=world, curriculum=curriculum)):
        whole = list(loader)
        for step in range(0, loader.steps + 1, 3):
            consumed = min(loader.stages.consumed(step), len(mixture))
            options = {"start_row": consumed, "start_step": step}
            again = loaders(mixture, world=world, curriculum=curriculum, **options)[rank]
            left = [batch for batch in whole if batch.step >= step]
            for one, other in zip(left, again, strict=True):
                assert torch.equal(one.tokens, other.tokens)
                assert torch.equal(one.targets, other.targets)
                assert (one.step, one.tokens_after) == (other.step, other.tokens_after)
            if consumed < len(mixture):
                told = {"curriculum": curriculum, "start_row": consumed}
                assert loaders(mixture, **told)[0].start_step == step


def test_what_cannot_be_read_names_its_data_and_ends_the_thread():
    data, mixture = sources("concat")
    data["long"].tokens = data["long"].tokens[:50]  # cut short behind the map
    with pytest.raises(
        DataError, match=r"^long: row \d+ of source long cannot be read: IndexError"
    ):
        list(loaders(mixture)[0])
    assert [t for t in threading.enumerate() if t.name == "bipe-rows"] == []


def test_closing_the_loader_ends_its_threads():
    _, mixture = sources("concat")
    (loader,) = loaders(mixture)
    one, other = iter(loader), iter(loader)
    next(one), next(other)
    loader.close()
    assert [t for t in threading.enumerate() if t.name == "bipe-rows"] == []


def test_iterated_again_it_goes_on_and_refuses_to_begin_anew():
    """A new epoch of Lightning's is none of ours, which are counted in rows."""
    _, mixture = sources("concat")
    (whole,), (parts,) = loaders(mixture), loaders(mixture)
    first = [batch for _, batch in zip(range(3), parts, strict=False)]
    parts.close()
    assert parts.consumed_rows() * LENGTH == first[-1].tokens_after
    assert parts.consumed_rows(unfinished=True) * LENGTH == first[-2].tokens_after
    assert all(map(equal, whole, [*first, *parts]))
    assert parts.consumed_rows() == len(mixture)
    with pytest.raises(DataError, match=r"all rows of .* are read, but .* a batch is an optimizer"):
        next(iter(parts))


def equal(one, other):
    for field in fields(one):
        a, b = getattr(one, field.name), getattr(other, field.name)
        if not (torch.equal(a, b) if isinstance(a, Tensor) else a == b):
            return False
    return True


@pytest.mark.parametrize("world", [2, 5])
def test_validation_is_the_same_rows_however_spread(world):
    rows = dict(enumerate(sources("concat")[1].rows))
    options = {"rows": rows, "micro_batch": 3, "rows_per_source": 10}
    whole = list(ValidationLoader(**options))
    ranks = [list(ValidationLoader(**options, rank=rank, world=world)) for rank in range(world)]
    assert len({len(each) for each in ranks}) == 1
    spread = sorted((batch for each in ranks for batch in each), key=lambda batch: batch.step)
    assert all(equal(a, b) for a, b in zip(whole, spread[: len(whole)], strict=True))
    assert all((batch.targets == IGNORE).all() for batch in spread[len(whole) :])
    assert [int((batch.targets != IGNORE).sum()) for batch in spread] == [
        batch.step_targets for batch in spread
    ]
    assert sorted(torch.cat([batch.source for batch in whole]).tolist()) == [
        *[0] * 10,
        *[1] * 10,
        2,
    ]


def staged_to_64(*stages, global_batch=8, budget="rows"):
    stages = [{"length": length, "steps": steps} for length, steps in stages]
    curriculum = Curriculum(stages=stages, budget=budget)
    return Stages(curriculum=curriculum, row_length=64, global_batch=global_batch)


@given(
    lengths=st.lists(st.sampled_from([4, 8, 16, 32]), unique=True, max_size=3).map(sorted),
    steps=st.lists(st.integers(1, 9), min_size=3, max_size=3),
    budget=st.sampled_from(["tokens", "rows"]),
)
def test_steps_and_rows_tell_each_other(lengths, steps, budget):
    made = staged_to_64(*zip(lengths, steps, strict=False), global_batch=16, budget=budget)
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
        (lambda: loaded(start_row=4), "start_row must be a multiple of global_batch=8, was: 4"),
        (lambda: loaded(end_row=9, steps=3), "steps must be at most 2, which read all 9 rows"),
        (lambda: staged_to_64((64, 1)), r"must divide row_length \(64\) and be below.*was: 64"),
        (lambda: staged_to_64((16, 1), (16, 1)), r"m\[1\]\.length must be above.*\(16\), was: 16"),
        (lambda: staged_to_64((16, 0)), r"curriculum\[0\]\.steps must be at least 1, was: 0"),
        (lambda: Curriculum(stages=[{"length": 1, "no": 3}]), r"\[0\] must be \{length: tokens"),
        (lambda: staged_to_64((4, 1)), r"multiple of row_length / length \(16\), or set rows.bud"),
        (lambda: some([]), r"source x, split train: has no documents: prepare"),
        (lambda: ordered(weights={"pros": 1}), r"pros: no such .* you mean 'prose'\?"),
        (lambda: ordered(weights={"code": -1}), r"code: a weight must be 0 or more, was: -1"),
        (lambda: ordered(weights={"code": 0}), "at least one weight must be above 0"),
        (lambda: by_temperature({"a": 1}, temperature=0), "temperature must be above 0, was: 0"),
    ],
)
def test_what_cannot_be_read_is_refused(make, told):
    with pytest.raises(DataError, match=told):
        make()
