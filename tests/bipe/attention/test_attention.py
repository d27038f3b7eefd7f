"""Every path of attention equals the float64 reference, forward and backward."""

import inspect

import pytest
import torch

from bipe import Positions
from bipe.attention import tables
from bipe.attention.chunked import chunked_attention
from bipe.attention.dispatch import choose_attention
from bipe.attention.eager import allowed_pairs, eager_attention
from bipe.attention.fused import _bias_row_works, bias_row_works
from bipe.attention.tables import table_attention
from bipe.bias import DistanceBias, LinearBias, TableBias, add_biases
from bipe.encodings import ALiBi, Bilevel
from tests.bipe.conftest import random_marks

pytestmark = pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
HEAD, TIME = 4, 150
ATOL = {torch.float64: 1e-9, torch.float32: 3e-4, torch.bfloat16: 0.1}
# The kinds of biases that a path takes; those of the last line have no gradients on a CPU.
LINEAR, TABLES = ("linear", "steep", "two_levels"), ("flat", "bilevel", "fixed", "pairs", "sum")
KINDS = {
    "auto": ("none", *LINEAR, *TABLES),
    "causal": ("none",), "masked": ("none", "steep", "sum"),
    "bias_row": LINEAR[:2], "augmented": LINEAR, "banded": LINEAR[:1],
    "tables": (*TABLES, "many_pairs", "chain"), "chunked": ("bilevel", "many_pairs", "sum"),
    "flex": ("none", "linear", "pairs", "sum"),
}  # fmt: skip
NEED_ALL = ("chunked", "banded", "causal")
FORWARD_ONLY = ("flex", "exact_banded")
CASES = [(kind, path) for path, kinds in KINDS.items() for kind in kinds]
# One row of biases and one without for what does not depend on the kind.
SIMPLE = [(kind, path) for kind, path in CASES if kind in ("none", "linear") and path != "auto"]
SIMPLE += [("linear", "chunked"), ("linear", "eager"), ("none", "eager")]
PARAMETERS = torch.linspace(-1, 1, HEAD, dtype=torch.float64), torch.full((HEAD,), 0.5).double()


def inputs(
    seed=0, *, dtype=torch.float64, kv_head=HEAD, documents=0.0, time=TIME, width=8, padding=None
):
    torch.manual_seed(seed)
    q = torch.randn(2, HEAD, time, width)
    k, v = torch.randn(2, 2, kv_head, time, width)
    marks = random_marks(2, time, seed=seed, documents=documents)
    at = Positions.from_marks(marks, padding=padding)
    return [x.to(dtype).requires_grad_() for x in (q, k, v)], at


def bias_of(kind, at, parameters=PARAMETERS):
    """A bias of a kind; those of tables are functions of the parameters."""
    by_distance, by_pair = parameters

    def distance(d):
        return by_distance.sin()[:, None] * torch.log1p(d.double())

    def pair(q, k):
        return by_pair.view(1, -1, 1, 1) * torch.cos(q * 0.3 - k * 0.1)[:, None]

    def table(function, of, ids):
        return of(function=function, q_ids=ids, k_ids=ids)

    steep, both = ALiBi(n_head=HEAD, multiplier=96.0), ALiBi(n_head=HEAD)
    bilevel = table(distance, DistanceBias, at.inter)
    pairs = table(pair, TableBias, at.inter)
    linear = steep.bias(at.inter, at.inter)
    made = {
        "none": lambda: None,
        "linear": lambda: linear,
        "steep": lambda: steep.bias(at.token, at.token),
        "two_levels": lambda: Bilevel(intra=both, inter=steep).bias(at, at),
        "flat": lambda: table(distance, DistanceBias, at.token),
        "fixed": lambda: table(lambda d: -both.slopes[:, None] * d, DistanceBias, at.token),
        "bilevel": lambda: bilevel,
        "pairs": lambda: pairs,
        "many_pairs": lambda: table(pair, TableBias, at.token),
        "sum": lambda: add_biases(bilevel, pairs, table(distance, DistanceBias, at.token), linear),
        "chain": lambda: add_biases(linear, bilevel),
    }
    return made[kind]()


def run(attend, tensors, trained=()):
    """The output of attention, and the gradients of a sum over it."""
    out = attend(*tensors)
    weight = torch.linspace(-1, 1, out.numel(), dtype=torch.float64).view_as(out)
    if not any(x.requires_grad for x in tensors):
        return [out]
    loss = (out.double() * weight).sum()
    grads = torch.autograd.grad(loss, [*tensors, *trained], allow_unused=True)
    return [out, *(x for x in grads if x is not None)]


def reference(qkv, bias, at, trained=()):
    allowed = allowed_pairs(at.document, at.document)
    doubles = [x.detach().double().requires_grad_(x.requires_grad) for x in qkv]
    return run(lambda *x: eager_attention(*x, bias=bias, allowed=allowed), doubles, trained)


def agrees(kind, path, qkv, at):
    """Compare a path with the reference where tokens are real; nothing may be NaN anywhere."""
    if path in FORWARD_ONLY:
        qkv = [x.detach() for x in qkv]
    found = []
    for attend in (lambda bias: choose_attention(bias=bias, q_at=at, k_at=at, path=path), None):
        trained = [x.clone().requires_grad_(qkv[0].requires_grad) for x in PARAMETERS]
        bias = bias_of(kind, at, trained)
        found.append(
            run(attend(bias), qkv, trained) if attend else reference(qkv, bias, at, trained)
        )
    real = (at.document >= 0)[:, None, :, None]
    dtype = qkv[0].dtype
    atol = max(ATOL[dtype], 1e-6 * (path == "flex"))
    for number, (ours, theirs) in enumerate(zip(*found, strict=True)):
        assert ours.isfinite().all() and (number > 3 or ours.dtype == dtype)
        kept = real if number == 0 else True
        scale = max(1.0, float(theirs.detach().abs().max()) / 10)
        torch.testing.assert_close(
            ours.double() * kept, theirs * kept, atol=atol * scale, rtol=atol
        )


@pytest.fixture
def _small_blocks(monkeypatch):
    for name, size in {"CHUNK": 32, "KEYS": 64, "BACKWARD_KEYS": 64}.items():
        monkeypatch.setattr(tables, name, size)


HOW = ((torch.float64, 2, 0.0), (torch.float32, HEAD, 0.04), (torch.bfloat16, 2, 0.04))


@pytest.mark.usefixtures("_small_blocks")
@pytest.mark.parametrize(
    ("kind", "path", "dtype", "kv_head", "documents"),
    [
        (kind, path, *how)
        for kind, path in CASES
        for how in HOW
        if path != "flex" or how[0] == torch.float32  # as it computes, and it takes seconds
    ],
    ids=str,
)
def test_every_path_equals_the_float64_reference(kind, path, dtype, kv_head, documents):
    agrees(kind, path, *inputs(dtype=dtype, kv_head=kv_head, documents=documents))


EDGES = {
    **{f"{time}_tokens": {"time": time} for time in (1, 2, 3)},
    **{f"width_{width}": {"time": 30, "width": width} for width in (1, 7, 33)},
    "left": {"padding": torch.arange(21) < 6},
    "right": {"padding": torch.arange(21) >= 9},
    "all": {"padding": torch.ones(21, dtype=torch.bool)},
}


@pytest.mark.parametrize("edge", EDGES)
@pytest.mark.parametrize(("kind", "path"), SIMPLE)
def test_short_rows_padding_and_head_widths_that_no_kernel_likes(kind, path, edge):
    if path == "flex" and edge not in ("1_tokens", "width_7", "left", "all"):
        pytest.skip("FlexAttention takes long, and has no width of 1")
    given = {"time": 21, **EDGES[edge]}
    if "padding" in given:
        given["padding"] = torch.stack((torch.zeros(21, dtype=torch.bool), given["padding"]))
    agrees(kind, path, *inputs(documents=0.1, **given))


@pytest.mark.parametrize("offset", [10_000, 1 << 40])
@pytest.mark.parametrize("path", [path for kind, path in SIMPLE if kind == "linear"])
def test_ids_far_out_are_as_exact_as_small_ones(path, offset):
    qkv, at = inputs(dtype=torch.float32, time=40, documents=0.1)
    slopes = torch.tensor([0.5, 8.0, 48.0, 0.01], dtype=torch.float64)
    near, far = (
        LinearBias(slopes=slopes, q_ids=ids, k_ids=ids) for ids in (at.inter, at.inter + offset)
    )
    attend = choose_attention(bias=far, q_at=at, k_at=at, path=path)
    expected = reference(qkv, near, at)[0]
    found = attend(*(x.detach() for x in qkv))
    torch.testing.assert_close(found.double(), expected, atol=3e-4, rtol=3e-4)
    assert torch.equal(far.row(), near.row())


@pytest.mark.parametrize("chunk", [3, 33, 500])
def test_blocks_of_any_size_give_the_same(chunk):
    """Ids of a row that goes on from another one, and blocks that end inside a segment."""
    qkv, at = inputs(1, time=97)
    later = at.map(lambda ids: ids + 1000)
    for kind, ids in (("flat", at), ("flat", later), ("sum", at)):
        bias = bias_of(kind, ids)
        expected = reference(qkv, bias, at)
        for attention in (chunked_attention, table_attention):
            ours = run(lambda *x, a=attention, b=bias: a(*x, bias=b, chunk=chunk), qkv)
            for x, y in zip(ours, expected, strict=True):
                torch.testing.assert_close(x, y, atol=1e-9, rtol=1e-9)


def test_segments_make_the_table_small():
    _, at = inputs(3)
    count = int(at.inter.max()) + 1
    bias = bias_of("pairs", at)
    assert bias.pairs(torch.float32).table.shape == (2, HEAD, count, count) and count < TIME / 3
    assert bias.has_few_pairs() and not bias_of("many_pairs", at).has_few_pairs()


def test_memory_that_chunks_free_is_released(monkeypatch):
    """Once per 512 keys, in the forward and in the backward pass."""
    released = []
    monkeypatch.setattr("bipe.attention.chunked.release_freed", lambda: released.append(1))
    qkv, at = inputs(7, time=1100, width=4, dtype=torch.float32)
    chunked_attention(*qkv, bias=bias_of("flat", at)).sum().backward()
    assert len(released) == 2 * 2


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_private_operator_is_found_wherever_it_is_first_asked_for(mode, dtype, request):
    _bias_row_works.cache_clear()
    torch.set_default_dtype(dtype)
    request.addfinalizer(lambda: torch.set_default_dtype(torch.float32))
    with mode(), torch.autocast("cpu", torch.bfloat16):
        state = torch.get_rng_state()
        assert bias_row_works()
        assert torch.equal(state, torch.get_rng_state())


@pytest.mark.parametrize(
    ("path", "kind", "queries", "told"),
    [
        ("bias_row", "none", TIME, "'bias_row' needs a linear bias"),
        ("tables", "none", TIME, "'tables' needs a table, got None"),
        ("chunked", "none", TIME, "'chunked' needs a bias"),
        ("causal", "linear", TIME, "'causal' needs no bias, got LinearBias"),
        *(
            (path, kind, 5, f"as many queries as keys, got 5 and {TIME}")
            for path, kind in zip(NEED_ALL, ("flat", "linear", "none"), strict=True)
        ),
    ],
)
def test_a_path_that_cannot_do_it_says_so(path, kind, queries, told):
    _, at = inputs()
    with pytest.raises(ValueError, match=told):
        choose_attention(bias=bias_of(kind, at), q_at=at[-queries:], k_at=at, path=path)


@pytest.mark.parametrize(("path", "kind"), [("causal", "none"), ("augmented", "linear")])
def test_a_path_without_a_mask_takes_no_packed_rows_except_on_a_cpu(path, kind):
    _, at = inputs()
    there = at.map(lambda ids: ids.to("meta"))
    with pytest.raises(ValueError, match=f"{path!r} takes rows of one document only"):
        choose_attention(bias=bias_of(kind, at), q_at=there, k_at=there, path=path)


def test_a_bias_of_another_kind_is_refused():
    with pytest.raises(TypeError, match=r"must be a Bias of bipe.bias.* was: Tensor"):
        inspect.unwrap(add_biases)(torch.zeros(1, 2, 4, 4))  # tests check types before


def test_a_table_without_heads_is_refused():
    ids = torch.arange(4)[None]
    bias = TableBias(function=lambda q, k: -(q - k).float(), q_ids=ids, k_ids=ids)
    with pytest.raises(ValueError, match=r"\[batch, head, query, key\], was: \[1, 4, 4\]"):
        bias.dense(torch.float32)
