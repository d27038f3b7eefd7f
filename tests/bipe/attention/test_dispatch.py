"""The table of paths: what is chosen for what, on devices that are not here as well."""

import dataclasses

import pytest
import torch

from bipe.attention.dispatch import (
    BY_DOCUMENT_FROM,
    CHUNKED_FROM,
    FLEX_FROM,
    GATES_FLEX_FROM,
    Case,
    choose_rule,
)
from tests.bipe.conftest import random_batch, small_decoder


@pytest.mark.parametrize("path", ["bias_row", "banded", "exact_banded"])
def test_a_path_that_trains_no_gates_is_refused_where_they_are_trained(path):
    model = small_decoder("flat_fox", attention=path)
    tokens, at = random_batch(1, 9, seed=0)
    at = dataclasses.replace(at, packed=False)
    with torch.no_grad():
        torch.testing.assert_close(model(tokens, at), small_decoder("flat_fox")(tokens, at))
    with pytest.raises(ValueError, match="set attention=auto"):
        model(tokens, at)


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
