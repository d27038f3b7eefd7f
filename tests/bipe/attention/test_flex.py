"""FlexAttention visits the blocks that hold something to see: no fewer, and hardly more."""

import pytest
import torch
from torch.nn.attention.flex_attention import create_block_mask

from bipe import Positions
from bipe.attention.dispatch import choose_attention
from bipe.attention.eager import allowed_pairs
from bipe.attention.flex import BLOCK, Blocks, choose_flex, near_blocks, ordered
from bipe.bias import LinearBias
from bipe.encodings import ALiBi
from tests.bipe.conftest import random_marks


def draw(seed, *, time, head=12, kv_head=12, offset=0, documents=0.0, dtype=torch.float32):
    torch.manual_seed(seed)
    q = torch.randn(2, head, time, 16, dtype=dtype)
    k, v = torch.randn(2, 2, kv_head, time, 16, dtype=dtype)
    at = Positions.from_marks(random_marks(2, time, seed=seed, documents=documents))
    ids = at.inter + offset
    slopes = ALiBi(n_head=head, multiplier=96.0).slopes
    return (q, k, v), LinearBias(slopes=slopes, q_ids=ids, k_ids=ids), at


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
    (q, k, _), bias, at = draw(
        1, time=600, head=head, kv_head=kv_head, offset=offset, documents=documents,
        dtype=torch.float64,
    )  # fmt: skip
    row = bias.row(dtype=torch.float64)
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
    qkv, bias, at = draw(2, time=500, kv_head=kv_head, offset=offset, documents=documents)
    qkv = [x[..., :width] for x in qkv]
    exact = choose_attention(bias=bias, q_at=at, k_at=at, path="eager")(*(x.double() for x in qkv))
    ours = choose_flex(bias=bias, at=at)(*qkv)
    torch.testing.assert_close(ours.double(), exact, atol=1e-5, rtol=1e-5)


def test_a_block_that_is_not_finite_is_not_skipped():
    (q, k, _), bias, _ = draw(4, time=500)
    row = bias.row(dtype=torch.float64)
    q[0, 0, 450] = float("nan")
    assert near_blocks(q, k, row, tolerance=1e-6)[0, 0, 450 // BLOCK].all()
