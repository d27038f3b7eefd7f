"""Laws that every encoding passes, flat and bilevel, in train and in eval."""

import dataclasses

import pytest
import torch

from bipe import Positions
from bipe.encodings import ALiBi, Learned, RoPE
from bipe.loss import summed_cross_entropy
from tests.bipe.conftest import (
    BARE,
    RELATIVE,
    SCHEMES,
    bare_encoding,
    random_batch,
    small_decoder,
)

schemes = pytest.mark.parametrize("scheme", SCHEMES)
modes = pytest.mark.parametrize("mode", ["train", "eval"])


@schemes
@modes
@torch.no_grad()
def test_packed_equals_alone(scheme, mode):
    model = small_decoder(scheme).double().train(mode == "train")
    tokens, at = random_batch(3, 40, seed=1)
    packed = model(tokens, at)
    for row in range(3):
        for document in at.document[row].unique():
            here = at.document[row] == document
            fields = {
                name: getattr(at, name)[row, here][None] for name in ("token", "inter", "intra")
            }
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
    marks[:, 6:36] = (at.intra == 0).to(torch.uint8) << 1
    padding = torch.ones(2, 41, dtype=torch.bool)
    padding[:, 6:36] = False
    padded_tokens = torch.zeros(2, 41, dtype=torch.long)
    padded_tokens[:, 6:36] = tokens
    padded = model(padded_tokens, Positions.from_marks(marks, padding=padding))
    assert torch.isfinite(padded).all()
    torch.testing.assert_close(padded[:, 6:36], model(tokens, at), atol=1e-10, rtol=0)


@pytest.mark.parametrize("name", RELATIVE)
@torch.no_grad()
def test_a_relative_encoding_does_not_see_a_shift_of_its_ids(name):
    model = small_decoder(f"flat_{name}").double()
    tokens, at = random_batch(2, 30, seed=4, documents=0.0)
    shifted = dataclasses.replace(at, token=at.token + 1000)
    torch.testing.assert_close(model(tokens, at), model(tokens, shifted), atol=1e-9, rtol=0)


@schemes
@modes
def test_gradients_reach_every_parameter(scheme, mode):
    model = small_decoder(scheme).train(mode == "train")
    tokens, at = random_batch(2, 40, seed=5)
    hidden = model(tokens, at)
    summed_cross_entropy(hidden.flatten(0, 1), model.head.weight, tokens.flatten()).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and parameter.grad.abs().sum() > 0, name


@schemes
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


def test_every_bare_encoding_has_both_forms():
    for name in BARE:
        assert f"flat_{name}" in SCHEMES and f"bilevel_learned_{name}" in SCHEMES
