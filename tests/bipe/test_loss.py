"""The chunked loss equals the plain one, forward and backward."""

import pytest
import torch
import torch.nn.functional as F

from bipe.loss import IGNORE, summed_cross_entropy, summed_divergence, token_nll


def make(seed: int, dtype: torch.dtype):
    torch.manual_seed(seed)
    hidden = torch.randn(37, 16, dtype=dtype, requires_grad=True)
    head = torch.randn(53, 16, dtype=dtype, requires_grad=True)
    targets = torch.randint(0, 53, (37,))
    targets[::5] = IGNORE
    return hidden, head, targets


@pytest.mark.parametrize("chunk", [1, 8, 37, 100])
@pytest.mark.parametrize("seed", [0, 1])
def test_chunked_equals_plain(chunk, seed):
    hidden, head, targets = make(seed, torch.float64)
    plain = F.cross_entropy(hidden @ head.T, targets, reduction="sum", ignore_index=IGNORE)
    ours = summed_cross_entropy(hidden, head, targets, chunk=chunk)
    torch.testing.assert_close(ours, plain)
    expected = torch.autograd.grad(3 * plain, (hidden, head))
    for x, y in zip(torch.autograd.grad(3 * ours, (hidden, head)), expected, strict=True):
        torch.testing.assert_close(x, y)
    torch.testing.assert_close(token_nll(hidden, head, targets, chunk=chunk).sum(), plain.detach())


@pytest.mark.parametrize("chunk", [8, 100])
def test_the_divergence_in_chunks_equals_the_plain_one(chunk):
    hidden, head, targets = make(0, torch.float64)
    taught, scored = torch.randn(37, 24, dtype=torch.float64), targets != IGNORE
    teacher = (taught, torch.randn(53, 24, dtype=torch.float64))
    own, theirs = ((x @ w.T).log_softmax(-1)[scored] for x, w in ((hidden, head), teacher))
    plain = F.kl_div(own, theirs, reduction="sum", log_target=True)
    ours = summed_divergence(hidden, head, teacher, scored, chunk=chunk)
    torch.testing.assert_close(ours, plain)
    expected = torch.autograd.grad(3 * plain, (hidden, head))
    for x, y in zip(torch.autograd.grad(3 * ours, (hidden, head)), expected, strict=True):
        torch.testing.assert_close(x, y)
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


def test_nothing_but_ignored_targets_is_a_loss_of_zero():
    hidden, head, _ = make(0, torch.float32)
    loss = summed_cross_entropy(hidden, head, torch.full((37,), IGNORE))
    loss.backward()
    assert loss.item() == 0 and hidden.grad.abs().sum() == 0


def plain_loss(hidden, head, targets, *, z_loss, label_smoothing):
    """The definition, all logits at once."""
    logits = hidden @ head.T
    smooth = {"reduction": "sum", "ignore_index": IGNORE, "label_smoothing": label_smoothing}
    normalisers = logits.logsumexp(-1)[targets != IGNORE]
    return F.cross_entropy(logits, targets, **smooth) + z_loss * normalisers.square().sum()


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("options", [(0.1, 0.0), (0.0, 0.2), (0.01, 0.1)], ids=str)
@pytest.mark.parametrize("block", [1 << 6, 1 << 18])
def test_z_loss_and_smoothing_equal_their_definitions(seed, options, block, monkeypatch):
    monkeypatch.setattr("bipe.loss.BLOCK_NUMBERS", block)
    hidden, head, targets = make(seed, torch.float64)
    options = dict(zip(("z_loss", "label_smoothing"), options, strict=True))
    plain = plain_loss(hidden, head, targets, **options)
    ours = summed_cross_entropy(hidden, head, targets, chunk=8, **options)
    torch.testing.assert_close(ours, plain)
    expected = torch.autograd.grad(plain, (hidden, head))
    for x, y in zip(torch.autograd.grad(ours, (hidden, head)), expected, strict=True):
        torch.testing.assert_close(x, y)


def test_options_out_of_bounds_are_refused():
    arguments = make(0, torch.float32)
    with pytest.raises(ValueError, match="z_loss must be 0 or more"):
        summed_cross_entropy(*arguments, z_loss=-1.0)
    with pytest.raises(ValueError, match="label_smoothing must be from 0 to below 1"):
        summed_cross_entropy(*arguments, label_smoothing=1.0)
