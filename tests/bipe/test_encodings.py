"""Laws that every encoding passes, flat and bilevel, in train and in eval, cached and not."""

import dataclasses

import pytest
import torch

from bipe import Positions
from bipe.attention import chunked, dispatch, tables
from bipe.cache import Cache
from bipe.encodings import ALiBi, Bilevel, RoPE
from bipe.loss import summed_cross_entropy
from tests.bipe.conftest import (
    FLAT,
    LAWFUL,
    ONE_EACH,
    cached_logits,
    close,
    kind_of,
    packed_equals_alone,
    padding_is_not_read,
    positions_of,
    random_batch,
    random_marks,
    row_of,
    small_decoder,
)

schemes = pytest.mark.parametrize("scheme", LAWFUL)
one_each = pytest.mark.parametrize("scheme", ONE_EACH)
TIME = 45
ROPE, ALIBI = "bilevel_learned_rope", "bilevel_learned_alibi_x96"
some = pytest.mark.parametrize("scheme", [ROPE, ALIBI, "multilevel"])


@schemes
def test_packed_equals_alone(scheme):
    """In evaluation; another law says when training is the same."""
    packed_equals_alone(small_decoder(scheme))


@one_each
@torch.no_grad()
def test_nothing_reaches_an_earlier_token_or_another_document(scheme):
    model = small_decoder(scheme)
    tokens, at = random_batch(2, 40, seed=2)
    changed = tokens.clone()
    changed[:, 17] = (changed[:, 17] + 1) % 61
    before, after = model(tokens, at), model(changed, at)
    same_document = at.document == at.document[:, 17, None]
    reachable = same_document & (torch.arange(40) >= 17)
    assert torch.equal(before[~reachable], after[~reachable])
    assert not torch.equal(before[reachable], after[reachable])


@one_each
@torch.no_grad()
def test_padding_changes_nothing(scheme):
    model = small_decoder(scheme).double()
    tokens, marks = row_of(2, 30, seed=3)
    around, where = torch.zeros(2, 41, dtype=torch.long), slice(6, 36)
    padding = torch.ones(2, 41, dtype=torch.bool)
    padding[:, where] = False
    padded_tokens, padded_marks = around.clone(), around.byte()
    padded_tokens[:, where], padded_marks[:, where] = tokens, marks
    padded = model(padded_tokens, positions_of(padded_marks, padding=padding))
    assert torch.isfinite(padded).all()
    close(padded[:, where], model(tokens, positions_of(marks)))


@pytest.mark.parametrize("name", FLAT)
@torch.no_grad()
def test_an_encoding_says_whether_it_sees_a_shift_of_its_ids(name):
    model = small_decoder(name).double().eval()
    tokens, at = random_batch(2, 30, seed=4, documents=0.0)
    shifted = dataclasses.replace(at, token=at.token + 1000)
    same = torch.allclose(model(tokens, at), model(tokens, shifted), atol=1e-9, rtol=0)
    assert same == kind_of(FLAT[name]["encoding"]).relative


@one_each
def test_training_is_evaluation_unless_it_draws_and_trains_every_parameter(scheme):
    model, (tokens, at) = small_decoder(scheme), random_batch(2, 40, seed=5)
    hidden = model.train()(tokens, at)
    draws = any(getattr(part, "random", False) for part in model.modules())
    with torch.no_grad():
        assert torch.allclose(model.eval()(tokens, at), hidden, atol=1e-4) != draws
    summed_cross_entropy(hidden.flatten(0, 1), model.head.weight, tokens.flatten()).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and parameter.grad.abs().sum() > 0, name


@schemes
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


SMALL_BLOCKS = {
    dispatch: {"CHUNKED_FROM": 40, "BY_DOCUMENT_FROM": 16, "WORTH_FROM": 32},
    chunked: {"CHUNK": 16},
    tables: {"CHUNK": 16, "KEYS": 24, "BACKWARD_KEYS": 20},
}


@pytest.mark.parametrize(
    ("scheme", "documents"),
    [*((scheme, 0.03) for scheme in LAWFUL), *((scheme, 0.0) for scheme in ONE_EACH)],
)
def test_the_path_that_is_chosen_is_the_reference(scheme, documents, monkeypatch):
    """Forward and backward; small blocks stand for rows of thousands of tokens."""
    tokens, at = random_batch(2, 64, seed=7, documents=documents)

    def computed(path):
        model = small_decoder(scheme, attention=path).double()
        hidden = model(tokens, at)
        (hidden * torch.linspace(-1, 1, hidden.numel()).view_as(hidden)).sum().backward()
        return hidden, {name: x.grad for name, x in model.named_parameters()}

    reference = computed("eager")
    for blocks in ({}, SMALL_BLOCKS):
        for module, sizes in blocks.items():
            for name, size in sizes.items():
                monkeypatch.setattr(module, name, size)
        torch.testing.assert_close(computed("auto"), reference, atol=1e-8, rtol=1e-7)


@pytest.mark.parametrize("name", FLAT)
def test_gradients_of_the_parameters_are_those_of_differences(name):
    model = small_decoder(name).double().train()
    own = {key: x for key, x in model.named_parameters() if key.startswith("scheme.")}
    if not own:
        return
    tokens, at = random_batch(1, 12, seed=8, documents=0.0)
    weight = torch.linspace(-1, 1, 12 * model.config.width).view(1, 12, -1)

    def loss():
        return (model(tokens, at) * weight).sum()

    grads = torch.autograd.grad(loss(), [*own.values()])
    for key, parameter, grad in zip(own, own.values(), grads, strict=True):
        place, flat, found = grad.abs().argmax(), parameter.data.view(-1), []
        for step in (1e-6, -2e-6):
            flat[place] += step
            found.append(loss().item())
        flat[place] += 1e-6
        slope = (found[0] - found[1]) / 2e-6
        assert grad.view(-1)[place].item() == pytest.approx(slope, rel=2e-4, abs=1e-6), key


@one_each
@torch.no_grad()
def test_bfloat16_in_gives_bfloat16_out(scheme):
    """Weights are rounded as well; angles of bfloat16 ids would be far off at far positions."""
    model, (tokens, at) = small_decoder(scheme), random_batch(2, 40, seed=6)
    exact = model.double()(tokens, at)
    out = model.to(torch.bfloat16)(tokens, at)
    assert out.dtype == torch.bfloat16
    assert (out.double() - exact).abs().max() < 0.4


def test_angles_slopes_and_tables_survive_casts_and_to_empty_and_are_not_saved():
    alibi, far = ALiBi(n_head=3), torch.tensor([[70_001]])
    assert torch.equal(alibi.slopes.clone(), alibi.to(torch.bfloat16).slopes)
    rope = RoPE(head_width=8)
    assert torch.equal(rope.rotation(far).cos, rope.half().rotation(far).cos)
    model = small_decoder("bilevel_learned_rope")
    frequencies = model.scheme.inter.frequencies.clone()
    model.to_empty(device="cpu")
    assert torch.equal(model.scheme.inter.frequencies, frequencies)
    assert not any("frequencies" in name for name in model.state_dict())


def test_models_that_differ_in_encoding_start_from_the_same_weights():
    one, other, later = (
        dict(small_decoder(scheme, seed=seed).named_parameters())
        for scheme, seed in (("flat_rope", 3), ("bilevel_learned_alibi", 3), ("flat_rope", 4))
    )
    assert set(one) < set(other)
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert not torch.equal(one["head.weight"], later["head.weight"])


def test_alibi_on_both_levels_counts_segments_as_so_many_tokens():
    at = Positions.from_marks(random_marks(2, 30, seed=1))
    bias = Bilevel(intra=ALiBi(n_head=2), inter=ALiBi(n_head=2, multiplier=4.0)).bias(at, at)
    places = 4 * at.inter + at.intra
    expected = ALiBi(n_head=2).bias(places, places)
    torch.testing.assert_close(bias.dense(torch.float64), expected.dense(torch.float64))
