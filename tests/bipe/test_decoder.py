"""Recomputed blocks change memory and nothing else; few rows change no layer."""

import pytest
import torch
from torch import nn

from bipe.decoder import Projection
from tests.bipe.conftest import ONE_EACH, random_batch, small_decoder


def gradients(scheme, kept, **how):
    """Loss and gradients of a model; `kept`: gets the bytes stored for the backward pass."""
    model = small_decoder(scheme, **how).double()

    def keep(tensor):
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        loss = model.logits(*random_batch(2, 60, seed=0)).logsumexp(-1).square().sum()
    return loss, torch.autograd.grad(loss, list(model.parameters()))


@pytest.mark.parametrize("scheme", ONE_EACH)
def test_recomputing_keeps_less_for_the_same_loss_and_gradients(scheme):
    less, more = {}, {}
    (plain, grads), (again, others) = (
        gradients(scheme, more),
        gradients(scheme, less, recompute=True),
    )
    assert torch.equal(plain, again)
    for one, other in zip(grads, others, strict=True):
        torch.testing.assert_close(one, other, atol=1e-12, rtol=1e-12)
    assert sum(less.values()) < 0.8 * sum(more.values())


@torch.no_grad()
def test_nothing_is_computed_again_without_gradients():
    batch = random_batch(1, 9, seed=1)
    recomputing = small_decoder("flat_rope", recompute=True)
    assert torch.equal(recomputing(*batch), small_decoder("flat_rope")(*batch))


@pytest.mark.parametrize("shape", [(1, 1), (1, 2), (8, 1), (3, 3), (0, 1)], ids=str)
@pytest.mark.parametrize(
    ("dtype", "tolerance"),
    [(torch.float64, 1e-12), (torch.float32, 1e-5), (torch.bfloat16, 1e-2)],
    ids=str,
)
def test_few_rows_equal_the_plain_layer(shape, dtype, tolerance):
    torch.manual_seed(0)
    layer, x = Projection(24, 640).to(dtype), torch.randn(*shape, 24).to(dtype)
    plain = nn.functional.linear(x, layer.weight).detach()
    with torch.no_grad():
        found = layer(x)
    assert found.shape == plain.shape and found.dtype == dtype
    torch.testing.assert_close(found, plain, atol=tolerance, rtol=tolerance)


def test_gradients_and_autocast_go_the_plain_way():
    torch.manual_seed(1)
    layer, x = Projection(24, 96), torch.randn(2, 1, 24)
    layer(x).square().sum().backward()
    assert layer.weight.grad is not None and list(layer.state_dict()) == ["weight"]
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        assert layer(x).dtype == torch.bfloat16
