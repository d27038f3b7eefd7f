"""The fused kernel with tables of ids equals the reference, forward and backward."""

import inspect

import pytest
import torch

from bipe.attention.dispatch import choose_attention
from bipe.attention.tables import table_attention
from bipe.bias import DistanceBias, LinearBias, LinearTerm, TableBias, add_biases
from tests.bipe.conftest import random_batch

HEAD, TIME, CHUNK = 4, 150, 32
ATOL = {torch.float32: 3e-5, torch.float64: 1e-11, torch.bfloat16: 0.1}


def kinds(at, parameters):
    slopes = torch.tensor([0.5, 0.25, 0.1, 0.0]).double()
    by_distance, by_pair = parameters

    def distance(d):
        return by_distance.sin()[:, None] * torch.log1p(d.double())

    def pair(q, k):
        return by_pair.view(1, -1, 1, 1) * torch.cos(q * 0.3 - k * 0.1)[:, None]

    made = {
        "flat": DistanceBias(function=distance, q_ids=at.token, k_ids=at.token),
        "bilevel": DistanceBias(function=distance, q_ids=at.inter, k_ids=at.inter),
        "pairs": TableBias(function=pair, q_ids=at.inter, k_ids=at.inter),
        "many_pairs": TableBias(function=pair, q_ids=at.token, k_ids=at.token),
        "linear": LinearBias(terms=(LinearTerm(slopes=slopes, q_ids=at.token, k_ids=at.token),)),
    }
    return made | {
        "sum": add_biases(made["flat"], made["bilevel"], made["pairs"], made["linear"]),
        "chain": add_biases(made["linear"], made["bilevel"]),
    }


@pytest.mark.parametrize("dtype", ATOL, ids=str)
@pytest.mark.parametrize("documents", [0.0, 0.03])
@pytest.mark.parametrize("trained", [False, True])
@pytest.mark.parametrize("kind", ["flat", "bilevel", "pairs", "many_pairs", "sum", "chain"])
def test_it_equals_the_reference(kind, trained, documents, dtype, monkeypatch):
    monkeypatch.setattr("bipe.attention.tables.CHUNK", CHUNK)
    for name in ("KEYS", "BACKWARD_KEYS"):
        monkeypatch.setattr(f"bipe.attention.tables.{name}", 2 * CHUNK)
    _, at = random_batch(2, TIME, seed=4, documents=documents)
    generator = torch.Generator().manual_seed(1)
    found = []
    qkv = [torch.randn(2, n, TIME, 8, generator=generator) for n in (HEAD, 2, 2)]
    grad = torch.randn(2, HEAD, TIME, 8, generator=generator)
    for path, kept in (("tables", dtype), ("eager", torch.float64)):
        own = [x.to(dtype).to(kept).clone().requires_grad_() for x in qkv]
        parameters = [
            torch.linspace(-1, 1, HEAD).double().requires_grad_(trained) for _ in range(2)
        ]
        bias = kinds(at, parameters)[kind]
        out = choose_attention(bias=bias, q_at=at, k_at=at, path=path)(*own)
        out.backward(grad.to(kept))
        grads = [x.grad for x in (*own, *parameters) if x.grad is not None]
        found.append([x.double() for x in (out, *grads)])
    for ours, exact in zip(*found, strict=True):
        scale = max(1.0, exact.abs().max().item() / 10)
        torch.testing.assert_close(ours, exact, atol=ATOL[dtype] * scale, rtol=ATOL[dtype])


def test_a_block_may_begin_anywhere_in_a_long_row():
    """Ids of a row that goes on from another one, and blocks that end inside a segment."""
    at = random_batch(1, 97, seed=5, documents=0.0)[1]
    q, k, v = (torch.randn(1, 2, 97, 4, dtype=torch.double) for _ in range(3))
    for shift in (0, 1000):
        bias = DistanceBias(
            function=lambda d: torch.stack((d.double().sqrt(), -0.1 * d)),
            q_ids=at.token + shift,
            k_ids=at.token + shift,
        )
        exact = choose_attention(bias=bias, q_at=at, k_at=at, path="eager")(q, k, v)
        for chunk in (1, 7, 32, 97, 200):
            ours = table_attention(q, k, v, bias=bias, chunk=chunk)
            torch.testing.assert_close(ours, exact, atol=1e-12, rtol=0)


def test_a_bias_of_another_kind_is_refused():
    with pytest.raises(TypeError, match=r"must be a Bias of bipe.bias.* was: Tensor"):
        inspect.unwrap(add_biases)(torch.zeros(1, 2, 4, 4))  # tests check types before
