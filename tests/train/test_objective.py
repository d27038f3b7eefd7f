"""Options of the training loss and of memory: what they train, and what they leave alone."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from bipe import Decoder
from bipe.build import build
from bipe.random_positions import row_keys
from tests.train.studies import composed, curve, losses, pretrain, same_weights, weights
from train.commands.pretrain import decoder_of
from train.config import Config
from train.data.rows.batch import IGNORED
from train.data.rows.datamodule import LMDataModule
from train.data.rows.loader import RowLoader
from train.fit.module import positions_of
from train.fit.watching.metrics import Metrics


def first_batch(words):
    """The fresh model of a study, and what it says to the first global batch."""
    study = Config.from_config(composed(*words))
    data = LMDataModule(folder=study.data, row_length=64, global_batch=4, micro_batch=4)
    model = Decoder(decoder_of(study, vocab_size=data.vocab_size), attention="eager")
    model.init_weights(seed=study.seed)
    loader = RowLoader(order=data.order(), micro_batch=4, global_batch=4, steps=1)
    (batch,) = loader.batches()
    return model.logits(batch.tokens, positions_of(batch)).flatten(0, 1), batch.targets.flatten()


def test_z_loss_and_smoothing_are_in_the_training_loss_and_not_in_that_of_validation(smoke):
    words = (*smoke, "steps=1", "validate_every=1", "optimizer.lr=1e-12")
    (plain,) = curve(pretrain(*words, "name=plain"))
    (row,) = curve(pretrain(*words, "z_loss=0.01", "label_smoothing=0.1", "name=both"))
    logits, targets = first_batch(smoke)
    options = {"ignore_index": IGNORED, "label_smoothing": 0.1}
    scored = targets != IGNORED
    expected = F.cross_entropy(logits, targets, **options)
    expected = expected + 0.01 * logits.logsumexp(-1)[scored].square().mean()
    assert row["loss"] == pytest.approx(expected.item(), abs=2e-6)
    assert row["loss"] > plain["loss"] + 0.1
    assert row["validation_loss"] == pytest.approx(plain["validation_loss"], abs=1e-6)


@pytest.mark.parametrize("micro_batch", [4, 2])
def test_recomputing_trains_the_same_weights(smoke, micro_batch):
    words = (*smoke, "steps=3", f"rows.micro_batch={micro_batch}")
    plain, again = pretrain(*words, "name=a"), pretrain(*words, "recompute=true", "name=b")
    assert np.allclose(losses(plain), losses(again), atol=1e-6)
    for name, value in weights(plain).items():
        assert np.allclose(value, weights(again)[name], atol=1e-6), name


def test_a_run_is_resumed_with_or_without_recomputing(smoke):
    whole = pretrain(*smoke, "steps=4", "name=whole")
    pretrain(*smoke, "steps=4", "name=parts")
    (whole.parent / "parts" / "checkpoints" / "step=00000004.ckpt").unlink()
    parts = pretrain(*smoke, "steps=4", "name=parts", "recompute=true")
    assert np.allclose(losses(whole), losses(parts), atol=1e-6)
    assert same_weights(whole, parts)


def test_a_run_with_muon_is_resumed_exactly(smoke):
    words = (*smoke, "optimizer=muon", "model.qk_norm=both", "steps=4")
    whole = pretrain(*words, "name=whole_muon")
    pretrain(*words, "name=parts_muon")
    (whole.parent / "parts_muon" / "checkpoints" / "step=00000004.ckpt").unlink()
    parts = pretrain(*words, "name=parts_muon")
    assert same_weights(whole, parts)
    assert losses(whole)[-1] < losses(whole)[0]


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("z_loss=-1", "z_loss must be 0 or more, was: -1"),
        ("z_loss=inf", "z_loss must be 0 or more, was: inf"),
        ("label_smoothing=1", "label_smoothing must be from 0 to below 1, was: 1"),
        ("label_smoothing=nan", "label_smoothing must be from 0 to below 1, was: nan"),
        ("recompute=some", "recompute must be bool, was: 'some'"),
    ],
)
def test_options_out_of_bounds_are_refused(smoke, word, told):
    with pytest.raises(ValueError, match=told):
        Config.from_config(composed(*smoke, word))


def test_numbers_are_fetched_when_they_are_read():
    metrics = Metrics()
    value = torch.ones((), requires_grad=True)
    metrics.update(loss=value * 2, step=3)
    assert isinstance(metrics.on_device()["loss"], torch.Tensor)
    assert not metrics.on_device()["loss"].requires_grad
    assert metrics["loss"] == 2.0 and type(metrics["loss"]) is float
    assert metrics.get("lr") is None and type(metrics["step"]) is int
    del metrics["step"]
    assert list(metrics) == ["loss"] and len(metrics) == 1


@pytest.mark.parametrize("draw", ["pose", "randomised"])
def test_drawn_positions_are_trained_on_whatever_the_micro_batch(smoke, draw):
    words = (*smoke, "encoding=rope", "steps=2", f"positions={draw}", "positions.reach=2000")
    runs = [pretrain(*words, f"rows.micro_batch={size}", f"name=m{size}") for size in (4, 2)]
    assert np.allclose(losses(runs[0]), losses(runs[1]), atol=1e-5)
    study = Config.from_config(composed(*words))
    data = LMDataModule(folder=study.data, row_length=64, global_batch=4, micro_batch=4)
    model = Decoder(decoder_of(study, vocab_size=data.vocab_size), attention="eager")
    model.init_weights(seed=study.seed)
    loader = RowLoader(order=data.order(), micro_batch=4, global_batch=4, steps=1)
    (batch,) = loader.batches()
    keys = row_keys(batch.tokens, seed=study.seed, step=0)
    at = build(study.positions).drawn(positions_of(batch), keys)
    logits = model.logits(batch.tokens, at).flatten(0, 1)
    expected = F.cross_entropy(logits, batch.targets.flatten(), ignore_index=IGNORED)
    assert losses(runs[0])[0] == pytest.approx(expected.item(), abs=2e-6)
    assert at.token.max() > 64
