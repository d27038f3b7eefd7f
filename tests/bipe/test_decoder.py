"""Recomputed blocks change memory and nothing else; few rows change no layer."""

import pytest
import torch
from torch import nn

from bipe.decoder import Projection
from tests.bipe.conftest import ONE_EACH, positions_of, random_batch, random_marks, small_decoder


def gradients(scheme, *, recompute, packed, seed=0, kept=None):
    model = small_decoder(scheme, recompute=recompute).double()
    tokens, _ = random_batch(2, 60, seed=seed)
    documents = 0.05 if packed else 0.0
    marks = random_marks(2, 60, seed=seed, documents=documents)
    at = positions_of(marks, packed=packed)

    def keep(tensor):
        if kept is not None:
            kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        loss = model.logits(tokens, at).logsumexp(-1).square().sum()
    return loss, torch.autograd.grad(loss, list(model.parameters()))


@pytest.mark.parametrize("scheme", ONE_EACH)
def test_loss_and_gradients_are_the_same(scheme):
    plain = gradients(scheme, recompute=False, packed=True)
    again = gradients(scheme, recompute=True, packed=True)
    assert torch.equal(plain[0], again[0])
    for one, other in zip(plain[1], again[1], strict=True):
        torch.testing.assert_close(one, other, atol=1e-12, rtol=1e-12)


def test_less_is_kept_for_the_backward_pass():
    sizes = []
    for recompute in (False, True):
        kept = {}
        gradients("bilevel_learned_rope", recompute=recompute, packed=False, kept=kept)
        sizes.append(sum(kept.values()))
    assert sizes[1] < 0.6 * sizes[0]


def test_nothing_is_computed_again_without_gradients():
    model = small_decoder("flat_rope", recompute=True)
    tokens, at = random_batch(1, 9, seed=1)
    with torch.no_grad():
        assert torch.equal(model(tokens, at), small_decoder("flat_rope")(tokens, at))


@pytest.mark.parametrize("shape", [(1, 1), (1, 2), (3, 1), (8, 1), (2, 4), (3, 3), (0, 1)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("outputs", [5, 640])
def test_few_rows_equal_the_plain_layer(shape, dtype, outputs):
    torch.manual_seed(0)
    layer = Projection(24, outputs).to(dtype)
    x = torch.randn(*shape, 24).to(dtype)
    plain = nn.functional.linear(x, layer.weight)
    with torch.no_grad():
        found = layer(x)
    assert found.shape == plain.shape and found.dtype == dtype
    tolerance = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 1e-2}[dtype]
    torch.testing.assert_close(found, plain.detach(), atol=tolerance, rtol=tolerance)


def test_gradients_and_autocast_go_the_plain_way():
    torch.manual_seed(1)
    layer, x = Projection(24, 96), torch.randn(2, 1, 24)
    layer(x).square().sum().backward()
    assert layer.weight.grad is not None and list(layer.state_dict()) == ["weight"]
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        assert layer(x).dtype == torch.bfloat16
