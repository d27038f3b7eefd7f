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
from bipe.encodings.rope import inverse_frequencies
from bipe.extension import YaRN
from bipe.generation import Session
from bipe.positions import Lengths
from segmenters import Newline, TokenMarker
from tests.bipe.conftest import (
    BARE,
    HEAD_WIDTH,
    cached_logits,
    close,
    random_batch,
    row_of,
    small_decoder,
    target,
)
from tests.bipe.conftest import stretch as described

PAIRS, ORIGINAL = HEAD_WIDTH // 2, 8
OF_LENGTH = ("DynamicNTK", "NTKByParts", "YaRN", "DynamicYaRN", "Llama3", "LongRoPE")
NAMES = ("Linear", "NTKAware", "NTKMixed", *OF_LENGTH)
DYNAMIC = ("DynamicNTK", "DynamicYaRN", "LongRoPE")


def strategy(name, *, pairs=PAIRS, factor=4.0, original_length=ORIGINAL, ones=False):
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
levels = pytest.mark.parametrize("bilevel", [False, True], ids=["flat", "bilevel"])


@names
@settings(max_examples=10)
@given(pairs=st.integers(1, 64), theta=st.floats(10.0, 1e7), original=st.integers(2, 9000))
def test_a_factor_of_one_changes_no_bit(name, pairs, theta, original):
    description = strategy(name, pairs=pairs, factor=1.0, original_length=original, ones=True)
    for length in (None, 1, original, original + 1, 40 * original):
        before, after, factor = frequencies(description, pairs=pairs, theta=theta, length=length)
        assert torch.equal(before, after)
        assert factor == 1.0


def test_yarn_interpolates_all_but_the_first_pair_where_none_ever_turned():
    before = inverse_frequencies(width=64, theta=10000.0)
    kept = YaRN(factor=4.0, original_length=3).frequencies(before, theta=10000.0)[0] / before
    assert kept[0] == 1 and torch.allclose(kept[1:], torch.tensor(0.25, dtype=torch.float64))


@names
@pytest.mark.parametrize(
    ("bilevel", "division"), [(False, [20] + [1] * 25), (True, [16, 16, 13])], ids=str
)
@torch.no_grad()
def test_cached_equals_uncached(name, bilevel, division):
    options = {"DynamicYaRN": {"factor": 16.0}, "LongRoPE": {"original_length": 50}}
    model = stretched_decoder(name, bilevel=bilevel, **options.get(name, {})).double()
    tokens, marks = row_of(2, 45, seed=3)
    at = Positions.from_marks(marks, packed=False)
    natural = Lengths(**{k: getattr(at, k).amax(-1) + 1 for k in ("token", "inter", "intra")})
    assert (natural.inter != natural.inter[0]).any(), "rows stretch by themselves"
    cache = Cache(batch=2, grows=True, capacity=7, lengths=natural)
    ours = cached_logits(model, tokens, marks, division, cache)
    close(ours, model.logits(tokens, at))
    # A longer request has other factors, in and out of the cache, in any order of the rows.
    longer = Lengths(token=natural.token + 40, inter=natural.inter + 50, intra=natural.intra)
    cache = Cache(batch=2, grows=True, lengths=longer)
    first = cached_logits(model, tokens[:, :20], marks[:, :20], [20], cache)
    cache.select(torch.tensor([1, 0]))
    rest = cached_logits(model, tokens.flip(0)[:, 20:], marks.flip(0)[:, 20:], [1, 24], cache)
    full = model.logits(tokens, dataclasses.replace(at, lengths=longer))
    close(torch.cat([first, rest.flip(0)], 1), full)
    assert torch.allclose(full, model.logits(tokens, at)) == (name not in DYNAMIC)


@pytest.mark.parametrize("name", DYNAMIC)
def test_a_cache_without_a_length_to_come_is_refused(name):
    model = stretched_decoder(name, bilevel=True)
    tokens, at = random_batch(1, 9, seed=1, documents=0.0)
    with pytest.raises(ValueError, match=r"dynamic stretch.*Cache\(lengths=Lengths"):
        model(tokens, at, cache=Cache(batch=1, capacity=9))


@pytest.mark.parametrize("name", ["YaRN", *DYNAMIC])
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
        close(logits[row, pad:], whole)
