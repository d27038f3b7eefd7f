"""Cached forward passes equal uncached ones, for every encoding, however the row is divided."""

import pytest
import torch

from bipe.cache import Cache
from tests.bipe.conftest import (
    LEVELS,
    SCHEMES,
    positions_of,
    random_batch,
    random_marks,
    small_decoder,
)

TIME = 45
PROMPT_FIRST = [20, 1, 1, 1, 9, 13]  # tokens of each call; another law has steps first


def cached_logits(model, tokens, marks, division, cache, *, padding=None):
    pieces, start = [], 0
    for size in division:
        part = slice(start, start + size)
        hidden = None if padding is None else padding[:, part]
        at = cache.next(marks[:, part], padding=hidden, levels=LEVELS)
        pieces.append(model.logits(tokens[:, part], at, cache=cache))
        start += size
    return torch.cat(pieces, 1)


@pytest.mark.parametrize("scheme", SCHEMES)
@torch.no_grad()
def test_cached_equals_uncached(scheme):
    model = small_decoder(scheme).double()
    tokens, _ = random_batch(2, TIME, seed=3, documents=0.0)
    marks = random_marks(2, TIME, seed=3, documents=0.0)
    full = model.logits(tokens, positions_of(marks, packed=False))
    cache = Cache(batch=2, grows=True, capacity=7)
    ours = cached_logits(model, tokens, marks, PROMPT_FIRST, cache)
    torch.testing.assert_close(ours, full, atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("scheme", SCHEMES)
@torch.no_grad()
def test_logits_in_float32_are_the_exact_ones_cached_or_not(scheme):
    model, time = small_decoder(scheme), 120
    # CoPE adds up gates along a row, TENER's scores are not divided by the root of the width.
    limit = 2e-5 if scheme.endswith(("cope", "tener")) else 5e-6
    tokens, _ = random_batch(2, time, seed=5, documents=0.0)
    marks = random_marks(2, time, seed=5, documents=0.0)
    at = positions_of(marks, packed=False)
    exact = small_decoder(scheme, attention="eager").double().logits(tokens, at)
    assert relative_error(model.logits(tokens, at), exact) <= limit
    division = [1] * 6 + [50, 10] + [1] * 4 + [50]
    found = cached_logits(model, tokens, marks, division, Cache(batch=2, grows=True))
    assert relative_error(found, exact) <= limit


def relative_error(found, exact):
    return float((found - exact).abs().max() / exact.abs().max())


@pytest.mark.parametrize(
    "scheme", ["flat_rope", "bilevel_learned_alibi_x96", "flat_learned", "multilevel"]
)
@torch.no_grad()
def test_left_padding_changes_nothing(scheme):
    model = small_decoder(scheme).double()
    tokens, _ = random_batch(2, TIME, seed=4, documents=0.0)
    marks = random_marks(2, TIME, seed=4, documents=0.0)
    padding = torch.zeros(2, TIME, dtype=torch.bool)
    padding[1, :11] = True
    full = cached_logits(
        model, tokens, marks, [20] + [1] * 25, Cache(batch=2, capacity=TIME), padding=padding
    )
    alone = model.logits(tokens[1:, 11:], positions_of(marks[1:, 11:]))
    torch.testing.assert_close(full[1:, 11:], alone, atol=1e-9, rtol=1e-9)
    first = model.logits(tokens[:1], positions_of(marks[:1]))
    torch.testing.assert_close(full[:1], first, atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize(
    "scheme", ["bilevel_learned_rope", "bilevel_learned_alibi_x96", "multilevel"]
)
@torch.no_grad()
def test_documents_in_a_cached_row_do_not_see_each_other(scheme):
    model = small_decoder(scheme).double()
    tokens, _ = random_batch(1, TIME, seed=5, documents=0.0)
    marks = random_marks(1, TIME, seed=5, documents=0.0)
    marks[:, 25] = 3
    full = model.logits(tokens, positions_of(marks))
    cache, pieces = Cache(batch=1, capacity=TIME), []
    for start, stop in ((0, 20), (20, 30), (30, 31), (31, TIME)):
        at = positions_of(marks[:, start:stop], carry=cache.carry())
        pieces.append(model.logits(tokens[:, start:stop], at, cache=cache))
    torch.testing.assert_close(torch.cat(pieces, 1), full, atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("scheme", ["bilevel_learned_rope", "multilevel"])
@torch.no_grad()
def test_rewinding_restores_keys_and_carry(scheme):
    model = small_decoder(scheme).double()
    tokens, _ = random_batch(2, TIME, seed=6, documents=0.0)
    marks = random_marks(2, TIME, seed=6, documents=0.0)
    cache = Cache(batch=2, grows=True, capacity=4)
    cached_logits(model, tokens, marks, [30], cache)
    wrong, wrong_marks = tokens.flip(1)[:, :9], marks.flip(1)[:, :9]
    cached_logits(model, wrong, wrong_marks, [1] * 9, cache)
    cache.rewind(30)
    rest = cached_logits(model, tokens[:, 30:], marks[:, 30:], [5, 10], cache)
    full = model.logits(tokens, positions_of(marks, packed=False))
    torch.testing.assert_close(rest, full[:, 30:], atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("scheme", ["bilevel_learned_alibi_x96", "multilevel"])
@torch.no_grad()
def test_rows_may_be_selected(scheme):
    model = small_decoder(scheme).double()
    tokens, _ = random_batch(3, TIME, seed=7, documents=0.0)
    marks = random_marks(3, TIME, seed=7, documents=0.0)
    cache = Cache(batch=3, capacity=TIME)
    cached_logits(model, tokens[:, :30], marks[:, :30], [30], cache)
    order = torch.tensor([2, 0, 2])
    cache.select(order)
    rest = cached_logits(model, tokens[order, 30:], marks[order, 30:], [1, 14], cache)
    full = model.logits(tokens[order], positions_of(marks[order]))
    torch.testing.assert_close(rest, full[:, 30:], atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("order", [[2, 0, 2], [1, 1, 0], [1, 2]])
@torch.no_grad()
def test_a_shared_prompt_need_not_be_moved(order):
    """Rows that differ behind 20 tokens alone; both ways give the whole forward pass."""
    model = small_decoder("bilevel_learned_rope").double()
    tokens, _ = random_batch(3, TIME, seed=8, documents=0.0)
    marks = random_marks(3, TIME, seed=8, documents=0.0)
    tokens[:, :20], marks[:, :20] = tokens[0, :20], marks[0, :20]
    full = model.logits(tokens[order], positions_of(marks[order]))
    for shared in (0, 20):
        cache = Cache(batch=3, capacity=TIME)
        cached_logits(model, tokens[:, :30], marks[:, :30], [30], cache)
        cache.select(torch.tensor(order), shared=shared)
        rest = cached_logits(model, tokens[order, 30:], marks[order, 30:], [1, 14], cache)
        torch.testing.assert_close(rest, full[:, 30:], atol=1e-9, rtol=1e-9)


def test_a_full_cache_says_so_and_one_without_a_size_too():
    cache = Cache(batch=1, capacity=4)
    at = positions_of(torch.zeros(1, 5, dtype=torch.uint8))
    with pytest.raises(ValueError, match="has room for 4 tokens per row, 5 are needed"):
        cache.extend(at)
    with pytest.raises(ValueError, match="capacity must be given"):
        Cache(batch=1)
    with pytest.raises(ValueError, match="length must be from 0 to 0"):
        cache.rewind(1)
    with pytest.raises(
        ValueError, match="batch must be 1, as in earlier calls with this cache, was: 2"
    ):
        cache.extend(positions_of(torch.zeros(2, 5, dtype=torch.uint8)))
