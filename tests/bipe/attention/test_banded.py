"""The banded path skips keys and stays within its tolerance of the float64 reference."""

import functools
import math

import pytest
import torch

from bipe import Positions
from bipe.attention import banded as room
from bipe.attention import dispatch
from bipe.attention.banded import banded_attention, exact_banded_attention, first_keys
from bipe.attention.dispatch import choose_attention
from bipe.attention.eager import allowed_pairs, eager_attention
from bipe.bias import LinearBias, add_biases
from bipe.encodings import ALiBi
from tests.bipe.attention.test_attention import reference, run
from tests.bipe.conftest import random_marks

SLOPES = ALiBi(n_head=12, multiplier=96.0).slopes


def draw(seed, *, dtype=torch.float32, time=400, slopes=SLOPES, kv_head=None, offset=0, query=0):
    """The last queries (0: all), all keys and values; their bias, its float64 row, positions."""
    torch.manual_seed(seed)
    head = len(slopes)
    q = torch.randn(2, head, time, 16)[:, :, -query:]
    k, v = torch.randn(2, 2, kv_head or head, time, 16)
    at = Positions.from_marks(random_marks(2, time, seed=seed, documents=0.0), packed=False)
    ids = at.inter + offset
    bias = LinearBias(slopes=slopes, q_ids=ids[:, -query:], k_ids=ids)
    row = bias.row(dtype=torch.float64)
    return [x.to(dtype).requires_grad_() for x in (q, k, v)], bias, row, at


def exact(qkv, bias):
    """The reference for the last queries of rows of one document."""
    document = torch.zeros(len(qkv[1]), qkv[1].shape[2], dtype=torch.long)
    allowed = allowed_pairs(document[:, -qkv[0].shape[2] :], document)
    return run(
        functools.partial(eager_attention, bias=bias, allowed=allowed),
        [x.detach().double().requires_grad_(x.requires_grad) for x in qkv],
    )


@pytest.mark.parametrize(
    ("dtype", "tolerance"),
    [(torch.float64, 1e-9), (torch.float32, 3e-4), (torch.bfloat16, 4e-2)],
    ids=str,
)
@pytest.mark.parametrize(
    ("chunk", "given"),
    [
        (64, {"kv_head": 3}),
        (192, {"offset": 10_000}),
        (64, {"query": 1, "offset": 500}),
        (64, {"query": 60, "kv_head": 3}),
        (64, {"query": 300}),
    ],
    ids=str,
)
def test_it_equals_the_float64_reference(chunk, given, dtype, tolerance):
    """Of all queries, or the last of the keys."""
    qkv, bias, row, _ = draw(chunk, dtype=dtype, **given)
    ours = run(lambda *x: banded_attention(*x, row, chunk=chunk), qkv)
    for x, y in zip(ours, exact(qkv, bias), strict=True):
        assert x.dtype == dtype
        torch.testing.assert_close(x.double(), y, atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize(
    "given",
    [
        {"query": 1, "kv_head": 3},
        {"query": 60, "offset": 10_000},
        {"kv_head": 3, "offset": 10_000},
        {},
        {"time": 300, "kv_head": 3},
    ],
    ids=str,
)
@torch.no_grad()
def test_without_gradients_it_is_as_exact_as_without_a_bias(given):
    qkv, bias, row, _ = draw(8, **given)
    qkv = [x.detach() for x in qkv]
    ours = exact_banded_attention(*qkv, row, chunk=64)
    torch.testing.assert_close(ours.double(), exact(qkv, bias)[0], atol=5e-6, rtol=5e-6)


def test_steep_heads_skip_most_keys_and_flat_heads_none():
    (q, k, _), _, row, _ = draw(3, time=2048, slopes=torch.tensor([48.0, 6.0, 0.01, 0.0]))
    first = first_keys(q, k, row, chunk=128, tolerance=1e-8)[-1]
    assert 2048 - 128 - first[0] <= 128
    assert first[0] > first[1] > 1024
    assert (first[2:] == 0).all()


@pytest.mark.parametrize("large", [0.0, 1.0, 30.0])
def test_what_is_skipped_weighs_less_than_the_tolerance(large):
    (q, k, _), bias, row, _ = draw(4, dtype=torch.float64)
    first = first_keys(q * large, k, row, chunk=64, tolerance=1e-6)
    assert first.any() or large == 30.0
    time = q.shape[2]
    scores = large * q @ k.mT / math.sqrt(q.shape[-1]) + bias.dense(torch.float64)
    weights = scores.masked_fill(torch.ones(time, time).triu(1).bool(), float("-inf")).softmax(-1)
    skipped = torch.arange(time) < first[torch.arange(time) // 64][..., None]  # [query, head, key]
    assert ((weights * skipped.transpose(0, 1)).sum(-1) <= 1e-6).all()


@pytest.mark.parametrize("slopes", [[-0.5, 0.0, 0.5, 9.0], [0.0, 0.0, 0.0, 0.0]])
def test_any_slopes_and_ids_that_fall_are_served(slopes):
    qkv, _, _, at = draw(5, dtype=torch.float64, slopes=torch.tensor(slopes))
    terms = (
        LinearBias(slopes=torch.tensor(slopes), q_ids=ids, k_ids=ids)
        for ids in (at.inter, at.intra)
    )
    bias = add_biases(*terms)
    row = bias.row(dtype=torch.float64)
    ours = run(lambda *x: banded_attention(*x, row, chunk=64), qkv)
    for x, y in zip(ours, exact(qkv, bias), strict=True):
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
    qkv = [torch.randn(1, 2, time, 16, requires_grad=True) for _ in range(3)]
    bias = ALiBi(n_head=2, multiplier=96.0).bias(at.inter, at.inter)
    ours = run(choose_attention(bias=bias, q_at=at, k_at=at), qkv)
    assert asked == [time - 100]
    for x, y in zip(ours, reference(qkv, bias, at), strict=True):
        torch.testing.assert_close(x.double(), y, atol=3e-4, rtol=3e-4)


def test_the_operator_tells_the_compiler_what_it_returns():
    qkv, _, row, _ = draw(6, time=200, slopes=SLOPES[:4])
    ours = torch.ops.bipe
    for operator, tensors, tests in (
        (ours.exact_banded_attention, [x.detach() for x in qkv], ()),
        (ours.banded_attention, qkv, ("test_autograd_registration",)),
    ):
        tests = ("test_schema", "test_faketensor", *tests)
        torch.library.opcheck(operator.default, (*tensors, row, 64, 1e-8), test_utils=tests)
