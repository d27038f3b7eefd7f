"""Laws that every encoding passes, flat and bilevel, in train and in eval."""

import dataclasses
import functools

import pytest
import torch

from bipe import Decoder, Positions
from bipe.attention import dispatch, eager, tables
from bipe.build import find
from bipe.encodings import ALiBi, Bilevel, Learned, RoPE
from bipe.loss import summed_cross_entropy
from tests.bipe import test_cache
from tests.bipe.conftest import (
    CONFIGURED,
    FLAT,
    N_HEAD,
    ONE_EACH,
    SCHEMES,
    bare_encoding,
    forms_of,
    kind_of,
    positions_of,
    random_batch,
    random_marks,
    small_decoder,
)

schemes = pytest.mark.parametrize("scheme", SCHEMES)


@schemes
@torch.no_grad()
def test_packed_equals_alone(scheme):
    """In evaluation; another law says when training is the same."""
    model = small_decoder(scheme).double().eval()
    tokens, at = random_batch(2, 40, seed=1)
    packed = model(tokens, at)
    for row in range(2):
        for document in at.document[row].unique():
            here = at.document[row] == document
            fields = {
                name: getattr(at, name)[row, here][None] for name in ("token", "inter", "intra")
            }
            fields["levels"] = tuple(ids[row, here][None] for ids in at.levels)
            alone = Positions(document=torch.zeros(1, int(here.sum()), dtype=torch.long), **fields)
            out = model(tokens[row, here][None], alone)[0]
            torch.testing.assert_close(packed[row, here], out, atol=1e-10, rtol=0)


@schemes
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


@schemes
@torch.no_grad()
def test_padding_changes_nothing(scheme):
    model = small_decoder(scheme).double()
    tokens, at = random_batch(2, 30, seed=3, documents=0.0)
    marks = torch.zeros(2, 41, dtype=torch.uint8)
    marks[:, 6:36] = random_marks(2, 30, seed=3, documents=0.0)
    padding = torch.ones(2, 41, dtype=torch.bool)
    padding[:, 6:36] = False
    padded_tokens = torch.zeros(2, 41, dtype=torch.long)
    padded_tokens[:, 6:36] = tokens
    padded = model(padded_tokens, positions_of(marks, padding=padding))
    assert torch.isfinite(padded).all()
    torch.testing.assert_close(padded[:, 6:36], model(tokens, at), atol=1e-10, rtol=0)


@pytest.mark.parametrize("name", FLAT)
@torch.no_grad()
def test_an_encoding_says_whether_it_sees_a_shift_of_its_ids(name):
    model = small_decoder(name).double().eval()
    tokens, at = random_batch(2, 30, seed=4, documents=0.0)
    shifted = dataclasses.replace(at, token=at.token + 1000)
    same = torch.allclose(model(tokens, at), model(tokens, shifted), atol=1e-9, rtol=0)
    assert same == kind_of(FLAT[name]["encoding"]).relative


@schemes
@torch.no_grad()
def test_training_is_evaluation_unless_an_encoding_says_that_it_draws(scheme):
    model, (tokens, at) = small_decoder(scheme), random_batch(2, 30, seed=4)
    hidden = model.eval()(tokens, at)
    assert torch.equal(hidden, model(tokens, at))
    draws = any(getattr(part, "random", False) for part in model.modules())
    assert torch.equal(hidden, model.train()(tokens, at)) != draws


SMALL_BLOCKS = {
    dispatch: {"CHUNKED_FROM": 40, "BY_DOCUMENT_FROM": 16, "WORTH_FROM": 32},
    eager: {"CHUNK": 16},
    tables: {"CHUNK": 16, "KEYS": 24, "BACKWARD_KEYS": 20},
}


@schemes
@pytest.mark.parametrize("documents", [0.0, 0.03], ids=["one", "packed"])
def test_the_path_that_is_chosen_is_the_reference(scheme, documents, monkeypatch):
    """Forward and backward; small blocks stand for rows of thousands of tokens."""
    tokens, at = random_batch(2, 80, seed=7, documents=documents)

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

    def loss():
        hidden = model(tokens, at)
        return (hidden * torch.linspace(-1, 1, hidden.numel()).view_as(hidden)).sum()

    loss().backward()
    for key, parameter in own.items():
        place = parameter.grad.abs().argmax()
        flat = parameter.data.view(-1)
        step, before = 1e-6, flat[place].item()
        with torch.no_grad():
            flat[place] = before + step
            above = loss()
            flat[place] = before - step
            below = loss()
            flat[place] = before
        slope = (above - below) / (2 * step)
        assert parameter.grad.view(-1)[place] == pytest.approx(slope.item(), rel=2e-4, abs=1e-6), (
            key
        )


@schemes
def test_gradients_reach_every_parameter(scheme):
    model = small_decoder(scheme).train()
    tokens, at = random_batch(2, 40, seed=5)
    hidden = model(tokens, at)
    summed_cross_entropy(hidden.flatten(0, 1), model.head.weight, tokens.flatten()).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and parameter.grad.abs().sum() > 0, name


@pytest.mark.parametrize("scheme", ONE_EACH)
@torch.no_grad()
def test_bfloat16_in_gives_bfloat16_out_with_exact_angles_and_slopes(scheme):
    model = small_decoder(scheme)
    tokens, at = random_batch(2, 40, seed=6)
    expected = model.double()(tokens, at)
    out = model.to(torch.bfloat16)(tokens, at)
    assert out.dtype == torch.bfloat16
    # Weights were rounded as well; angles of bfloat16 ids would be far off at far positions.
    assert (out.double() - expected).abs().max() < 0.35
    assert torch.equal(
        bare_encoding("alibi").to(torch.bfloat16).slopes, bare_encoding("alibi").slopes
    )
    far = torch.tensor([[70_001]])
    rope = RoPE(head_width=8)
    assert torch.equal(rope.rotation(far).cos, rope.half().rotation(far).cos)


def test_tables_survive_to_empty_and_are_not_saved():
    model = small_decoder("bilevel_learned_rope")
    frequencies = model.scheme.inter.frequencies.clone()
    model.to_empty(device="cpu")
    assert torch.equal(model.scheme.inter.frequencies, frequencies)
    assert not any("frequencies" in name for name in model.state_dict())


def test_models_that_differ_in_encoding_start_from_the_same_weights():
    one, other = (dict(small_decoder(s, seed=3).named_parameters())
                  for s in ("flat_rope", "bilevel_learned_alibi"))  # fmt: skip
    assert set(one) < set(other)
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert not torch.equal(
        one["head.weight"],
        dict(small_decoder("flat_rope", seed=4).named_parameters())["head.weight"],
    )


def test_a_learned_table_can_refuse_positions_beyond_it():
    learned = Learned(width=4, length=3, overflow="error")
    with pytest.raises(ValueError, match="position of 3 is beyond the learned table: length is 3"):
        learned.embed(torch.zeros(1, 4, 4), torch.arange(4)[None])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RoPE(head_width=7), "head_width must be even, was: 7"),
        (lambda: ALiBi(n_head=0), "n_head must be at least 1, was: 0"),
        (lambda: Learned(width=4, length=0), "length must be at least 1, was: 0"),
        (lambda: Learned(width=4, length=2, overflow="wrap"), "overflow must be"),
    ],
)
@pytest.mark.usefixtures("unchecked_types")
def test_bad_parameters_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()


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
        test_gradients_reach_every_parameter(name)
        test_training_is_evaluation_unless_an_encoding_says_that_it_draws(name)
        test_cache.test_cached_equals_uncached(name)
    test_an_encoding_says_whether_it_sees_a_shift_of_its_ids("flat_toy")
    test_gradients_of_the_parameters_are_those_of_differences("flat_toy")


INSIDE = {
    "T5 has a bias that needs": {"n_head": 2},
    "Sandwich has a bias that needs": {"n_head": 2},
    "XPos has a decay that needs": {"head_width": 8},
    "TUPE has a bias that needs": {"n_head": 2, "width": 8, "length": 4, "buckets": 8},
}


@pytest.mark.parametrize("reason", INSIDE)
def test_what_counts_on_growing_ids_is_refused_inside_segments(reason):
    kind = reason.partition(" ")[0]
    encoding = find(f"bipe.encodings.{kind.lower()}.{kind}")(**INSIDE[reason])
    with pytest.raises(ValueError, match=f"intra: {reason}.*: use it as inter"):
        Bilevel(intra=encoding, inter=ALiBi(n_head=2))


def test_alibi_on_both_levels_counts_segments_as_so_many_tokens():
    at = Positions.from_marks(random_marks(2, 30, seed=1))
    bias = Bilevel(intra=ALiBi(n_head=2), inter=ALiBi(n_head=2, multiplier=4.0)).bias(at, at)
    places = 4 * at.inter + at.intra
    expected = ALiBi(n_head=2).bias(places, places)
    torch.testing.assert_close(bias.dense(torch.float64), expected.dense(torch.float64))
