"""Training-free methods: distances by the definition, fast paths, caches, identities."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bipe import Decoder, Positions
from bipe.attention.passes import chunked_passes, members, pass_attention
from bipe.attention.passes.fused import blocks_of, fused_passes
from bipe.attention.passes.views import gathered, key_ranges
from bipe.bias import RowBias
from bipe.build import build
from bipe.encodings.base import Encoding, Flat, has_hook
from bipe.extension import (
    Blockwise,
    Clip,
    DualChunk,
    LeakyReRoPE,
    ReRoPE,
    SelfExtend,
    Separators,
    Window,
    extend_config,
)
from tests.bipe.conftest import (
    BARE,
    HEAD_WIDTH,
    N_HEAD,
    SCHEMES,
    cached_equals_uncached,
    chain,
    close,
    far,
    packed_equals_alone,
    padding_is_not_read,
    random_batch,
    random_marks,
    small_decoder,
    target,
)

METHODS = {
    "rerope": far("ReRoPE", window=4),
    "rerope_log_n": far("ReRoPE", window=3, log_n=5),
    "leaky_rerope": far("LeakyReRoPE", window=3, factor=2.5),
    "self_extend": far("SelfExtend", window=4, group=3),
    "dual_chunk": far("DualChunk", chunk=5, length=7),
    "clip": far("Clip", distance=3),
    "window": far("Window", window=3),
    "window_tokens": far("Window", window=9, unit="tokens"),
    "window_segments": far("Window", window=2, unit="segments"),
    "separators": far("Separators", window=3, sinks=2),
    "separators_alone": far("Separators", window=1, sinks=0, unit=None),
    "separators_segments": far("Separators", window=2, sinks=1, unit="segments"),
    "blockwise": far("Blockwise", block=4),
    "blockwise_tokens": far("Blockwise", block=5, unit="tokens"),
    "log_n": far("LogN", original_length=3),
}
FLAT = ("flat_rope", "flat_alibi", "flat_nope", "flat_rope_yarn")
BILEVEL = ("bilevel_learned_rope", "bilevel_learned_alibi_x96", "bilevel_rope_rope")


def with_far(scheme, method):
    """The description of a scheme with a method; None where the method does not serve it."""
    node = {**SCHEMES[scheme], "far": METHODS[method]}
    outer = build(node["inter"] if "inter" in node else node["encoding"])
    serves = build(METHODS[method]).serves
    served = not serves or any(has_hook(type(outer), hook) for hook in serves)
    return node if served else None


PAIRS = [
    (scheme, method) for scheme in (*FLAT, *BILEVEL) for method in METHODS
    if with_far(scheme, method)
]  # fmt: skip
# Each method once on a flat scheme and once on a bilevel one, ALiBi and NoPE among them.
SOME = [
    *(("flat_rope", method) for method in METHODS),
    *((BILEVEL[n % 3], method) for n, method in enumerate(METHODS)),
    ("flat_nope", "window"),
    ("flat_alibi", "window"),
    ("flat_alibi", "separators"),
    ("bilevel_learned_alibi_x96", "clip"),
]
pairs = pytest.mark.parametrize(
    ("scheme", "method"), [pair for pair in SOME if with_far(*pair) is not None]
)


def expected_distance(method, i, j):
    """What each method says in its first lines; None: not seen."""
    d = i - j
    match method:
        case LeakyReRoPE(window=w):
            return d if d < w else w + (d - w) / method.factor
        case ReRoPE():
            return min(d, method.window)
        case SelfExtend(window=w, group=g):
            return d if d < w else i // g - j // g + w - w // g
        case DualChunk(chunk=s, length=c):
            apart, m = i // s - j // s, i % s
            return (m, min(s + m, c - 1), c - 1)[min(apart, 2)] - j % s
        case Clip():
            return min(d, method.distance)
        case Window() | Separators():
            return d if d < method.window else None
        case Blockwise(block=s):
            return d if i // s - j // s <= 1 else None
    return d


def is_kept(method, at, row, j):
    """Whether a method shows a key to later queries that are too far away, by its definition."""
    if not isinstance(method, Separators):
        return False
    document, segment = at.document[row].tolist(), at.inter[row].tolist()
    last = j + 1 < len(document) and segment[j + 1] != segment[j]
    return last or j - document.index(document[j]) < method.sinks


@given(method=st.sampled_from(sorted(METHODS)), seed=st.integers(0, 10**6), level=st.booleans())
def test_every_pair_is_in_one_pass_at_the_distance_of_the_definition(method, seed, level):
    chosen = build(METHODS[method])
    at = Positions.from_marks(random_marks(2, 50, seed=seed))
    ids = at.inter if level else at.token
    passes = chosen.passes(ids, ids)
    allowed = (at.document[:, :, None] == at.document[:, None, :]) & torch.ones(
        50, 50
    ).tril().bool()
    beyond = chosen.beyond(at)
    inside = members(passes, ids=ids, allowed=allowed, beyond=beyond)
    ranges = key_ranges(passes, document=at.document, ids=ids, n_query=50)
    for n, (where, met) in enumerate(zip(inside, ranges, strict=True)):
        index = torch.arange(50).expand(2, -1)
        if n and beyond is not None:
            index, met = gathered(beyond, met)
        fast = torch.zeros(2, 50, 50, dtype=torch.bool)
        held = met.holds(queries=slice(0, 50), keys=slice(0, index.shape[1]))
        fast.scatter_(2, index[:, None].expand(-1, 50, -1), held)
        assert torch.equal(fast, where)
    assert int(sum(where.long() for where in inside).max()) == 1
    for row, i, j in allowed.nonzero()[::7].tolist():
        at_ = [n for n, where in enumerate(inside) if where[row, i, j]]
        expected = expected_distance(chosen, int(ids[row, i]), int(ids[row, j]))
        if expected is None and is_kept(chosen, at, row, j):
            expected = int(ids[row, i] - ids[row, j])
        assert bool(at_) == (expected is not None)
        for n in at_:
            q, k = (ids if x is None else x for x in (passes[n].q_ids, passes[n].k_ids))
            distance = q.expand_as(ids)[row, i] - k.expand_as(ids)[row, j]
            assert float(distance) == pytest.approx(expected)


@given(
    pair=st.sampled_from(PAIRS),
    seed=st.integers(0, 10**6),
    time=st.integers(1, 90),
    queries=st.integers(1, 90),
    chunk=st.integers(1, 40),
    kv_head=st.sampled_from([1, 2, N_HEAD]),
    documents=st.sampled_from([0.0, 0.05, 0.3]),
)
def test_fast_paths_equal_the_reference(pair, seed, time, queries, chunk, kv_head, documents):
    """Forward and backward, packed and grouped, of all queries or the last ones."""
    scheme = build(with_far(*pair))
    queries = min(queries, time)
    k_at = Positions.from_marks(random_marks(2, time, seed=seed, documents=documents))
    q_at = k_at if queries == time else k_at[slice(time - queries, time)]
    how = {"q_at": q_at, "k_at": k_at, "dtype": torch.float64}
    torch.manual_seed(seed)
    q, k, v = (
        torch.randn(2, h, n, HEAD_WIDTH, dtype=torch.float64, requires_grad=True)
        for h, n in ((N_HEAD, queries), (kv_head, time), (kv_head, time))
    )
    weight = torch.randn(2, N_HEAD, queries, HEAD_WIDTH, dtype=torch.float64)

    def run(attend):
        out = attend(q, k, v)
        return out, *torch.autograd.grad((out * weight).sum(), (q, k, v))

    expected = run(pass_attention(scheme, **how, path="eager"))
    for path in ("auto", "chunked"):
        attend = pass_attention(scheme, **how, path=path)
        given_ = attend.keywords
        if attend.func is chunked_passes:
            runs = [lambda *x, g=given_: chunked_passes(*x, **g, chunk=chunk)]
        elif attend.func is fused_passes:
            blocks = blocks_of(given_["views"], chunk=chunk)
            runs = [attend, lambda *x, g={**given_, "blocks": blocks}: fused_passes(*x, **g)]
        else:
            runs = [attend] if path == "auto" else []
        for each in runs:
            for ours, theirs in zip(run(each), expected, strict=True):
                torch.testing.assert_close(ours, theirs, atol=1e-9, rtol=1e-9)


class Scored(Encoding):
    """A learned score of each key, as a user may write it."""

    def __init__(self):
        super().__init__()
        self.scores = torch.nn.Parameter(torch.randn(N_HEAD, 40, dtype=torch.float64))

    def bias(self, q_ids, k_ids):
        q_row, k_row = (self.scores[:, ids].transpose(0, 1) for ids in (q_ids, k_ids))
        return RowBias(q_row=q_row, k_row=k_row)


def test_a_learned_bias_gets_its_gradient_on_every_path():
    scheme = Flat(encoding=Scored(), far=Window(window=5))
    at = Positions.from_marks(random_marks(2, 40, seed=0))
    q, k, v = torch.randn(3, 2, N_HEAD, 40, HEAD_WIDTH, dtype=torch.float64)
    found = []
    for path in ("eager", "auto", "chunked"):
        attend = pass_attention(scheme, q_at=at, k_at=at, dtype=torch.float64, path=path)
        found += torch.autograd.grad(attend(q, k, v).square().sum(), scheme.encoding.scores)
    assert found[0].abs().max() > 0
    for each in found[1:]:
        torch.testing.assert_close(each, found[0])


@pytest.fixture
def _alone():
    """Let nothing that flex traces meet what other tests have it trace."""
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.mark.usefixtures("_alone")
@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize(
    ("scheme", "time", "documents"),
    [("flat_rope", 1, 0.0), ("flat_rope", 300, 0.02), ("bilevel_learned_alibi_x96", 300, 0.0)],
)
@pytest.mark.parametrize("method", ["window", "separators", "separators_segments", "blockwise"])
@torch.no_grad()
def test_masks_in_one_kernel_equal_the_reference(scheme, method, time, documents):
    scheme = build(with_far(scheme, method))
    at = Positions.from_marks(random_marks(2, time, seed=time, documents=documents))
    torch.manual_seed(time)
    qkv = torch.randn(3, 2, N_HEAD, time, HEAD_WIDTH)
    flex, eager = (
        pass_attention(scheme, q_at=at, k_at=at, dtype=torch.float32, path=path)(*qkv)
        for path in ("flex", "eager")
    )
    torch.testing.assert_close(flex, eager, atol=2e-5, rtol=0)


def decoder(scheme, method, **how):
    return small_decoder(scheme, encoding=with_far(scheme, method), **how)


@pairs
def test_documents_are_read_as_if_alone_packed_and_cached(scheme, method):
    model = decoder(scheme, method, n_kv_head=2)
    packed_equals_alone(model, time=60, seed=8)
    cached_equals_uncached(model, [20, 1, 1, 12, 11], capacity=7)
    padding_is_not_read(model, [20, 24, 1])


WIDE = {"window": 40, "distance": 40, "chunk": 40, "length": 50, "block": 20, "log_n": 40}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("scheme", "dtype"),
    [("flat_rope", torch.float32), ("bilevel_learned_rope", torch.bfloat16)],
    ids=str,
)
@torch.no_grad()
def test_within_the_window_no_bit_changes(scheme, method, dtype):
    plain = small_decoder(scheme).to(dtype)
    wide = {key: WIDE.get(key, value) for key, value in METHODS[method].items()}
    wide |= {"original_length": 40} if method == "log_n" else {}
    ours = small_decoder(scheme, encoding={**SCHEMES[scheme], "far": wide}).to(dtype)
    tokens, at = random_batch(2, 40, seed=9)
    assert torch.equal(ours(tokens, at), plain(tokens, at))


@torch.no_grad()
def test_one_link_of_a_chain_may_have_a_method():
    links = target("Flat", encoding=BARE["alibi"]), with_far("bilevel_learned_rope", "rerope")
    batch = random_batch(2, 50, seed=2)
    outs = (
        small_decoder("chain", encoding=chain(*links), attention=path).double()(*batch)
        for path in ("auto", "eager")
    )
    close(*outs)


@pytest.mark.parametrize("scheme", ["flat_rope", "bilevel_learned_rope", "flat_nope", "chain"])
def test_windows_follow_from_what_was_seen(scheme):
    seen = {"counted": 10**6, "maximum": 147, "p99": 90, "p99.9": 119}
    notes = {"row_length": 1024, "positions": {"token": dict(seen), "segment": seen}}
    config = small_decoder(scheme).config
    done = extend_config(config, far("Window"), notes=notes)
    counts = 1024 if scheme.startswith("flat") else 120
    model = Decoder(done.config)
    assert model.scheme.far == Window(window=counts)
    assert done.reports[0].as_notes()["original"]["length"] == counts
    tokens = extend_config(config, far("Window"), notes=notes, unit="tokens")
    assert Decoder(tokens.config).scheme.far.window == 1024
    assert tokens.reports[0].unit == "tokens"
    with pytest.raises(ValueError, match=r"already has a stretch, bipe\.extension\.Window"):
        extend_config(done.config, far("ReRoPE"), notes=notes)
    if scheme == "flat_nope":
        with pytest.raises(ValueError, match=r"NoPE.* cannot be stretched: it has no rotat"):
            extend_config(config, far("ReRoPE"), notes=notes)
        return
    (report,) = extend_config(config, far("SelfExtend", group=8), notes=notes, unit=40).reports
    assert report.strategy["window"] == 10 and report.length == 30 * 8 + 10
    assert "reads up to        250" in str(report)
    given_ = extend_config(config, far("ReRoPE", window=7), notes={}).reports[0]
    assert given_.original is None and given_.strategy["window"] == 7
