"""LoRA: the base model at first, the merged model at last, the same as a layer at a time."""

import functools

import pytest
import torch

from tests.bipe.conftest import random_batch, small_decoder
from train.fit.lora import LAYERS, add_lora, merged

fresh = functools.partial(small_decoder, "flat_rope", seed=1)


def drawn(model):
    """Give every low rank values as after a training."""
    with torch.no_grad():
        for name, each in model.named_parameters():
            if ".lora." in name:
                each.normal_()


@pytest.fixture
def batch():
    return random_batch(2, 9, seed=0)


def test_the_first_step_is_the_base_model_bit_for_bit(batch):
    model, same = fresh(), fresh()
    add_lora(same, rank=3, alpha=6.0)
    assert torch.equal(model.logits(*batch), same.logits(*batch))


@pytest.mark.parametrize("layers", [LAYERS, ("query",), ("down", "value")])
@pytest.mark.parametrize("options", [{}, {"tied_head": True, "n_kv_head": 1, "qkv_bias": "qkv"}])
def test_merged_weights_compute_the_same_under_the_old_names(batch, layers, options):
    model, plain = fresh(**options).double(), fresh(**options).double()
    add_lora(model, rank=3, alpha=6.0, layers=layers)
    drawn(model)
    found = merged(model.state_dict())
    assert found.keys() == plain.state_dict().keys()
    changed = [n for n, each in plain.state_dict().items() if not torch.equal(each, found[n])]
    assert {name.split(".")[-2] for name in changed} == {*layers}
    plain.load_state_dict(found)
    torch.testing.assert_close(plain.logits(*batch), model.logits(*batch), rtol=0, atol=1e-10)
    assert merged(found).keys() == found.keys()


@pytest.mark.parametrize("recompute", [False, True])
def test_low_ranks_learn_as_the_merged_weights_would(batch, recompute):
    """Gradients of `up` and `down` are those of the product that is added to the weight."""
    model, plain = fresh().double(), fresh().double()
    model.recompute = recompute
    add_lora(model, rank=3, alpha=6.0, whole=("norm.weight",), seed=5)
    drawn(model)
    plain.load_state_dict(merged(model.state_dict()))
    for each in (model, plain):
        each.logits(*batch).square().mean().backward()
    trained = {name for name, p in model.named_parameters() if p.grad is not None}
    assert trained == {n for n, _ in model.named_parameters() if ".lora." in n} | {"norm.weight"}
    of = dict(plain.named_parameters())
    for name, part in model.named_modules():
        if name.endswith(".lora"):
            whole = 2.0 * of[f"{name.removesuffix('.lora')}.weight"].grad
            torch.testing.assert_close(part.up.grad, whole @ part.down.detach().T)
            torch.testing.assert_close(part.down.grad, part.up.detach().T @ whole)


def test_low_ranks_depend_on_the_seed_and_the_layer_alone():
    states = []
    for seed in (0, 0, 1):
        torch.rand(3)
        model = fresh()
        add_lora(model, rank=2, alpha=1.0, seed=seed)
        states.append(torch.stack([b.attention.query.lora.down.detach() for b in model.blocks]))
    first, again, other = states
    assert torch.equal(first, again) and not torch.equal(first, other)
    assert not torch.equal(*first)
