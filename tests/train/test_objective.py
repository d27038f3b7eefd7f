"""Options of the training loss and of memory: what they train, and what they leave alone.

A step that is not finite changes nothing: fused optimizers decide it on the device.
"""

import shutil

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from bipe.build import build
from bipe.loss import IGNORE
from bipe.random_positions import row_keys
from tests.train.studies import back_to, curve, fresh, losses, pretrain, same_weights
from train.fit.module import positions_of
from train.fit.optim import SkippedSteps, TrainingDiverged


def first_batch(words):
    """The fresh model of a study, and what it says to the first global batch."""
    _, model, batch = fresh(*words)
    return model.logits(batch.tokens, positions_of(batch)).flatten(0, 1), batch.targets.flatten()


def test_z_loss_and_smoothing_are_in_the_training_loss_and_not_in_that_of_validation(smoke):
    words = (*smoke, "steps=1", "validate_every=1", "optimizer.lr=1e-12")
    (plain,) = curve(pretrain(*words, "name=plain"))
    (row,) = curve(pretrain(*words, "z_loss=0.01", "label_smoothing=0.1", "name=both"))
    logits, targets = first_batch(smoke)
    options = {"ignore_index": IGNORE, "label_smoothing": 0.1}
    scored = targets != IGNORE
    expected = F.cross_entropy(logits, targets, **options)
    expected = expected + 0.01 * logits.logsumexp(-1)[scored].square().mean()
    assert row["loss"] == pytest.approx(expected.item(), abs=2e-6)
    assert row["loss"] > plain["loss"] + 0.1
    assert row["validation_loss"] == pytest.approx(plain["validation_loss"], abs=1e-6)


def test_a_run_of_muon_is_resumed_with_recomputing(smoke):
    words = (*smoke, "optimizer=muon", "model.qk_norm=both", "rows.micro_batch=2", "steps=4")
    whole = pretrain(*words, "name=whole")
    parts = whole.parent / "parts"
    shutil.copytree(whole, parts)
    back_to(parts, step=2)
    assert pretrain(*words, "name=parts", "recompute=true") == parts
    assert np.allclose(losses(whole), losses(parts), atol=1e-6)
    assert same_weights(whole, parts)
    assert losses(whole)[-1] < losses(whole)[0]


def test_drawn_positions_are_trained_on_whatever_the_micro_batch(smoke):
    words = (*smoke, "encoding=rope", "steps=2", "positions=pose", "positions.reach=2000")
    runs = [pretrain(*words, f"rows.micro_batch={size}", f"name=m{size}") for size in (4, 2)]
    assert np.allclose(losses(runs[0]), losses(runs[1]), atol=1e-5)
    study, model, batch = fresh(*words)
    keys = row_keys(batch.tokens, seed=study.seed, step=0)
    at = build(study.positions).drawn(positions_of(batch), keys)
    logits = model.logits(batch.tokens, at).flatten(0, 1)
    expected = F.cross_entropy(logits, batch.targets.flatten(), ignore_index=IGNORE)
    assert losses(runs[0])[0] == pytest.approx(expected.item(), abs=2e-6)
    assert at.token.max() > 64


OPTIMIZERS = {
    "fused": lambda p: torch.optim.AdamW(p, lr=0.1, fused=True),
    "foreach": lambda p: torch.optim.AdamW(p, lr=0.1, foreach=True),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
}


def steps(kind, finite):
    """Weights and state after steps whose gradients are finite or not; the counter."""
    torch.manual_seed(0)
    model = nn.Linear(7, 5)
    parameters = list(model.parameters())
    optimizer, counter = OPTIMIZERS[kind](parameters), SkippedSteps(patience=9)
    generator = torch.Generator().manual_seed(1)
    for step, good in enumerate(finite):
        for parameter in parameters:
            parameter.grad = torch.full_like(parameter, float("nan"))
            if good:
                parameter.grad.normal_(generator=generator)
        norm = nn.utils.get_total_norm([p.grad for p in parameters])
        counter.skip_unless(norm.isfinite(), optimizer=optimizer, parameters=parameters)
        counter.check(step, last=False)
        optimizer.step()
    state = [x for p in parameters for x in optimizer.state[p].values()]
    return [*(p.detach() for p in parameters), *state], counter


@pytest.mark.parametrize("kind", OPTIMIZERS)
@pytest.mark.parametrize("bad", [[0, 4], [1, 2]])
def test_the_run_goes_on_as_if_the_step_had_not_been(kind, bad):
    finite = [step not in bad for step in range(5)]
    ours, counter = steps(kind, finite)
    theirs, _ = steps(kind, [True] * sum(finite))
    assert len(ours) == len(theirs) >= 2
    for x, y in zip(ours, theirs, strict=True):
        assert torch.equal(x, y)
    assert counter.state()[0] == int(counter.total) == len(bad)


def test_a_count_goes_on_from_its_state():
    counter = SkippedSteps(patience=3)
    counter.load((5, 2))
    counter.check(0, last=False)
    optimizer = torch.optim.AdamW([nn.Parameter(torch.ones(1))], fused=True)
    counter.skip_unless(torch.tensor(False), optimizer=optimizer, parameters=[])
    assert counter.state() == (6, 3)
    with pytest.raises(TrainingDiverged, match="3 steps in a row"):
        counter.check(1, last=False)
