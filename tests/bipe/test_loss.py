"""The chunked loss equals the plain one, forward and backward."""

from functools import partial

import pytest
import torch
import torch.nn.functional as F

import bipe.loss
from bipe.loss import IGNORE, summed_cross_entropy, summed_divergence, token_nll


def make(seed: int, dtype: torch.dtype):
    torch.manual_seed(seed)
    hidden = torch.randn(37, 16, dtype=dtype, requires_grad=True)
    head = torch.randn(53, 16, dtype=dtype, requires_grad=True)
    targets = torch.randint(0, 53, (37,))
    targets[::5] = IGNORE
    return hidden, head, targets


def plain_loss(hidden, head, targets, *, z_loss=0.0, label_smoothing=0.0):
    """The definition, all logits at once."""
    logits = hidden @ head.T
    smooth = {"reduction": "sum", "ignore_index": IGNORE, "label_smoothing": label_smoothing}
    normalisers = logits.logsumexp(-1)[targets != IGNORE]
    return F.cross_entropy(logits, targets, **smooth) + z_loss * normalisers.square().sum()


def agree(ours, plain, *tensors):
    torch.testing.assert_close(ours, plain)
    expected = torch.autograd.grad(3 * plain, tensors)
    for x, y in zip(torch.autograd.grad(3 * ours, tensors), expected, strict=True):
        torch.testing.assert_close(x, y)


@pytest.mark.parametrize("options", [(0.0, 0.0), (0.1, 0.0), (0.0, 0.2), (0.01, 0.1)], ids=str)
@pytest.mark.parametrize(("chunk", "block"), [(1, 1 << 6), (8, 1 << 6), (37, 1 << 18), (100, 500)])
def test_chunked_equals_plain(options, chunk, block, monkeypatch):
    monkeypatch.setattr("bipe.loss.BLOCK_NUMBERS", block)
    hidden, head, targets = make(chunk, torch.float64)
    options = dict(zip(("z_loss", "label_smoothing"), options, strict=True))
    each = torch.empty(len(targets), dtype=torch.float64)
    ours = summed_cross_entropy(hidden, head, targets, chunk=chunk, each=each, **options)
    agree(ours, plain_loss(hidden, head, targets, **options), hidden, head)
    torch.testing.assert_close(each.sum(), ours.detach())
    if not any(options.values()):
        nll = token_nll(hidden, head, targets, chunk=chunk)
        torch.testing.assert_close(nll, each)


@pytest.mark.parametrize(("dtype", "wanted"), [(torch.float64, False), (torch.bfloat16, True)])
def test_the_kernel_of_a_gpu_equals_the_eager_way(wanted, dtype, monkeypatch):
    torch.compiler.reset()
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="eager"))
    hidden, head, targets = make(torch.seed() % 1000, dtype)
    logits = (hidden @ head.T).detach()
    for z_loss, smoothing in ((0.0, 0.0), (0.1, 0.2)):
        given, expected = logits.clone(), logits.clone()
        ours = bipe.loss.kernel.__wrapped__("cpu")(given, targets, z_loss, smoothing, wanted=wanted)
        torch.testing.assert_close(
            ours, bipe.loss._loss_and_gradient(expected, targets, z_loss, smoothing, wanted=wanted)
        )
        torch.testing.assert_close(given, expected)
        assert wanted != torch.equal(given, logits)


def test_where_nothing_can_be_compiled_the_loss_is_eager_and_says_so(monkeypatch):
    def broken(*_, **__):
        raise RuntimeError("no compiler\nand more")

    monkeypatch.setattr(torch, "compile", lambda *_, **__: broken)
    with pytest.warns(UserWarning, match="the loss runs uncompiled, and slower: no compiler$"):
        assert bipe.loss.kernel.__wrapped__("cpu") is bipe.loss._loss_and_gradient


@pytest.mark.parametrize("chunk", [8, 100])
def test_the_divergence_in_chunks_equals_the_plain_one(chunk):
    hidden, head, targets = make(0, torch.float64)
    taught, scored = torch.randn(37, 24, dtype=torch.float64), targets != IGNORE
    teacher = (taught, torch.randn(53, 24, dtype=torch.float64))
    own, theirs = ((x @ w.T).log_softmax(-1)[scored] for x, w in ((hidden, head), teacher))
    plain = F.kl_div(own, theirs, reduction="sum", log_target=True)
    ours = summed_divergence(hidden, head, teacher, scored, chunk=chunk)
    agree(ours, plain, hidden, head)
    itself = summed_divergence(hidden, head, (hidden.detach(), head.detach()), scored)
    assert itself == 0


def test_bfloat16_keeps_its_dtype_and_sums_in_float32():
    hidden, head, targets = make(0, torch.bfloat16)
    loss = summed_cross_entropy(hidden, head, targets, chunk=8)
    assert loss.dtype == torch.float32
    loss.backward()
    assert hidden.grad.dtype == head.grad.dtype == torch.bfloat16
    plain = F.cross_entropy((hidden @ head.T).float(), targets, reduction="sum")
    torch.testing.assert_close(loss, plain, rtol=1e-2, atol=0)


def test_autocast_computes_in_bfloat16_and_returns_gradients_of_the_parameters():
    hidden, head, targets = make(0, torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        loss = summed_cross_entropy(hidden, head, targets)
    loss.backward()
    assert hidden.grad.dtype == head.grad.dtype == torch.float32
    exact = summed_cross_entropy(hidden, head, targets)
    assert loss.item() != exact.item()
    torch.testing.assert_close(loss, exact, rtol=1e-2, atol=0)


def test_a_frozen_head_gets_no_gradient():
    hidden, head, targets = make(0, torch.float32)
    summed_cross_entropy(hidden, head.detach(), targets).backward()
    assert hidden.grad is not None and head.grad is None


@pytest.mark.parametrize("count", [0, 5])
def test_a_loss_without_targets_or_tokens_is_zero(count):
    hidden, head, targets = (x[:count] for x in make(0, torch.float32))
    head = make(0, torch.float32)[1]
    targets = torch.full_like(targets, IGNORE)
    loss = summed_cross_entropy(hidden, head, targets, z_loss=0.1, label_smoothing=0.1)
    hidden.retain_grad()
    loss.backward()
    assert loss.item() == 0 and (hidden.grad == 0).all()
    assert not count or (token_nll(hidden, head, targets) == 0).all()
