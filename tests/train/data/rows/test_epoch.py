"""An epoch: every token of every document is a target exactly once, however it is read."""

import threading

import numpy as np
import pytest
import torch

from bipe.positions import Carry, Positions
from tests.train.data.streams import Stream
from train.data.rows.choices import PACKINGS, Packing
from train.data.rows.curriculum import Curriculum, Stages
from train.data.rows.loader import IGNORED, RowLoader
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
    """(source, target) of all scored targets."""
    return sorted(
        (source, int(token))
        for batch in batches
        for source, targets in zip(batch.source.tolist(), batch.targets, strict=True)
        for token in targets[targets != IGNORED]
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
    assert scored(together) == every_target(data)
    for step in {batch.step for batch in together}:
        parts = [batch for batch in together if batch.step == step]
        count = sum(int((batch.targets != IGNORED).sum()) for batch in parts)
        assert {batch.step_targets for batch in parts} == {count}
    assert max(batch.rows_after for batch in together) == len(mixture)
    assert {batch.tokens_after for batch in together} == {
        batch.rows_after * LENGTH for batch in together
    }


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
                assert (one.step, one.rows_after) == (other.step, other.rows_after)
            if consumed < len(mixture):
                told = {"curriculum": curriculum, "start_row": consumed}
                assert loaders(mixture, **told)[0].start_step == step


def test_a_budget_of_tokens_has_the_targets_of_long_rows_in_each_step():
    _, mixture = sources("concat")
    short = list(loaders(mixture, curriculum="tokens", micro=8)[0])
    long = list(loaders(mixture, curriculum="none", micro=8)[0])
    assert [scored([batch]) for batch in short] == [scored([batch]) for batch in long]
    assert short[0].tokens.shape == (32, 8)


def test_another_global_batch_goes_on_where_the_first_stopped():
    data, mixture = sources("concat")
    before = list(loaders(mixture, steps=2)[0])
    after = RowLoader(
        order=mixture,
        micro_batch=4,
        global_batch=4,
        steps=2 + -(-(len(mixture) - 16) // 4),
        start_row=16,
        start_step=2,
        end_row=len(mixture),
    )
    rest = list(after)
    assert rest[0].step == 2
    assert scored([*before, *rest]) == every_target(data)


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
