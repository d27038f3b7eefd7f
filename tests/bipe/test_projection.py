"""The layer for few rows is the linear layer."""

import pytest
import torch
from torch import nn

from bipe.decoder import Projection


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
