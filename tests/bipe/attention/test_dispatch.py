"""The table of paths: what is chosen for what, on devices that are not here as well."""

from typing import get_args

import pytest
import torch

from bipe import Positions
from bipe.attention.dispatch import (
    BY_DOCUMENT_FROM,
    CHUNKED_FROM,
    FLEX_FROM,
    GATES_FLEX_FROM,
    RULES,
    Case,
    Kind,
    choose_attention,
    choose_rule,
)
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
        ({"bias": "none", "packed": True, "time": BY_DOCUMENT_FROM - 1}, "masked"),
        ({"packed": True, "time": BY_DOCUMENT_FROM - 1}, "masked"),
        ({"packed": True, "time": BY_DOCUMENT_FROM}, "banded"),
        ({"time": BY_DOCUMENT_FROM - 1}, "banded"),
        ({"bias": "table"}, "tables"),
        ({"bias": "table", "row_kernel": False}, "chunked"),
        ({"bias": "table", "row_kernel": False, "time": CHUNKED_FROM - 1}, "masked"),
        ({"bias": "gates"}, "augmented"),
        ({"bias": "gates", "gradients": False}, "exact_banded"),
        ({"bias": "gates", "device": "cuda", "packed": True}, "flex"),
        ({"bias": "content"}, "chunked"),
        ({"bias": "content", "device": "cuda", "packed": True}, "chunked"),
        ({"bias": "content", "time": CHUNKED_FROM - 1}, "eager"),
        ({"bias": "content", "queries": "one"}, "eager"),
        ({"bias": "content", "queries": "several"}, "eager"),
        ({"bias": "other", "time": CHUNKED_FROM - 1}, "masked"),
        ({"queries": "one"}, "step"),
        ({"queries": "several", "gradients": False}, "chunk"),
        ({"queries": "several"}, "masked"),
        ({"queries": "several", "gradients": False, "packed": True}, "masked"),
        ({"device": "cuda", "time": FLEX_FROM}, "flex"),
        ({"device": "cuda", "time": FLEX_FROM - 1}, "augmented"),
        ({"device": "cuda", "time": GATES_FLEX_FROM, "bias": "gates"}, "flex"),
        ({"device": "cuda", "time": GATES_FLEX_FROM - 1, "bias": "gates"}, "augmented"),
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
        for device in ("cpu", "cuda", "mps") for bias in get_args(Kind)
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


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("multiplier", [1.0, 96.0])
@pytest.mark.parametrize("seed", range(3))
def test_a_mask_and_documents_on_their_own_agree(seed, multiplier, dtype):
    """In short rows a mask is cheaper; it keeps the places of steep slopes in every dtype."""
    generator = torch.Generator().manual_seed(seed)
    marks = (torch.rand(3, BY_DOCUMENT_FROM - 1, generator=generator) < 0.1).to(torch.uint8) * 3
    at = Positions.from_marks(marks)
    bias = ALiBi(n_head=4, multiplier=multiplier).bias(at.token, at.token)
    q, k, v = torch.randn(3, 3, 4, BY_DOCUMENT_FROM - 1, 8, generator=generator).to(dtype)
    masked = choose_attention(bias=bias, q_at=at, k_at=at)(q, k, v)
    apart = choose_attention(bias=bias, q_at=at, k_at=at, path="bias_row")(q, k, v)
    doubles = (x.double() for x in (q, k, v))
    exact = choose_attention(bias=bias, q_at=at, k_at=at, path="eager")(*doubles)
    tolerance = {torch.bfloat16: 2e-2, torch.float32: 1e-5}.get(dtype, 1e-9)
    torch.testing.assert_close(masked.double(), exact, atol=tolerance, rtol=tolerance)
    torch.testing.assert_close(masked, apart, atol=30 * tolerance, rtol=30 * tolerance)
