"""The loss of a step by source and by place, against plain means over the same targets."""

import math
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F

from bipe import Positions
from bipe.loss import IGNORE
from tests.train.studies import curve, fresh, pretrain
from train.fit.module import positions_of
from train.fit.watching.counts import StepLosses


def first_step(words):
    """Loss, scored targets and indices of the first global batch."""
    _, model, batch = fresh(*words)
    at = positions_of(batch)
    logits = model.logits(batch.tokens, at).detach()
    nll = F.cross_entropy(logits.transpose(1, 2), batch.targets, reduction="none")
    return nll, batch.targets != IGNORE, at


def test_the_loss_is_split_by_source_and_by_place(smoke):
    words = (*smoke, "row_length=128", "steps=1", "validate_every=9")
    (row,) = curve(pretrain(*words, "rows.micro_batch=1"))
    nll, scored, at = first_step(words)
    assert row["loss/source/proofs"] == pytest.approx(row["loss"], rel=1e-5)
    parts = {
        "loss/token/0": scored & (at.token + 1 < 64),
        "loss/token/64": scored & (at.token + 1 >= 64),
        "loss/segment/0": scored & (at.inter == 0),
        "loss/segment/1": scored & (at.inter == 1),
        "loss/segment/4": scored & (at.inter >= 4) & (at.inter < 8),
    }
    for name, inside in parts.items():
        assert row[name] == pytest.approx(float(nll[inside].mean()), rel=1e-4), name


def test_a_flat_model_has_no_losses_by_segment(finished):
    names = [name for name in curve(finished("rope"))[0] if name.startswith("loss/")]
    assert names == ["loss/source/proofs", "loss/token/0"]


def sums(tokens, *, sources=("a",)):
    """The numbers of one step of one row of the last source; losses are token indices."""
    losses = StepLosses(sources=sources, row_length=len(tokens), bilevel=False)
    token = torch.tensor([tokens])
    zero = torch.zeros_like(token)
    at = Positions(document=zero, token=token, inter=zero, intra=zero)
    each = token.float()
    batch = SimpleNamespace(targets=zero, source=torch.tensor([len(sources) - 1]))
    losses.add(each.sum(), each, batch, at)
    return losses.split(losses.take(torch.device("cpu")), targets=len(tokens))


def test_a_source_without_targets_has_no_loss():
    found = sums(range(128), sources=("a", "b"))
    assert math.isnan(found["loss/source/a"])
    assert found["loss/source/b"] == found["loss"] == 63.5
    assert found["loss/token/0"] == 31.0  # of targets 1 to 63
    assert found["keys_per_token"] == 64.5


def test_a_document_that_goes_on_from_the_row_before_attends_within_its_row():
    assert sums(range(1000, 1064))["keys_per_token"] == 32.5
