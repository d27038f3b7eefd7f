"""Rows of examples: outputs alone are scored, each once, however rows are packed."""

import numpy as np
import pytest
import torch

from bipe import Positions
from tests.bipe.conftest import small_decoder
from tests.train.scrolls.examples import DrawnTask, drawn_examples, encoder
from train.data.rows.choices import Packing
from train.data.rows.curriculum import Curriculum
from train.data.rows.datamodule import LMDataModule
from train.data.rows.loader import IGNORED, collate
from train.data.rows.packing import Rows
from train.data.rows.sets import DataSets
from train.data.store.verify import data_faults
from train.errors import DataError
from train.tasks.scrolls.prepared import OUTPUT_LEVEL, prepare_examples


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    return prepare_examples(DrawnTask(), encoder=encoder(), out=tmp_path_factory.mktemp("rows"))


def split(prepared, name="train"):
    return DataSets(prepared.folder).open("drawn", name, verify=True)


def rows_of(data, *, row_length=256, **packing):
    packing = Packing(**{"strategy": "single", "prompt_level": OUTPUT_LEVEL} | packing)
    return Rows(data=data, row_length=row_length, packing=packing)


def batch_of(rows, indices):
    told = {"step": 0, "step_targets": int(rows.targets(indices).sum()), "rows_after": 0}
    sources = [0] * len(indices)
    return collate(rows.read(indices), sources=sources, continues=False, tokens_after=0, **told)


def test_what_is_prepared_is_a_data_set_that_verifies(prepared):
    assert list(data_faults(prepared.folder)) == []
    data = split(prepared)
    examples = DrawnTask().examples("train")
    assert data.document_ids() == [example.id for example in examples]
    for index, encoded in enumerate(encoder().examples(examples)):
        tokens, marks = data.document(index)
        assert tokens.tolist() == [*encoded.prompt.tolist(), *encoded.output.tolist()]
        expected = [*encoded.prompt_marks.tolist(), *encoded.output_marks.tolist()]
        assert (marks & 3).tolist() == expected
        assert np.flatnonzero(marks & 4).tolist() == [0, len(encoded.prompt)]


def test_the_same_request_is_made_once_and_another_stands_beside_it(prepared):
    out = prepared.folder.parent
    before = (prepared.folder / "manifest.json").stat().st_mtime_ns
    again = prepare_examples(DrawnTask(), encoder=encoder(), out=out)
    assert again == prepared
    assert (again.folder / "manifest.json").stat().st_mtime_ns == before
    cut = prepare_examples(DrawnTask(), encoder=encoder(row_length=60), out=out)
    assert cut.folder != prepared.folder
    assert prepared.truncation["train"].prompts_cut == 0 < cut.truncation["train"].prompts_cut
    other = prepare_examples(DrawnTask(seed=5), encoder=encoder(), out=out)
    assert len({prepared.folder, cut.folder, other.folder}) == 3
    few = prepare_examples(DrawnTask(), encoder=encoder(), out=out, limit=4)
    assert len(split(few)) == few.truncation["train"].examples == 4


def test_nothing_is_left_of_a_task_that_cannot_be_prepared(tmp_path):
    class Empty(DrawnTask):
        def examples(self, split):
            return [] if split == "validation" else drawn_examples(3)

    class Bad(DrawnTask):
        def examples(self, split):
            first, *rest = drawn_examples(3)
            bad = type(first)(id="bad", parts=first.parts, references=("",))
            return [first, bad, *rest]

    with pytest.raises(DataError, match="example bad: its reference is empty"):
        prepare_examples(Bad(), encoder=encoder(), out=tmp_path)
    with pytest.raises(DataError, match="task drawn: split validation has no examples"):
        prepare_examples(Empty(), encoder=encoder(), out=tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("packing", ["single", "best_fit"])
def test_every_output_token_is_scored_once_and_no_other(prepared, packing):
    data = split(prepared)
    rows = rows_of(data, strategy=packing)
    examples = DrawnTask().examples("train")
    outputs = [encoded.output.tolist() for encoded in encoder().examples(examples)]
    scored = []
    for index in range(len(rows)):
        batch = batch_of(rows, [index])
        targets, tokens = batch.targets[0].numpy(), batch.tokens[0].numpy()
        at = np.flatnonzero(targets != IGNORED)
        assert batch.step_targets == len(at) == int(rows.targets(index))
        runs = np.split(at, np.flatnonzero(np.diff(at) > 1) + 1)
        scored += [targets[run].tolist() for run in runs]
        inside = at[at < 255]  # a target is the token that follows its place
        assert (tokens[inside + 1] == targets[inside]).all()
    assert sorted(scored) == sorted(outputs)
    assert rows.all_targets() == sum(map(len, outputs))
    assert len(rows) == 23 if packing == "single" else len(rows) < 23


def test_packed_examples_have_the_loss_of_examples_alone(prepared):
    """Loss and gradient, summed over all rows, do not depend on the packing."""
    found = []
    for packing in ("single", "best_fit"):
        model = small_decoder("bilevel_learned_rope", vocab_size=300).double()
        rows = rows_of(split(prepared), strategy=packing)
        batch = batch_of(rows, list(range(len(rows))))
        at = Positions.from_marks(batch.marks, padding=batch.padding, packed=batch.packed)
        logits = model.logits(batch.tokens, at)
        loss = torch.nn.functional.cross_entropy(
            logits.flatten(0, 1), batch.targets.flatten(), ignore_index=IGNORED, reduction="sum"
        )
        loss.backward()
        found.append((loss.detach(), model.tokens.weight.grad))
    torch.testing.assert_close(found[0], found[1], atol=1e-8, rtol=1e-8)


def test_what_would_cut_examples_is_refused(prepared, data):
    one, proofs = split(prepared), DataSets(data).open("proofs", "train")
    packing = Packing(strategy="single", prompt_level=OUTPUT_LEVEL)
    stages = Curriculum(stages=[{"length": 64, "steps": 1}])
    curriculum = {"folder": prepared.folder, "row_length": 256, "global_batch": 2,
                  "micro_batch": 2, "packing": packing, "curriculum": stages}  # fmt: skip
    for make, told in (
        (
            lambda: rows_of(one, strategy="concat"),
            "rows.packing must be single or best_fit.*concat",
        ),
        (lambda: rows_of(one, split_documents="continue"), "split_documents must be restart.*cont"),
        (lambda: rows_of(one, row_length=40), "row_length must be at least the longest .*was: 40"),
        (lambda: rows_of(proofs), "has no examples of a prompt and an output"),
        (lambda: LMDataModule(**curriculum), "rows.curriculum must be null"),
    ):
        with pytest.raises(DataError, match=told):
            make()
