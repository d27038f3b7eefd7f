"""Biases that no fused kernel takes: chunks, tables of id pairs, FlexAttention, held to float64."""

import pytest
import torch
from torch import nn

from bipe import Positions
from bipe.attention.dispatch import choose_attention
from bipe.attention.eager import chunked_attention
from bipe.bias import BiasSum, LinearBias, LinearTerm, TableBias
from tests.bipe.attention.test_attention import reference, run
from tests.bipe.conftest import random_marks

HEAD, TIME = 4, 140


class Learned(nn.Module):
    """A T5-like table of clamped distances and KERPLE's logarithm, both learned."""

    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.randn(HEAD, 12, dtype=torch.float64))
        self.scale = nn.Parameter(torch.rand(HEAD, 1, 1, dtype=torch.float64))

    def forward(self, q_ids, k_ids):
        distance = (q_ids - k_ids).clamp(min=0)
        learned = self.table[:, distance.clamp(max=11)].transpose(0, 1)
        return learned - self.scale * (distance[:, None].double()).log1p()


def draw(seed, *, ids, documents=0.0, dtype=torch.float64, kv_head=HEAD):
    torch.manual_seed(seed)
    q = torch.randn(2, HEAD, TIME, 8)
    k, v = torch.randn(2, 2, kv_head, TIME, 8)
    at = Positions.from_marks(random_marks(2, TIME, seed=seed, documents=documents))
    module = Learned()
    numbers = getattr(at, ids)
    bias = TableBias(function=module, q_ids=numbers, k_ids=numbers)
    return [x.to(dtype).requires_grad_() for x in (q, k, v)], at, bias, module


def gradients(attend, qkv, module):
    out = attend(*qkv)
    weight = torch.linspace(-1, 1, out.numel(), dtype=torch.float64).view_as(out)
    return torch.autograd.grad((out.double() * weight).sum(), [*qkv, *module.parameters()])


@pytest.mark.parametrize("ids", ["inter", "token", "intra"])
@pytest.mark.parametrize("documents", [0.0, 0.05], ids=["one", "packed"])
@pytest.mark.parametrize("kv_head", [HEAD, 2])
@pytest.mark.parametrize(
    ("dtype", "tolerance"),
    [(torch.float64, 1e-9), (torch.float32, 1e-4), (torch.bfloat16, 6e-2)],
    ids=str,
)
def test_chunks_equal_the_reference(ids, documents, kv_head, dtype, tolerance):
    qkv, at, bias, module = draw(0, ids=ids, documents=documents, dtype=dtype, kv_head=kv_head)
    ours = choose_attention(bias=bias, q_at=at, k_at=at, path="chunked")
    for x, y in zip(run(ours, qkv), reference(qkv, bias, at), strict=True):
        assert x.dtype == dtype
        torch.testing.assert_close(x.double(), y, atol=tolerance, rtol=tolerance)
    eager = choose_attention(bias=bias, q_at=at, k_at=at, path="eager")
    if dtype == torch.float64:
        for x, y in zip(gradients(ours, qkv, module), gradients(eager, qkv, module), strict=True):
            torch.testing.assert_close(x, y, atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("chunk", [1, 33, 64, 500])
def test_any_size_of_chunk_gives_the_same(chunk):
    qkv, at, table, _ = draw(1, ids="inter")
    slopes = torch.tensor([8.0, 2.0, 0.5, 0.1])
    linear = LinearBias(terms=(LinearTerm(slopes=slopes, q_ids=at.token, k_ids=at.token),))
    bias = BiasSum(parts=(table, linear))
    ours = run(lambda *x: chunked_attention(*x, bias=bias, chunk=chunk), qkv)
    for x, y in zip(ours, reference(qkv, bias, at), strict=True):
        torch.testing.assert_close(x, y, atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("ids", ["inter", "token", "intra"])
def test_a_table_of_pairs_spreads_to_the_dense_bias(ids):
    _, _, bias, _ = draw(2, ids=ids, documents=0.03)
    part = bias.part(rows=slice(1, 2), queries=slice(40, 90), keys=slice(0, 90))
    pairs = part.pairs(torch.float64)
    torch.testing.assert_close(pairs.dense(), part.dense(torch.float64))
    torch.testing.assert_close(
        part.dense(torch.float64), bias.dense(torch.float64)[1:2, :, 40:90, :90]
    )


def test_segments_make_the_table_small():
    _, at, bias, _ = draw(3, ids="inter")
    count = int(at.inter.max()) + 1
    assert bias.pairs(torch.float32).table.shape == (2, HEAD, count, count)
    assert count < TIME / 3


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize("documents", [0.0, 0.05], ids=["one", "packed"])
@pytest.mark.parametrize("kind", ["none", "linear", "table", "sum"])
@torch.no_grad()
def test_flex_equals_the_reference(documents, kind):
    qkv, at, table, _ = draw(4, ids="inter", documents=documents, dtype=torch.float32, kv_head=2)
    slopes = torch.tensor([67.9, 24.0, 1.5, 0.375])
    ids = at.inter + 10_000
    linear = LinearBias(terms=(LinearTerm(slopes=slopes, q_ids=ids, k_ids=ids),))
    bias = {
        "none": None, "linear": linear, "table": table, "sum": BiasSum(parts=(table, linear)),
    }[kind]  # fmt: skip
    ours = choose_attention(bias=bias, q_at=at, k_at=at, path="flex")(*(x.detach() for x in qkv))
    doubles = [x.double() for x in qkv]
    exact = choose_attention(bias=bias, q_at=at, k_at=at, path="eager")(*doubles)
    torch.testing.assert_close(ours.double(), exact, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("path", ["chunked", "flex", "banded", "causal"])
def test_paths_for_training_refuse_cached_keys(path):
    _, at, table, _ = draw(6, ids="inter")
    linear = LinearBias(
        terms=(LinearTerm(slopes=torch.ones(HEAD), q_ids=at.inter, k_ids=at.inter),)
    )
    bias = {"chunked": table, "flex": table, "banded": linear, "causal": None}[path]
    with pytest.raises(ValueError, match="as many queries as keys, got 5 and 140"):
        choose_attention(bias=bias, q_at=at[-5:], k_at=at, path=path)


def test_memory_that_chunks_free_is_released(monkeypatch):
    """Once per 512 keys, in the forward and in the backward pass."""
    released = []
    monkeypatch.setattr("bipe.attention.eager.release_freed", lambda: released.append(1))
    at = Positions.from_marks(random_marks(1, 1100, seed=7, documents=0.0), packed=False)
    bias = TableBias(function=Learned(), q_ids=at.token, k_ids=at.token)
    q, k, v = (torch.randn(1, HEAD, 1100, 4, requires_grad=True) for _ in range(3))
    chunked_attention(q, k, v, bias=bias).sum().backward()
    assert len(released) == 2 * 2


def test_chunks_without_a_bias_are_refused():
    _, at, _, _ = draw(6, ids="inter")
    with pytest.raises(ValueError, match="'chunked' needs a bias"):
        choose_attention(bias=None, q_at=at, k_at=at, path="chunked")
