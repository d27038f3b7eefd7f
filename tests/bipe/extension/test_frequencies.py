"""Laws of every strategy of context extension, alone and inside a model."""

import dataclasses
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bipe import Positions
from bipe.build import build
from bipe.cache import Cache
from bipe.encodings import RoPE
from bipe.encodings.rope import inverse_frequencies
from bipe.extension import DynamicNTK, DynamicYaRN, Linear, LongRoPE, YaRN
from bipe.extension.frequencies import turning_pair
from bipe.generation import Session
from bipe.positions import Lengths
from segmenters import Newline, TokenMarker
from tests.bipe.conftest import BARE, HEAD_WIDTH, random_batch, random_marks, small_decoder, target
from tests.bipe.conftest import stretch as described
from tests.bipe.test_cache import cached_logits

PAIRS, ORIGINAL = HEAD_WIDTH // 2, 8
OF_LENGTH = ("DynamicNTK", "NTKByParts", "YaRN", "DynamicYaRN", "Llama3", "LongRoPE")
NAMES = ("Linear", "NTKAware", "NTKMixed", *OF_LENGTH)
DYNAMIC = ("DynamicNTK", "DynamicYaRN", "LongRoPE")


def strategy(name, *, pairs=PAIRS, factor=4.0, original_length=ORIGINAL, ones=False):
    """The description of a strategy of any name."""
    made = described(name, factor=factor)
    if name in OF_LENGTH:
        made["original_length"] = original_length
    if name == "LongRoPE":
        for which, most in (("short_factor", 1.3), ("long_factor", factor)):
            rise = torch.linspace(1.0, 1.0 if ones else most, pairs)
            made[which] = rise.tolist()
    return made


def frequencies(description, *, pairs=PAIRS, theta=10000.0, length=None):
    before = inverse_frequencies(width=2 * pairs, theta=theta)
    length = None if length is None else torch.tensor(length)
    after, factor = build(description).frequencies(before, theta=theta, length=length)
    return before, after, float(factor)


def stretched_decoder(name, *, bilevel, seed=0, **options):
    rope = {**BARE["rope"], "stretch": strategy(name, **options)}
    scheme = target("Bilevel", intra=BARE["learned"], inter=rope) if bilevel else rope
    return small_decoder("flat_nope", seed=seed, encoding=scheme)


names = pytest.mark.parametrize("name", NAMES)
dynamic = pytest.mark.parametrize("name", DYNAMIC)
levels = pytest.mark.parametrize("bilevel", [False, True], ids=["flat", "bilevel"])


@names
@settings(max_examples=20)
@given(pairs=st.integers(1, 64), theta=st.floats(10.0, 1e7), original=st.integers(2, 9000))
def test_a_factor_of_one_changes_no_bit(name, pairs, theta, original):
    description = strategy(name, pairs=pairs, factor=1.0, original_length=original, ones=True)
    for length in (None, 1, original, original + 1, 40 * original):
        before, after, factor = frequencies(description, pairs=pairs, theta=theta, length=length)
        assert torch.equal(before, after)
        assert factor == 1.0


@names
@settings(max_examples=20)
@given(
    pairs=st.integers(2, 64),
    factor=st.floats(1.0, 64.0),
    theta=st.floats(100.0, 1e7),
    original=st.integers(2, 9000),
)
def test_pairs_are_slowed_the_more_the_slower_they_are(name, pairs, factor, theta, original):
    description = strategy(name, pairs=pairs, factor=factor, original_length=original)
    for length in (original, int(factor * original)):
        before, after, sharper = frequencies(description, pairs=pairs, theta=theta, length=length)
        kept = after / before
        assert after.shape == before.shape and after.dtype == torch.float64
        assert (after[1:] < after[:-1]).all(), "fastest first, as before"
        # The blend of NTK-by-parts dips where its ramps meet; LongRoPE is what its lists are.
        if name not in ("NTKByParts", "LongRoPE"):
            assert (kept.diff() <= 1e-6).all()
        if name not in DYNAMIC:
            assert (kept * factor >= 1 - 1e-6).all()
        assert (kept <= 1 + 1e-12).all()
        assert 1 <= sharper < 1.5 if "YaRN" in name else sharper >= 1


def test_each_strategy_by_its_closed_form():
    pairs, theta, s = 16, 10000.0, 4.0
    p = torch.arange(pairs) / (pairs - 1)
    before, linear, _ = frequencies(strategy("Linear", factor=s), pairs=pairs)
    assert torch.equal(linear, before / s)
    larger = inverse_frequencies(width=2 * pairs, theta=theta * s ** (32 / 30))
    _, ntk, _ = frequencies(strategy("NTKAware", factor=s), pairs=pairs)
    torch.testing.assert_close(ntk, larger, rtol=1e-12, atol=0)
    _, grown, _ = frequencies(strategy("DynamicNTK", factor=s), pairs=pairs, length=3 * ORIGINAL)
    torch.testing.assert_close(grown, before * (s * 3 - (s - 1)) ** -p.double(), rtol=1e-6, atol=0)
    _, mixed, _ = frequencies(strategy("NTKMixed", factor=s), pairs=pairs)
    assert mixed[-1] == pytest.approx(float(before[-1] / s), rel=1e-12)
    fixed = YaRN(factor=s, original_length=ORIGINAL).frequencies(before, theta=theta)
    at_length = torch.tensor([[int(s) * ORIGINAL]])
    moving = DynamicYaRN(original_length=ORIGINAL).frequencies(
        before, theta=theta, length=at_length
    )
    torch.testing.assert_close(moving[0][0, 0], fixed[0], rtol=1e-12, atol=0)
    assert float(moving[1]) == pytest.approx(fixed[1]) == pytest.approx(0.1 * math.log(s) + 1)


@pytest.mark.parametrize("truncate", [True, False])
@pytest.mark.parametrize("original", [75, 512, 4096])
def test_yarn_keeps_fast_pairs_and_interpolates_slow_ones(original, truncate):
    yarn = YaRN(factor=8.0, original_length=original, truncate=truncate)
    before = inverse_frequencies(width=128, theta=10000.0)
    kept = yarn.frequencies(before, theta=10000.0)[0] / before
    turns = original * before / (2 * math.pi)
    for times in (1.0, 32.0):
        at = turning_pair(times, width=128, theta=10000.0, original_length=original)
        assert turns[max(0, math.floor(at))] >= times or at < 0
        assert turns[math.ceil(at) if at > 0 else 0] <= times
    margin = 1.5  # truncation widens the ramp by up to a pair on each side
    assert torch.allclose(kept[turns > 32 * margin], torch.ones(1, dtype=torch.float64))
    assert torch.allclose(kept[turns < 1 / margin], torch.full((1,), 1 / 8, dtype=torch.float64))
    assert (kept[turns < 1 / margin]).numel() > 0


def test_yarn_interpolates_all_but_the_first_pair_where_none_ever_turned():
    before = inverse_frequencies(width=64, theta=10000.0)
    kept = YaRN(factor=4.0, original_length=3).frequencies(before, theta=10000.0)[0] / before
    assert kept[0] == 1 and torch.allclose(kept[1:], torch.tensor(0.25, dtype=torch.float64))


@names
@levels
@torch.no_grad()
def test_packed_equals_alone(name, bilevel):
    model = stretched_decoder(name, bilevel=bilevel).double()
    tokens, at = random_batch(3, 60, seed=1)
    packed = model(tokens, at)
    for row in range(3):
        for document in at.document[row].unique():
            here = at.document[row] == document
            fields = {k: getattr(at, k)[row, here][None] for k in ("token", "inter", "intra")}
            alone = Positions(document=torch.zeros(1, int(here.sum()), dtype=torch.long), **fields)
            for at_ in (alone, dataclasses.replace(alone, packed=False)):
                out = model(tokens[row, here][None], at_)[0]
                torch.testing.assert_close(packed[row, here], out, atol=1e-10, rtol=0)


@names
@levels
@pytest.mark.parametrize("division", [[20] + [1] * 25, [16, 16, 13]], ids=len)
@torch.no_grad()
def test_cached_equals_uncached(name, bilevel, division):
    options = {"DynamicYaRN": {"factor": 16.0}, "LongRoPE": {"original_length": 50}}
    model = stretched_decoder(name, bilevel=bilevel, **options.get(name, {})).double()
    tokens, _ = random_batch(2, 45, seed=3, documents=0.0)
    marks = random_marks(2, 45, seed=3, documents=0.0)
    at = Positions.from_marks(marks, packed=False)
    natural = Lengths(**{k: getattr(at, k).amax(-1) + 1 for k in ("token", "inter", "intra")})
    assert (natural.inter != natural.inter[0]).any(), "rows stretch by themselves"
    cache = Cache(batch=2, grows=True, capacity=7, lengths=natural)
    ours = cached_logits(model, tokens, marks, division, cache)
    torch.testing.assert_close(ours, model.logits(tokens, at), atol=1e-9, rtol=1e-9)
    # A longer request has other factors, in and out of the cache, in any order of the rows.
    longer = Lengths(token=natural.token + 40, inter=natural.inter + 50, intra=natural.intra)
    cache = Cache(batch=2, grows=True, lengths=longer)
    first = cached_logits(model, tokens[:, :20], marks[:, :20], [20], cache)
    cache.select(torch.tensor([1, 0]))
    rest = cached_logits(model, tokens.flip(0)[:, 20:], marks.flip(0)[:, 20:], [1, 24], cache)
    full = model.logits(tokens, dataclasses.replace(at, lengths=longer))
    torch.testing.assert_close(torch.cat([first, rest.flip(0)], 1), full, atol=1e-9, rtol=1e-9)
    assert torch.allclose(full, model.logits(tokens, at)) == (name not in DYNAMIC)


@dynamic
@levels
@torch.no_grad()
def test_a_cache_without_a_length_to_come_is_refused(name, bilevel):
    model = stretched_decoder(name, bilevel=bilevel)
    tokens, at = random_batch(1, 9, seed=1, documents=0.0)
    with pytest.raises(ValueError, match=r"dynamic stretch.*Cache\(lengths=Lengths"):
        model(tokens, at, cache=Cache(batch=1, capacity=9))


@names
@levels
@torch.no_grad()
def test_a_session_fixes_the_factor_of_a_request(name, bilevel):
    """Rows of different lengths, padded, in chunks, then token by token."""
    model = stretched_decoder(name, bilevel=bilevel).double()
    pieces = [b"a", b"\n", b"b", b" "]
    rows = [[0, 1, 2, 0, 3, 1, 2, 2, 1, 0, 0, 2], [2, 0, 1, 3, 0, 2, 1]]
    more = [[0, 1, 2, 2, 0, 1], [2, 2, 1, 0, 0, 0]]
    marker = TokenMarker(segmenter=Newline(), pieces=pieces)
    session = Session(model, batch=2, marker=marker, padding=[0, 5], chunk=5, room=6)
    found = [session.feed([rows[0], [0] * 5 + rows[1]])]
    found += [session.feed([[a], [b]]) for a, b in zip(*more, strict=True)]
    logits = torch.cat(found, 1)
    for row, (prompt, new, pad) in enumerate(zip(rows, more, (0, 5), strict=True)):
        tokens = torch.tensor([prompt + new])
        marks = torch.zeros_like(tokens, dtype=torch.uint8)
        marks[:, 1:] = (tokens[:, :-1] == 1).to(torch.uint8) << 1
        segments = 1 + int((marks[0, : len(prompt)] > 0).sum())
        lengths = Lengths(
            token=torch.tensor([len(prompt) + 6]),
            inter=torch.tensor([math.ceil(segments * (len(prompt) + 6) / len(prompt))]),
            intra=torch.tensor([1]),
        )
        at = dataclasses.replace(Positions.from_marks(marks), lengths=lengths)
        whole = model.logits(tokens, at)[0]
        torch.testing.assert_close(logits[row, pad:], whole, atol=1e-9, rtol=1e-9)


@names
@levels
@torch.no_grad()
def test_bfloat16_in_gives_bfloat16_out_with_exact_angles(name, bilevel):
    model = stretched_decoder(name, bilevel=bilevel)
    tokens, at = random_batch(2, 40, seed=6)
    expected = model.double()(tokens, at)
    out = model.to(torch.bfloat16)(tokens, at)
    assert out.dtype == torch.bfloat16
    assert (out.double() - expected).abs().max() < 0.4
    rope = RoPE(head_width=HEAD_WIDTH, stretch=build(strategy(name)))
    far = torch.tensor([[70_001]])
    before = rope.rotation(far)
    after = rope.half().rotation(far)
    assert torch.equal(before.cos, after.cos) and torch.equal(before.sin, after.sin)


def test_rope_without_a_stretch_or_with_one_of_factor_one_is_the_same_to_the_bit():
    ids = torch.arange(300)[None]
    plain = RoPE(head_width=64).rotation(ids)
    for name in NAMES:
        description = strategy(name, pairs=32, factor=1.0, ones=True)
        ours = RoPE(head_width=64, stretch=build(description)).rotation(ids)
        assert torch.equal(ours.cos, plain.cos) and torch.equal(ours.sin, plain.sin), name


def test_the_attention_factor_is_on_cosines_and_sines():
    ids = torch.arange(40)[None]
    yarn = RoPE(head_width=16, stretch=YaRN(factor=8.0, original_length=9)).rotation(ids)
    norm = (yarn.cos**2 + yarn.sin**2).sqrt()
    expected = torch.full_like(norm, 0.1 * math.log(8) + 1)
    torch.testing.assert_close(norm, expected, rtol=1e-12, atol=0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Linear(factor=0.5), "factor must be at least 1, was: 0.5"),
        (lambda: Linear(factor=float("nan")), "factor must be at least 1, was: nan"),
        (lambda: YaRN(factor=2.0, original_length=0), "original_length must be at least 1, was: 0"),
        (
            lambda: YaRN(factor=2.0, original_length=9, beta_slow=40.0),
            r"beta_slow must be above 0 and at most beta_fast \(32.0\), was: 40.0",
        ),
        (
            lambda: RoPE(
                head_width=8,
                stretch=LongRoPE(
                    factor=2.0, original_length=9, short_factor=[1.0], long_factor=[1.0] * 4
                ),
            ),
            "short_factor must have one number per rotary pair, 4, was: 1",
        ),
        (lambda: DynamicNTK(factor=2.0, original_length=-1), "original_length must be at least 1"),
    ],
)
def test_bad_parameters_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()
