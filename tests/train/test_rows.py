"""What a configuration may say about rows, trained with: epochs, curricula, several folders."""

import threading

import numpy as np
import pytest
from safetensors.numpy import load_file

from tests.train.studies import composed, crashing, curve, losses, notes_of, pretrain
from train.commands.pretrain import settled
from train.data.rows.datamodule import LMDataModule
from train.fit.runs import MODEL


def test_epochs_set_the_steps_of_the_run_and_of_its_schedule(smoke, data):
    words = ("epochs=0.5", "rows.global_batch=32", "log_every=1")
    module = LMDataModule(folder=str(data), row_length=64, global_batch=4, micro_batch=4)
    wanted = round(len(module.order()) / 2)
    steps = -(-wanted // 32)
    assert wanted % 32
    dropped = settled(composed(*smoke, *words, "rows.drop_last=true"))
    assert dropped.schedule["steps"] == dropped.steps == wanted // 32
    assert settled(composed(*smoke, *words)).schedule["steps"] == steps
    run = pretrain(*smoke, *words)
    assert curve(run)[-1]["step"] == steps
    assert curve(run)[-1]["tokens"] == 64 * wanted
    assert np.isfinite(losses(run)).all()


@pytest.mark.parametrize(("encoding", "split"), [("bipe_rope", "continue"), ("alibi", "restart")])
def test_rows_and_parts_that_are_all_padding_spoil_nothing(data, tmp_path, encoding, split):
    """One document of a few tokens a row, read in parts, most of which hold nothing."""
    words = ("rows=single", "row_length=512", f"rows.split_documents={split}", "steps=3")
    words = (f"data={data}", f"out={tmp_path}", f"encoding={encoding}", *words)
    staged = "rows.curriculum=[{length: 8, steps: 2}]"
    run = pretrain(*words, staged, "rows.global_batch=2", "rows.micro_batch=2")
    assert np.isfinite(losses(run)).all()
    assert losses(run)[-1] < losses(run)[0]
    weights = load_file(run / MODEL / "model.safetensors")
    assert all(np.isfinite(value).all() for value in weights.values())


def test_another_global_batch_goes_on_where_it_is_asked_for(smoke):
    with crashing(at=4):
        pretrain(*smoke)
    assert "bipe-rows" not in [thread.name for thread in threading.enumerate()]
    words = (*smoke, "rows.global_batch=8")
    with pytest.raises(ValueError, match=r"rows\.global_batch was 4, is 8"):
        pretrain(*words)
    run = pretrain(*words, "rows.on_batch_change=convert")
    assert [row["step"] for row in curve(run)] == [1, 2, 3, 4, 5, 6]
    tokens = [64 * rows for rows in (4, 8, 12, 16, 24, 32)]
    assert [row["tokens"] for row in curve(run)] == tokens
    assert notes_of(run)["tokens"] == tokens[-1]
