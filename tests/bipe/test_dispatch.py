"""The table of paths: what is chosen for what, on devices that are not here as well."""

import pytest
import torch

from bipe import Positions
from bipe.attention import choose_attention
from bipe.attention.dispatch import CHUNKED_FROM, FLEX_FROM, RULES, Case, choose_rule
from bipe.encodings import ALiBi


def case(**given):
    usual = {
        "device": "cpu", "bias": "linear", "queries": "all", "time": 4096, "packed": False,
        "gradients": True, "row_kernel": True,
    }  # fmt: skip
    return Case(**{**usual, **given})


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ({}, "banded"),
        ({"gradients": False}, "exact_banded"),
        ({"row_kernel": False}, "augmented"),
        ({"bias": "none"}, "causal"),
        ({"bias": "none", "packed": True}, "causal"),
        ({"bias": "table"}, "chunked"),
        ({"bias": "other", "time": CHUNKED_FROM - 1}, "masked"),
        ({"queries": "one"}, "step"),
        ({"queries": "several", "gradients": False}, "chunk"),
        ({"queries": "several"}, "masked"),
        ({"queries": "several", "gradients": False, "packed": True}, "masked"),
        ({"device": "cuda"}, "flex"),
        ({"device": "cuda", "time": FLEX_FROM - 1}, "augmented"),
        ({"device": "cuda", "time": 64, "packed": True}, "flex"),
        ({"device": "cuda", "bias": "none"}, "causal"),
        ({"device": "cuda", "bias": "none", "packed": True}, "flex"),
        ({"device": "cuda", "bias": "table"}, "flex"),
        ({"device": "cuda", "bias": "other"}, "chunked"),
        ({"device": "cuda", "bias": "other", "packed": True}, "masked"),
        ({"device": "cuda", "queries": "several", "gradients": False}, "masked"),
        ({"device": "mps"}, "augmented"),
        ({"device": "mps", "packed": True}, "masked"),
    ],
)
def test_the_table_of_paths(given, path):
    assert choose_rule(case(**given)).path == path


def test_every_rule_is_reached_and_says_why():
    sizes = (64, FLEX_FROM)
    reached = {
        choose_rule(case(device=device, bias=bias, queries=queries, time=time, packed=packed,
                         gradients=gradients, row_kernel=kernel))
        for device in ("cpu", "cuda", "mps") for bias in ("none", "linear", "table", "other")
        for queries in ("all", "one", "several") for time in sizes for packed in (False, True)
        for gradients in (False, True) for kernel in (False, True)
    }  # fmt: skip
    assert reached == set(RULES)
    assert all(rule.reason for rule in RULES)


@pytest.mark.parametrize("gradients", [False, True])
def test_a_linear_bias_is_the_same_with_and_without_gradients(gradients):
    torch.manual_seed(0)
    at = Positions.from_marks(torch.zeros(1, 50, dtype=torch.uint8), packed=False)
    bias = ALiBi(n_head=4).bias(at.token, at.token)
    q, k, v = torch.randn(3, 1, 4, 50, 8)
    with torch.set_grad_enabled(gradients):
        ours = choose_attention(bias=bias, q_at=at, k_at=at)(q, k, v)
        exact = choose_attention(bias=bias, q_at=at, k_at=at, path="eager")(q, k, v)
    torch.testing.assert_close(ours, exact, atol=1e-5, rtol=1e-5)
