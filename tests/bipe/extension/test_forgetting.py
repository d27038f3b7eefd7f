"""Caches that drop the keys which no later token sees: what is written stays the same."""

import pytest
import torch

import bipe.cache
from bipe import Cache, Positions
from bipe.generation import Beams, Session, beam_search, generate
from tests.bipe.conftest import (
    BARE,
    SCHEMES,
    cached_equals_uncached,
    cached_logits,
    close,
    flat,
    layers,
    padding_is_not_read,
    random_batch,
    row_of,
    small_decoder,
)
from tests.bipe.extension.test_distances import METHODS
from tests.bipe.generation.test_generate import LateMarker
from tests.bipe.test_encodings import TIME

FORGETFUL = [name for name in METHODS if name.startswith(("window", "separators", "blockwise"))]
OF = ("flat_rope", "flat_alibi", "flat_nope", "bilevel_learned_rope", "bilevel_learned_alibi_x96")
PAIRS = [(OF[n % len(OF)], name) for n, name in enumerate(FORGETFUL * 2)]


@pytest.fixture(autouse=True)
def _little_room(monkeypatch):
    """Drop often, in short texts."""
    monkeypatch.setattr(bipe.cache, "_FIRST_CAPACITY", 4)
    monkeypatch.setattr(bipe.cache, "REWINDABLE", 3)


def decoder(scheme, method):
    return small_decoder(scheme, encoding={**SCHEMES[scheme], "far": METHODS[method]}).double()


def held(cache):
    return [len(each) for each in cache._held.values()]


@pytest.mark.parametrize(("scheme", "method"), PAIRS)
def test_cached_equals_uncached_in_rows_of_padding_and_documents_too(scheme, method):
    for division in ([1] * 30, [7, 1, 1, 12, 1, 13, 1, 9]):
        cache = cached_equals_uncached(decoder(scheme, method), division)
        assert len(cache) == sum(division)
        assert max(held(cache)) < len(cache) or method == "blockwise"
    padding_is_not_read(decoder(scheme, method), [12, *[1] * 5, 3, *[1] * 18], document=29)


@torch.no_grad()
def test_each_scheme_of_some_layers_holds_its_own_keys():
    methods = {"narrow": METHODS["separators"], "wide": METHODS["window_tokens"], "all": None}
    made = {name: flat(BARE["rope"], far=method) for name, method in methods.items()}
    model = small_decoder("flat_rope", encoding=layers(**made), n_layer=4)
    cache = cached_equals_uncached(model, [9] + [1] * 21)
    assert len(held(cache)) == 2 and set(cache._layers) == {2}


@pytest.mark.parametrize("method", ["separators", "window", "blockwise"])
@torch.no_grad()
def test_a_cache_is_rewound_as_far_as_it_can_be(method):
    model = decoder("flat_rope", method)
    tokens, marks = row_of(2, TIME, seed=6)
    full = model.logits(tokens, Positions.from_marks(marks, packed=False))
    cache = Cache(batch=2, grows=True)
    cached_logits(model, tokens, marks, [1] * 30, cache)
    wrong, wrong_marks = tokens.flip(1)[:, :9], marks.flip(1)[:, :9]
    cached_logits(model, wrong, wrong_marks, [9], cache)  # drops keys as it begins, if at all
    cache.rewind(30)
    cached_logits(model, tokens[:, 30:32], marks[:, 30:32], [1, 1], cache)
    assert cache.oldest > 1
    with pytest.raises(ValueError, match=f"length must be 0 or at least {cache.oldest} tokens"):
        cache.rewind(1)
    cache.rewind(cache.oldest)
    start = len(cache)
    rest = cached_logits(model, tokens[:, start:], marks[:, start:], [2, TIME - start - 2], cache)
    close(rest, full[:, start:])
    cache.rewind(0)
    assert not held(cache)
    close(cached_logits(model, tokens, marks, [30, 15], cache), full)


def late():
    return LateMarker(3, every=5)


@pytest.mark.parametrize("method", ["separators", "separators_segments", "window"])
def test_sessions_read_again_what_was_dropped(method):
    model = decoder("flat_alibi", method)
    prompt = random_batch(1, 20, seed=8)[0][0].tolist()
    session = Session(model, batch=1, marker=late())
    session.feed([prompt])
    before = session.state()
    for token in prompt * 2:
        session.feed([[token]])
    assert session.cache.oldest > before.length
    session.rewind(before)
    assert len(session) == 20
    ours = session.feed([prompt])[:, -1]
    whole = Session(model, batch=1, marker=late()).feed([prompt * 2])[:, -1]
    close(ours, whole)


@pytest.mark.parametrize("method", ["separators", "blockwise"])
def test_generation_and_beams_write_the_same(method, monkeypatch):
    model = decoder("bilevel_learned_rope", method)
    prompt = random_batch(1, 30, seed=9)[0][0].tolist()

    def written():
        (row,) = generate(model, [prompt], max_new=25, marker=late())
        beams = beam_search(model, prompt, max_new=12, search=Beams(beams=3), marker=late())
        return row.tokens, [each.tokens for each in beams]

    dropping = written()
    monkeypatch.setattr(bipe.cache, "_FIRST_CAPACITY", 1000)
    assert written() == dropping


@torch.no_grad()
def test_memory_follows_what_is_seen_and_not_the_text():
    model = decoder("flat_rope", "separators")  # a window of 3 and 2 sinks
    tokens, _ = row_of(1, 120, seed=2)
    marks = torch.zeros_like(tokens, dtype=torch.uint8)  # one segment: no separators
    cache, sizes = Cache(batch=1, grows=True), set()
    for at in range(120):
        cached_logits(model, tokens[:, at : at + 1], marks[:, at : at + 1], [1], cache)
        (each,) = cache._held.values()
        sizes |= {keys.shape[2] for keys, _ in each._layers.values()}
    assert max(sizes) <= 1.5 * (3 + 2 + bipe.cache.REWINDABLE + 1) and not cache._layers


@torch.no_grad()
def test_a_cache_that_holds_nothing_after_a_rewind_reads_on():
    alone = {"_target_": "bipe.extension.Window", "window": 1}
    model = small_decoder("flat_rope", encoding=flat(BARE["rope"], far=alone)).double()
    tokens, marks = row_of(2, TIME, seed=6)
    cache = Cache(batch=2, grows=True)
    cached_logits(model, tokens, marks, [1] * 30, cache)
    cache.rewind(cache.oldest)
    start = len(cache)
    assert held(cache) == [0]
    rest = cached_logits(model, tokens[:, start:], marks[:, start:], [TIME - start], cache)
    close(rest, model.logits(tokens, Positions.from_marks(marks, packed=False))[:, start:])
