"""Laws that every encoding passes, flat and bilevel, in train and in eval."""

import dataclasses
import functools

import pytest
import torch

from bipe import Decoder, Positions
from bipe.attention import dispatch, eager, tables
from bipe.build import find
from bipe.encodings import ALiBi, Bilevel, RoPE
from bipe.loss import summed_cross_entropy
from tests.bipe import test_cache
from tests.bipe.conftest import (
    CONFIGURED,
    FLAT,
    LAWFUL,
    N_HEAD,
    ONE_EACH,
    SCHEMES,
    bfloat16_is_near,
    close,
    forms_of,
    kind_of,
    packed_equals_alone,
    positions_of,
    random_batch,
    random_marks,
    row_of,
    small_decoder,
)

schemes = pytest.mark.parametrize("scheme", LAWFUL)
one_each = pytest.mark.parametrize("scheme", ONE_EACH)


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


SMALL_BLOCKS = {
    dispatch: {"CHUNKED_FROM": 40, "BY_DOCUMENT_FROM": 16, "WORTH_FROM": 32},
    eager: {"CHUNK": 16},
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
def test_bfloat16_in_gives_bfloat16_out(scheme):
    bfloat16_is_near(small_decoder(scheme))


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


TOY = """
import torch

from bipe.bias import DistanceBias
from bipe.encodings import Encoding


class Toy(Encoding):
    def __init__(self, *, n_head):
        super().__init__()
        self.table = torch.nn.Parameter(torch.zeros(n_head, 4))

    def bias(self, q_ids, k_ids):
        return DistanceBias(function=lambda d: self.table[:, d % 4], q_ids=q_ids, k_ids=k_ids)
"""


def test_a_new_encoding_is_held_to_every_law_in_all_its_forms(tmp_path, monkeypatch):
    """One file and one YAML: nothing else names an encoding."""
    for name in CONFIGURED:
        assert any(scheme == name or scheme.endswith(f"_{name}") for scheme in SCHEMES), name
    (tmp_path / "toys.py").write_text(TOY)
    monkeypatch.syspath_prepend(tmp_path)
    for name, partial in (("Decoder", Decoder), ("find", find)):
        own = functools.partial(partial, allowed=("toys.",))
        monkeypatch.setattr(f"tests.bipe.conftest.{name}", own)
    forms = forms_of("toy", {"_target_": "toys.Toy", "n_head": N_HEAD})
    assert set(forms) == {"flat_toy", "bilevel_toy"}
    monkeypatch.setitem(FLAT, "flat_toy", forms["flat_toy"])
    for name, form in forms.items():
        monkeypatch.setitem(SCHEMES, name, form)
        test_packed_equals_alone(name)
        test_nothing_reaches_an_earlier_token_or_another_document(name)
        test_padding_changes_nothing(name)
        test_the_path_that_is_chosen_is_the_reference(name, 0.03, monkeypatch)
        test_training_is_evaluation_unless_it_draws_and_trains_every_parameter(name)
        test_cache.test_logits_in_float32_are_the_exact_ones_cached_or_not(name)
    test_an_encoding_says_whether_it_sees_a_shift_of_its_ids("flat_toy")
    test_gradients_of_the_parameters_are_those_of_differences("flat_toy")


def test_alibi_on_both_levels_counts_segments_as_so_many_tokens():
    at = Positions.from_marks(random_marks(2, 30, seed=1))
    bias = Bilevel(intra=ALiBi(n_head=2), inter=ALiBi(n_head=2, multiplier=4.0)).bias(at, at)
    places = 4 * at.inter + at.intra
    expected = ALiBi(n_head=2).bias(places, places)
    torch.testing.assert_close(bias.dense(torch.float64), expected.dense(torch.float64))
