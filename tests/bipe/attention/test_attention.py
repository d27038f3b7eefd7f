"""Every path of attention equals the float64 reference, forward and backward."""

import pytest
import torch

from bipe import Positions
from bipe.attention.dispatch import choose_attention, document_spans
from bipe.attention.eager import allowed_pairs, eager_attention
from bipe.attention.fused import (
    _bias_row_works,
    augmented_attention,
    bias_row_attention,
    bias_row_works,
)
from bipe.bias import LinearBias, LinearTerm, TableBias, add_biases
from bipe.encodings import ALiBi, Bilevel, Learned
from tests.bipe.conftest import random_marks


def inputs(seed: int, dtype: torch.dtype, *, kv_head: int = 4, documents: float = 0.0):
    torch.manual_seed(seed)
    batch, head, time, width = 2, 4, 97, 16
    q = torch.randn(batch, head, time, width)
    k, v = torch.randn(2, batch, kv_head, time, width)
    at = Positions.from_marks(random_marks(batch, time, seed=seed, documents=documents))
    return [x.to(dtype).requires_grad_() for x in (q, k, v)], at


def biases(at: Positions):
    bilevel = Bilevel(intra=Learned(width=4, length=4), inter=ALiBi(n_head=4, multiplier=96.0))
    both = Bilevel(intra=ALiBi(n_head=4), inter=ALiBi(n_head=4, multiplier=96.0))
    return {"none": None, "linear": bilevel.bias(at, at), "two_levels": both.bias(at, at)}


def run(attend, qkv):
    out = attend(*qkv)
    weight = torch.linspace(-1, 1, out.numel(), dtype=torch.float64).view_as(out)
    return [out, *torch.autograd.grad((out.double() * weight).sum(), qkv)]


def reference(qkv, bias, at):
    allowed = allowed_pairs(at.document, at.document)
    doubles = [x.detach().double().requires_grad_() for x in qkv]
    return run(lambda q, k, v: eager_attention(q, k, v, bias=bias, allowed=allowed), doubles)


PATHS = [
    ("none", "auto"), ("none", "causal"), ("none", "masked"),
    ("linear", "auto"), ("linear", "bias_row"), ("linear", "augmented"), ("linear", "masked"),
    ("two_levels", "auto"), ("two_levels", "augmented"),
]  # fmt: skip


@pytest.mark.parametrize("documents", [0.0, 0.05], ids=["one", "packed"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("kv_head", [4, 2], ids=["all_heads", "grouped"])
@pytest.mark.parametrize(("kind", "path"), PATHS)
def test_every_path_equals_the_float64_reference(documents, dtype, kv_head, kind, path):
    qkv, at = inputs(0, dtype, kv_head=kv_head, documents=documents)
    bias = biases(at)[kind]
    ours = run(choose_attention(bias=bias, q_at=at, k_at=at, path=path), qkv)
    theirs = reference(qkv, bias, at)
    # The row of a linear bias is float32: its rounding, slopes of 96 over some 20 segments.
    tolerance = {torch.float64: 2e-4, torch.float32: 3e-4, torch.bfloat16: 6e-2}[dtype]
    for x, y in zip(ours, theirs, strict=True):
        assert x.dtype == dtype
        torch.testing.assert_close(x.double(), y, atol=tolerance, rtol=tolerance)


def test_documents_do_not_leak_at_all():
    qkv, at = inputs(0, torch.float32, documents=0.05)
    for bias in biases(at).values():
        out = choose_attention(bias=bias, q_at=at, k_at=at)(*qkv)
        first = at.document == 0
        grads = torch.autograd.grad((out * ~first[:, None, :, None]).sum(), qkv)
        for grad in grads:
            assert (grad.transpose(1, 2)[first] == 0).all()


def test_a_row_of_one_document_may_say_so():
    qkv, at = inputs(1, torch.float32)
    unpacked = Positions(
        document=at.document, token=at.token, inter=at.inter, intra=at.intra, packed=False
    )
    for kind, bias in biases(at).items():
        out = choose_attention(bias=bias, q_at=unpacked, k_at=unpacked)(*qkv)
        same = choose_attention(bias=biases(at)[kind], q_at=at, k_at=at)(*qkv)
        # Paths may differ by the rounding of a bias row.
        torch.testing.assert_close(out, same, atol=3e-4, rtol=3e-4)


def test_queries_may_be_the_last_of_the_keys():
    (q, k, v), at = inputs(2, torch.float64, documents=0.02)
    for bias_of in (lambda a, b: None, lambda a, b: ALiBi(n_head=4).bias(a.token, b.token)):
        full = choose_attention(bias=bias_of(at, at), q_at=at, k_at=at)(q, k, v)
        late = at[60:]
        part = choose_attention(bias=bias_of(late, at), q_at=late, k_at=at)(q[:, :, 60:], k, v)
        torch.testing.assert_close(part, full[:, :, 60:], atol=1e-6, rtol=1e-6)


def test_a_table_bias_takes_any_function_of_an_id_pair():
    qkv, at = inputs(3, torch.float64, documents=0.05)
    heads = torch.arange(1.0, 5.0)[:, None, None]

    def distance(q_ids, k_ids):
        return -heads * (q_ids - k_ids).clamp(min=0)[:, None].double().log1p()

    table = TableBias(function=distance, q_ids=at.inter, k_ids=at.inter)
    mixed = add_biases(table, ALiBi(n_head=4).bias(at.token, at.token))
    for bias in (table, mixed):
        ours = run(choose_attention(bias=bias, q_at=at, k_at=at), qkv)
        for x, y in zip(ours, reference(qkv, bias, at), strict=True):
            torch.testing.assert_close(x, y, atol=1e-9, rtol=1e-9)


def test_linear_biases_stay_linear_when_added():
    ids = torch.arange(5)[None]
    alibi = ALiBi(n_head=2).bias(ids, ids)
    both = add_biases(alibi, None, alibi)
    assert isinstance(both, LinearBias)
    torch.testing.assert_close(both.dense(torch.float64), 2 * alibi.dense(torch.float64))


def test_a_bias_row_at_a_million_segments_loses_nothing():
    ids = torch.arange(1_000_000, 1_000_064)[None]
    slopes = torch.tensor([67.88225099390856, 0.375], dtype=torch.float64)
    far = LinearBias(terms=(LinearTerm(slopes=slopes, q_ids=ids, k_ids=ids),))
    near = LinearBias(terms=(LinearTerm(slopes=slopes, q_ids=ids - 10**6, k_ids=ids - 10**6),))
    everything = slice(None)
    assert torch.equal(
        far.row(rows=everything, keys=everything), near.row(rows=everything, keys=everything)
    )


def test_the_private_operator_is_found_wherever_it_is_first_asked_for():
    _bias_row_works.cache_clear()
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        state = torch.get_rng_state()
        assert bias_row_works()
        assert torch.equal(state, torch.get_rng_state())


def test_the_fallback_equals_the_private_operator():
    assert bias_row_works()
    qkv, _ = inputs(4, torch.float32)
    row = torch.randn(2, 4, 97)
    one = run(lambda q, k, v: bias_row_attention(q, k, v, row), qkv)
    other = run(lambda q, k, v: augmented_attention(q, k, v, row), qkv)
    for x, y in zip(one, other, strict=True):
        torch.testing.assert_close(x, y, atol=1e-4, rtol=1e-4)


def test_spans_follow_the_documents():
    document = torch.tensor([[0, 0, 1, 1, -1], [0, 0, 0, 0, 0]])
    assert document_spans(document) == [
        [slice(0, 2), slice(2, 4), slice(4, 5)],
        [slice(0, 5)],
    ]


def test_a_path_that_cannot_do_it_says_so():
    _, at = inputs(0, torch.float32)
    with pytest.raises(ValueError, match="'bias_row' needs a linear bias"):
        choose_attention(bias=None, q_at=at, k_at=at, path="bias_row")
    with pytest.raises(ValueError, match="'causal' supports no bias, got LinearBias"):
        choose_attention(bias=biases(at)["linear"], q_at=at, k_at=at, path="causal")
