"""The banded path skips keys and stays within its tolerance of the float64 reference."""

import math

import pytest
import torch

from bipe import Positions
from bipe.attention import banded as room
from bipe.attention import dispatch
from bipe.attention.banded import banded_attention, exact_banded_attention, first_keys
from bipe.attention.dispatch import choose_attention
from bipe.attention.eager import allowed_pairs, eager_attention
from bipe.bias import LinearBias, LinearTerm
from bipe.encodings import ALiBi, Bilevel, Learned
from tests.bipe.conftest import random_marks

EVERYTHING = slice(None)


def draw(seed, *, dtype=torch.float32, time=531, batch=2, head=12, kv_head=12, offset=0, large=1.0):
    """Queries, keys, values; the bias and its float64 row."""
    torch.manual_seed(seed)
    q = torch.randn(batch, head, time, 16) * large
    k, v = torch.randn(2, batch, kv_head, time, 16)
    at = Positions.from_marks(random_marks(batch, time, seed=seed, documents=0.0), packed=False)
    slopes = ALiBi(n_head=head, multiplier=96.0).slopes
    ids = at.inter + offset
    bias = LinearBias(terms=(LinearTerm(slopes=slopes, q_ids=ids, k_ids=ids),))
    row = bias.row(rows=EVERYTHING, keys=EVERYTHING, dtype=torch.float64)
    return [x.to(dtype).requires_grad_() for x in (q, k, v)], bias, row, at


def run(attend, qkv):
    out = attend(*qkv)
    weight = torch.linspace(-1, 1, out.numel(), dtype=torch.float64).view_as(out)
    return [out, *torch.autograd.grad((out.double() * weight).sum(), qkv)]


def reference(qkv, bias, at):
    allowed = allowed_pairs(at.document, at.document)
    doubles = [x.detach().double().requires_grad_() for x in qkv]
    return run(lambda q, k, v: eager_attention(q, k, v, bias=bias, allowed=allowed), doubles)


@pytest.mark.parametrize(("seed", "chunk"), [(0, 64), (1, 192)])
@pytest.mark.parametrize("kv_head", [12, 3], ids=["all_heads", "grouped"])
@pytest.mark.parametrize("offset", [0, 10_000])
@pytest.mark.parametrize(
    ("dtype", "tolerance"),
    [(torch.float64, 1e-9), (torch.float32, 3e-4), (torch.bfloat16, 4e-2)],
    ids=str,
)
def test_it_equals_the_float64_reference(seed, chunk, kv_head, offset, dtype, tolerance):
    qkv, bias, row, at = draw(seed, dtype=dtype, kv_head=kv_head, offset=offset)
    ours = run(lambda q, k, v: banded_attention(q, k, v, row, chunk=chunk), qkv)
    for x, y in zip(ours, reference(qkv, bias, at), strict=True):
        assert x.dtype == dtype
        torch.testing.assert_close(x.double(), y, atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize("query", [1, 60, 300])
@pytest.mark.parametrize("kv_head", [12, 3], ids=["all_heads", "grouped"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
def test_queries_may_be_the_last_of_the_keys(query, kv_head, dtype):
    qkv, bias, row, at = draw(7, dtype=dtype, kv_head=kv_head, offset=500)
    late = [qkv[0][:, :, -query:].detach().requires_grad_(), *qkv[1:]]
    cached = bias.part(rows=EVERYTHING, queries=slice(-query, None), keys=EVERYTHING)
    allowed = allowed_pairs(at.document[:, -query:], at.document)
    doubles = [x.detach().double().requires_grad_() for x in late]
    theirs = run(lambda *x: eager_attention(*x, bias=cached, allowed=allowed), doubles)
    tolerance = {torch.float64: 1e-9, torch.float32: 3e-4, torch.bfloat16: 4e-2}[dtype]
    ours = run(lambda *qkv: banded_attention(*qkv, row, chunk=64), late)
    for x, y in zip(ours, theirs, strict=True):
        torch.testing.assert_close(x.double(), y, atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize(("query", "time"), [(1, 531), (60, 531), (531, 531), (300, 300)])
@pytest.mark.parametrize("kv_head", [12, 3], ids=["all_heads", "grouped"])
@pytest.mark.parametrize("offset", [0, 10_000])
@torch.no_grad()
def test_without_gradients_it_is_as_exact_as_without_a_bias(query, time, kv_head, offset):
    qkv, bias, row, at = draw(8, kv_head=kv_head, offset=offset, time=time)
    late = [qkv[0][:, :, -query:], *qkv[1:]]
    cached = bias.part(rows=EVERYTHING, queries=slice(-query, None), keys=EVERYTHING)
    allowed = allowed_pairs(at.document[:, -query:], at.document)
    exact = eager_attention(*(x.double() for x in late), bias=cached, allowed=allowed)
    ours = exact_banded_attention(*late, row, chunk=64)
    torch.testing.assert_close(ours.double(), exact, atol=5e-6, rtol=5e-6)


@pytest.mark.parametrize("time", [90, 400, 900, 1700])
@pytest.mark.parametrize("multiplier", [1.0, 8.0, 96.0])
@torch.no_grad()
def test_whatever_is_chosen_without_gradients_is_exact(time, multiplier):
    torch.manual_seed(time)
    marks = random_marks(2, time, seed=time, documents=0.0)
    at = Positions.from_marks(marks, packed=False)
    bias = ALiBi(n_head=4, multiplier=multiplier).bias(at.inter, at.inter)
    q, k, v = torch.randn(3, 2, 4, time, 32)
    ours = choose_attention(bias=bias, q_at=at, k_at=at)(q, k, v)
    doubles = q.double(), k.double(), v.double()
    exact = choose_attention(bias=bias, q_at=at, k_at=at, path="eager")(*doubles)
    torch.testing.assert_close(ours.double(), exact, atol=5e-6, rtol=5e-6)


def test_steep_heads_skip_most_keys_and_flat_heads_none():
    (q, k, _), _, _, at = draw(3, time=2048, head=4, kv_head=4, batch=1)
    slopes = torch.tensor([48.0, 6.0, 0.01, 0.0])
    bias = LinearBias(terms=(LinearTerm(slopes=slopes, q_ids=at.inter, k_ids=at.inter),))
    row = bias.row(rows=EVERYTHING, keys=EVERYTHING, dtype=torch.float64)
    first = first_keys(q, k, row, chunk=128, tolerance=1e-8)[-1]
    assert 2048 - 128 - first[0] <= 128
    assert first[0] > first[1] > 1024
    assert (first[2:] == 0).all()


@pytest.mark.parametrize("large", [0.0, 1.0, 30.0])
def test_what_is_skipped_weighs_less_than_the_tolerance(large):
    (q, k, _), bias, row, _ = draw(4, dtype=torch.float64, large=large)
    first = first_keys(q, k, row, chunk=64, tolerance=1e-6)
    assert first.any() or large == 30.0
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]) + bias.dense(torch.float64)
    time = q.shape[2]
    scores = scores.masked_fill(torch.ones(time, time).triu(1).bool(), float("-inf"))
    weights = scores.softmax(-1)
    for query in range(time):
        skipped = torch.arange(time) < first[query // 64][:, None]
        assert ((weights[:, :, query] * skipped).sum(-1) <= 1e-6).all()


@pytest.mark.parametrize("slopes", [[-0.5, 0.0, 0.5, 9.0], [0.0, 0.0, 0.0, 0.0]])
def test_any_slopes_and_ids_that_fall_are_served(slopes):
    (q, k, v), _, _, at = draw(5, dtype=torch.float64, head=4, kv_head=4)
    terms = tuple(
        LinearTerm(slopes=torch.tensor(slopes), q_ids=ids, k_ids=ids)
        for ids in (at.inter, at.intra)
    )
    bias = LinearBias(terms=terms)
    row = bias.row(rows=EVERYTHING, keys=EVERYTHING, dtype=torch.float64)
    ours = run(lambda *qkv: banded_attention(*qkv, row, chunk=64), (q, k, v))
    for x, y in zip(ours, reference((q, k, v), bias, at), strict=True):
        torch.testing.assert_close(x, y, atol=1e-9, rtol=1e-9)


def test_long_documents_take_it_and_short_ones_do_not(monkeypatch):
    asked = []
    monkeypatch.setitem(
        dispatch._LINEAR,
        "banded",
        lambda q, k, v, row: asked.append(q.shape[2]) or banded_attention(q, k, v, row),
    )
    time = room.WORTH_FROM + 300
    marks = torch.zeros(1, time, dtype=torch.uint8)
    marks[0, [0, 100]] = 3  # documents of 100 and of the rest
    marks[0, ::9] |= 2
    at = Positions.from_marks(marks)
    bilevel = Bilevel(intra=Learned(width=4, length=4), inter=ALiBi(n_head=2, multiplier=96.0))
    qkv = [torch.randn(1, 2, time, 16, requires_grad=True) for _ in range(3)]
    bias = bilevel.bias(at, at)
    ours = run(choose_attention(bias=bias, q_at=at, k_at=at), qkv)
    assert asked == [time - 100]
    for x, y in zip(ours, reference(qkv, bias, at), strict=True):
        torch.testing.assert_close(x.double(), y, atol=3e-4, rtol=3e-4)


def test_the_operator_tells_the_compiler_what_it_returns():
    (q, k, v), _, row, _ = draw(6, time=200, head=4, kv_head=4)
    torch.library.opcheck(
        torch.ops.bipe.exact_banded_attention.default,
        (*(x.detach() for x in (q, k, v)), row, 64, 1e-8),
        test_utils=("test_schema", "test_faketensor"),
    )
    torch.library.opcheck(
        torch.ops.bipe.banded_attention.default,
        (q, k, v, row, 64, 1e-8),
        test_utils=("test_schema", "test_autograd_registration", "test_faketensor"),
    )
