"""A training step: its loss, its gradient, and what happens to steps that are not finite."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from bipe import Positions
from bipe.checkpoint import load_model
from bipe.loss import IGNORE
from tests.train.studies import composed, curve, fresh, losses, pretrain, weights
from train.data.rows.datamodule import LMDataModule
from train.fit.module import LMModule, positions_of
from train.fit.optim import TrainingDiverged
from train.fit.runs import CHECKPOINTS, MODEL


def by_hand(words, *, step):
    """Loss and gradient norm of the fresh model on a global batch: the plain mean over targets."""
    _, model, batch = fresh(*words, step=step)
    logits = model.logits(batch.tokens, positions_of(batch))
    loss = F.cross_entropy(logits.flatten(0, 1), batch.targets.flatten(), ignore_index=IGNORE)
    loss.backward()
    gradient = torch.cat([p.grad.flatten() for p in model.parameters()])
    return float(loss.detach()), float(gradient.norm())


@pytest.mark.parametrize(
    ("encoding", "micro_batch"), [("rope", 1), ("bipe_rope", 4), ("bipe_alibi", 2)]
)
def test_the_loss_is_the_mean_over_the_targets_of_the_global_batch(smoke, encoding, micro_batch):
    words = (*smoke, f"encoding={encoding}", "steps=1")
    loss, norm = by_hand(words, step=0)
    (row,) = curve(pretrain(*words, f"rows.micro_batch={micro_batch}", "validate_every=9"))
    assert row["loss"] == pytest.approx(loss, abs=2e-6)
    assert row["grad_norm"] == pytest.approx(norm, rel=1e-5)


@pytest.fixture
def poisoned(monkeypatch):
    """Make the loss of some steps NaN."""

    def poison(*steps):
        real = LMModule.loss

        def loss(module, batch):
            return real(module, batch) * (float("nan") if batch.step in steps else 1)

        monkeypatch.setattr(LMModule, "loss", loss)

    return poison


def test_a_step_that_is_not_finite_changes_nothing_and_is_counted(smoke, poisoned):
    """Of the weights: a run whose only step is skipped ends with those that it began with."""
    poisoned(0, 2, 4)
    run = pretrain(*smoke, "rows.micro_batch=2", "steps=1", "name=one")
    start = fresh(*smoke)[1].state_dict()
    assert all(np.array_equal(value, start[name]) for name, value in weights(run).items())
    run = pretrain(*smoke, "rows.micro_batch=2")
    assert [row["skipped_steps"] for row in curve(run)] == [1, 1, 2, 2, 3, 3]
    assert all(np.isfinite(value).all() for value in weights(run).values())
    assert load_model(run / MODEL)[1]["skipped_steps"] == 3


def test_skipped_steps_in_a_row_end_the_run(smoke, poisoned, tmp_path):
    poisoned(1, 3, 4, 5)
    with pytest.raises(TrainingDiverged, match=r"3 steps in a row \(patience\), last at step 5"):
        pretrain(*smoke, "patience=3")
    run = tmp_path / "bipe_rope"
    assert [row["skipped_steps"] for row in curve(run)] == [0, 1, 1, 2, 3]
    assert [math.isnan(row["loss"]) for row in curve(run)] == [False] * 5
    assert not (run / MODEL).exists()
    assert (run / CHECKPOINTS / "step=00000004.ckpt").exists()


def test_bfloat16_mixed_precision_trains_float32_weights(smoke):
    words = (*smoke, "encoding=bipe_alibi", "steps=4", "optimizer.lr=1e-2")
    whole = pretrain(*words, "name=whole")
    mixed = pretrain(*words, "name=mixed", "trainer.precision=bf16-mixed")
    assert losses(mixed)[-1] < losses(mixed)[0] - 0.1
    assert np.allclose(losses(whole), losses(mixed), atol=0.05)
    assert not np.array_equal(losses(whole), losses(mixed))
    assert {value.dtype for value in weights(mixed).values()} == {np.dtype("float32")}


def test_clipping_bounds_the_step_and_null_leaves_it_alone(smoke):
    # A step is the learning rate times the gradient, so that the gradient can be seen.
    words = (*smoke, "steps=2", "optimizer._target_=torch.optim.SGD")
    words += ("~optimizer.betas", "~optimizer.weight_decay")
    clipped = weights(pretrain(*words, "clip=1e-6", "name=clipped", "optimizer.lr=1.0"))
    free = weights(pretrain(*words, "clip=null", "name=free", "optimizer.lr=1.0"))
    start = {name: value.numpy() for name, value in fresh(*smoke)[1].state_dict().items()}
    assert max(np.abs(clipped[name] - start[name]).max() for name in start) < 1e-5
    assert max(np.abs(free[name] - start[name]).max() for name in start) > 1e-3


def test_the_share_of_clamped_positions_is_counted(smoke, finished):
    short = pretrain(*smoke, "steps=1", "validate_every=9", "encoding.intra.length=2")
    assert 0.2 < curve(short)[0]["clamped_share"] < 1
    assert curve(finished("bipe_rope"))[0]["clamped_share"] == 0
    assert curve(finished("rope"))[0]["clamped_share"] is None


def test_validation_is_the_mean_over_all_held_out_targets(smoke):
    run = pretrain(*smoke, "steps=1", "validate_every=1", "optimizer.lr=1e-12")
    study = composed(*smoke)
    data = LMDataModule(folder=study.data, row_length=64, global_batch=4, micro_batch=4)
    model, _ = load_model(run / MODEL)
    rows = data.rows("validation")["proofs"]
    total = count = 0
    for index in (np.arange(4) * len(rows) // 4).tolist():  # evenly spaced
        row = rows.read([index])[0]
        tokens, marks = torch.from_numpy(row.tokens[None]), torch.from_numpy(row.marks[None])
        at = Positions.from_marks(marks[:, :-1])
        logits = model.logits(tokens[:, :-1], at)[0].detach()
        targets = torch.where(marks[0, 1:] & 1 == 1, IGNORE, tokens[0, 1:])
        nll = F.cross_entropy(logits, targets, ignore_index=IGNORE, reduction="sum")
        total, count = total + float(nll), count + int((targets != IGNORE).sum())
    assert curve(run)[0]["validation_loss"] == pytest.approx(total / count, abs=1e-5)
