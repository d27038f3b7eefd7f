"""The chunked loss equals the plain one, forward and backward."""

import pytest
import torch
import torch.nn.functional as F

from bipe.loss import IGNORE, summed_cross_entropy, token_nll


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
