"""The banded path and FlexAttention skip keys and stay within their tolerance of the reference.

FlexAttention visits the blocks that hold something to see: no fewer, and hardly more.
"""

import functools
import math

import pytest
import torch
from torch.nn.attention.flex_attention import create_block_mask

from bipe import Positions
from bipe.attention import banded as room
from bipe.attention import dispatch
from bipe.attention.banded import banded_attention, exact_banded_attention, first_keys
from bipe.attention.dispatch import choose_attention
from bipe.attention.eager import allowed_pairs, eager_attention
from bipe.attention.flex import BLOCK, Blocks, choose_flex, near_blocks, ordered
from bipe.bias import LinearBias, add_biases
from bipe.encodings import ALiBi
from tests.bipe.attention.test_attention import reference, run
from tests.bipe.conftest import random_marks

SLOPES = ALiBi(n_head=12, multiplier=96.0).slopes


def draw(
    seed, *, dtype=torch.float32, time=400, slopes=SLOPES, kv_head=None, offset=0, query=0,
    documents=0.0,
):  # fmt: skip
    """The last queries (0: all), all keys and values; their bias, its float64 row, positions."""
    torch.manual_seed(seed)
    head = len(slopes)
    q = torch.randn(2, head, time, 16)[:, :, -query:]
    k, v = torch.randn(2, 2, kv_head or head, time, 16)
    marks = random_marks(2, time, seed=seed, documents=documents)
    at = Positions.from_marks(marks, packed=documents > 0)
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

    def banded(q, k, v, row):
        asked.append(q.shape[2])
        return banded_attention(q, k, v, row)

    monkeypatch.setitem(dispatch._KERNELS, "banded", (banded, "a linear bias"))
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


def dense(mask, *, whole):
    """The blocks of a mask as booleans."""
    count = mask.full_kv_num_blocks if whole else mask.kv_num_blocks
    order = mask.full_kv_indices if whole else mask.kv_indices
    first = torch.arange(order.shape[-1]) < count[..., None]
    return torch.zeros_like(order, dtype=torch.bool).scatter(-1, order.long(), first)


@pytest.mark.parametrize("time", [1, BLOCK - 1, BLOCK, BLOCK + 1, 700])
@pytest.mark.parametrize("documents", [0.0, 0.003, 0.03])
@pytest.mark.parametrize("padding", [0, 9])
def test_blocks_of_documents_are_those_of_the_whole_mask(time, documents, padding):
    marks = random_marks(2, time + padding, seed=time, documents=documents)
    hidden = (torch.arange(time + padding) < padding).expand(2, -1)
    document = Positions.from_marks(marks, padding=hidden).document
    ours = Blocks.of(document).mask()
    theirs = create_block_mask(
        lambda b, h, q, k: (q >= k) & (document[b, q] == document[b, k]),
        *(2, None, time + padding, time + padding),
        device="cpu",
    )
    for whole in (False, True):
        assert torch.equal(dense(ours, whole=whole), dense(theirs, whole=whole))
    assert ours.seq_lengths == theirs.seq_lengths


@pytest.mark.parametrize("run", [ordered, torch.compile(ordered, backend="aot_eager")])
@pytest.mark.parametrize("order", [(0, 1, 2, 3), (2, 0, 3, 1), (3, 2, 1, 0)])
def test_the_kernel_gets_contiguous_blocks(order, run):
    """Also in heads of size 1, whose stride it reads."""
    for heads in (1, 3):
        drawn = torch.rand([(2, heads, 4, 5)[i] for i in order]) < 0.5
        blocks = drawn.permute(sorted(range(4), key=order.__getitem__))
        count, index = run(blocks)
        assert count.stride() == (4 * heads, 4, 1)
        assert index.stride() == (20 * heads, 20, 5, 1)
        assert torch.equal(count, blocks.sum(-1))
        for row, n, found in zip(
            blocks.flatten(0, 2), count.flatten(), index.flatten(0, 2), strict=True
        ):
            assert found[:n].tolist() == row.nonzero().flatten().tolist()
            assert sorted(found.tolist()) == list(range(5))


@pytest.mark.parametrize(
    ("large", "documents", "head", "kv_head", "offset"),
    [(0.1, 0.0, 12, 12, 0), (1.0, 0.004, 8, 2, 10_000), (3.0, 0.004, 12, 12, 0)],
)
def test_what_is_not_near_weighs_less_than_the_tolerance(large, documents, head, kv_head, offset):
    slopes = ALiBi(n_head=head, multiplier=96.0).slopes
    how = {"kv_head": kv_head, "offset": offset, "documents": documents, "slopes": slopes}
    (q, k, _), bias, row, at = draw(1, time=600, dtype=torch.float64, **how)
    near = near_blocks(q * large, k, row, tolerance=1e-6)
    scores = large * q @ k.repeat_interleave(head // kv_head, 1).mT / q.shape[-1] ** 0.5
    allowed = allowed_pairs(at.document, at.document)[:, None]
    scores = (scores + bias.dense(torch.float64)).masked_fill(~allowed, float("-inf"))
    visited = near.repeat_interleave(BLOCK, -1).repeat_interleave(BLOCK, -2)[..., :600, :600]
    assert ((scores.softmax(-1) * ~visited).sum(-1) <= 1e-6).all()
    seen = Blocks.of(at.document).seen[:, None]
    assert (near | ~seen).all(-1).all(-1).logical_not().any(), "steep heads skip"


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize(
    ("kv_head", "offset", "documents", "width"), [(12, 0, 0.0, 16), (4, 10_000, 0.006, 8)]
)
@torch.no_grad()
def test_flex_that_skips_equals_the_reference(kv_head, offset, documents, width):
    """Heads narrower than the kernel takes are widened."""
    qkv, bias, _, at = draw(2, time=500, kv_head=kv_head, offset=offset, documents=documents)
    qkv = [x[..., :width] for x in qkv]
    exact = choose_attention(bias=bias, q_at=at, k_at=at, path="eager")(*(x.double() for x in qkv))
    ours = choose_flex(bias=bias, at=at)(*qkv)
    torch.testing.assert_close(ours.double(), exact, atol=1e-5, rtol=1e-5)


def test_a_block_that_is_not_finite_is_not_skipped():
    (q, k, _), _, row, _ = draw(4, time=500)
    q.data[0, 0, 450] = float("nan")
    assert near_blocks(q, k, row, tolerance=1e-6)[0, 0, 450 // BLOCK].all()
