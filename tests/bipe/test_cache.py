"""Cached forward passes equal uncached ones, for every encoding, however the row is divided."""

import pytest
import torch

from bipe.cache import Cache
from tests.bipe.conftest import (
    LAWFUL,
    cached_logits,
    close,
    padding_is_not_read,
    positions_of,
    row_of,
    small_decoder,
)

TIME = 45
ROPE, ALIBI = "bilevel_learned_rope", "bilevel_learned_alibi_x96"
some = pytest.mark.parametrize("scheme", [ROPE, ALIBI, "multilevel"])


@pytest.mark.parametrize("scheme", LAWFUL)
@torch.no_grad()
def test_logits_in_float32_are_the_exact_ones_cached_or_not(scheme):
    model, division = small_decoder(scheme), [1] * 6 + [50, 10] + [1] * 4 + [20]
    # CoPE adds up gates along a row, TENER's scores are not divided by the root of the width.
    limit = 2e-5 if scheme.endswith(("cope", "tener")) else 5e-6
    tokens, marks = row_of(2, sum(division), seed=5)
    at = positions_of(marks, packed=False)
    exact = small_decoder(scheme, attention="eager").double().logits(tokens, at)
    cache = Cache(batch=2, grows=True)
    for found in (
        model.logits(tokens, at),
        cached_logits(model, tokens, marks, division, cache),
    ):
        assert float((found - exact).abs().max() / exact.abs().max()) <= limit


@some
@pytest.mark.parametrize("document", [0, 29])
def test_padding_and_documents_in_a_cached_row_change_nothing(scheme, document):
    padding_is_not_read(small_decoder(scheme), [20, 10, 1, 14], document=document)


@some
@torch.no_grad()
def test_rewinding_restores_keys_and_carry(scheme):
    model = small_decoder(scheme).double()
    tokens, marks = row_of(2, TIME, seed=6)
    cache = Cache(batch=2, grows=True, capacity=4)
    cached_logits(model, tokens, marks, [30], cache)
    cached_logits(model, tokens.flip(1)[:, :9], marks.flip(1)[:, :9], [1] * 9, cache)
    cache.rewind(30)
    rest = cached_logits(model, tokens[:, 30:], marks[:, 30:], [5, 10], cache)
    close(rest, model.logits(tokens, positions_of(marks, packed=False))[:, 30:])


@pytest.mark.parametrize("order", [[2, 0, 2], [1, 1, 0], [1, 2]])
@some
@torch.no_grad()
def test_rows_may_be_selected_and_a_shared_prompt_need_not_be_moved(scheme, order):
    """Rows that differ behind 20 tokens alone; both ways give the whole forward pass."""
    model = small_decoder(scheme).double()
    tokens, marks = row_of(3, TIME, seed=8)
    tokens[:, :20], marks[:, :20] = tokens[0, :20], marks[0, :20]
    full = model.logits(tokens[order], positions_of(marks[order]))
    for shared in (0, 20):
        cache = Cache(batch=3, capacity=TIME)
        cached_logits(model, tokens[:, :30], marks[:, :30], [30], cache)
        cache.select(torch.tensor(order), shared=shared)
        rest = cached_logits(model, tokens[order, 30:], marks[order, 30:], [1, 14], cache)
        close(rest, full[:, 30:])
