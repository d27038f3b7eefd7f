"""Schedules as laws, and which weights decay."""

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from bipe import Decoder, DecoderConfig
from train.fit.optim import adamw, constant, cosine, linear, muon, wsd

ALL = {"constant": constant, "cosine": cosine, "linear": linear, "wsd": wsd}
FALLING = {"cosine": cosine, "linear": linear, "wsd": wsd}
warmups = st.integers(0, 60)
later = st.integers(1, 400)
floors = st.floats(0, 1)


def factors(schedule, steps):
    return [schedule(step) for step in range(steps + 1)]


def pairs(values):
    return list(itertools.pairwise(values))


@given(warmup=warmups, more=later, name=st.sampled_from(sorted(ALL)))
def test_a_warm_up_rises_in_equal_steps_from_above_0_to_1(warmup, more, name):
    up = factors(ALL[name](warmup=warmup, steps=warmup + more), warmup)
    assert up[0] > 0
    assert up[-1] == 1.0
    assert all(b - a == pytest.approx(1 / (warmup + 1)) for a, b in pairs(up))


@given(warmup=warmups, more=later, floor=floors, name=st.sampled_from(sorted(FALLING)))
def test_after_the_warm_up_a_schedule_never_rises_and_stays_at_its_floor(warmup, more, floor, name):
    steps = warmup + more
    schedule = FALLING[name](warmup=warmup, steps=steps, floor=floor)
    down = factors(schedule, steps)[warmup:]
    assert all(a >= b - 1e-12 for a, b in pairs(down))
    assert down[-1] == pytest.approx(floor)
    assert schedule(steps + 1) == schedule(10 * steps) == down[-1]


@given(warmup=warmups, more=st.integers(10, 400), decay=st.floats(0.05, 0.9))
def test_wsd_is_stable_between_warm_up_and_decay(warmup, more, decay):
    steps = warmup + more
    values = factors(wsd(warmup=warmup, steps=steps, decay=decay), steps)
    begin = max(warmup, steps - max(1, round(decay * steps)))
    assert set(values[warmup : begin + 1]) == {1.0}
    line = pairs(values[begin:])
    assert all(a - b == pytest.approx(1 / (steps - begin)) for a, b in line)


def test_constant_stays_and_cosine_is_half_way_at_half_time():
    assert set(factors(constant(warmup=3), 50)[3:]) == {1.0}
    assert cosine(warmup=10, steps=110, floor=0.2)(60) == pytest.approx(0.6)


def adam(**given):
    return adamw(nn.Linear(2, 2).parameters(), **{"lr": 0.1} | given)


def with_muon(**given):
    return muon(small_model().named_parameters(), **{"lr": 0.1} | given)


@pytest.mark.parametrize(
    ("call", "wrong", "told"),
    [
        (cosine, {"warmup": -1}, "schedule.warmup must be at least 0, was: -1"),
        (linear, {"floor": 1.5}, "schedule.floor must be from 0 to 1, was: 1.5"),
        (wsd, {"decay": 0}, "schedule.decay must be above 0 and at most 1, was: 0"),
        (adam, {"lr": float("nan")}, "optimizer.lr must be above 0, was: nan"),
        (adam, {"betas": (0.9, 1.0)}, "optimizer.betas must be two numbers from 0 to below 1"),
        (adam, {"eps": 0.0}, "optimizer.eps must be above 0, was: 0.0"),
        (with_muon, {"momentum": 1.0}, "optimizer.momentum must be from 0 to below 1, was: 1.0"),
    ],
)
def test_what_makes_no_sense_is_refused(call, wrong, told):
    given = {} if call in (adam, with_muon) else {"warmup": 0, "steps": 10}
    with pytest.raises(ValueError, match=told):
        call(**given | wrong)


def test_without_a_gradient_only_the_decay_moves_matrices_and_frozen_weights_are_left_out():
    model = nn.Sequential(nn.Linear(3, 3), nn.RMSNorm(3))
    model[0].bias.requires_grad = False
    for parameter in model.parameters():
        nn.init.ones_(parameter)
        parameter.grad = torch.zeros_like(parameter)
    optimizer = adamw(model.parameters(), lr=0.1, weight_decay=0.5)
    assert [len(group["params"]) for group in optimizer.param_groups] == [1, 1]
    optimizer.step()
    assert torch.allclose(model[0].weight, torch.full((3, 3), 1 - 0.1 * 0.5))
    assert torch.equal(model[1].weight, torch.ones(3))


def small_model():
    config = DecoderConfig(
        **{"vocab_size": 7, "width": 8, "n_layer": 2, "n_head": 2, "mlp_width": 12},
        **{"qk_norm": "both", "qkv_bias": "qkv"},
        encoding={"_target_": "bipe.encodings.Learned", "width": 8, "length": 4},
    )
    model = Decoder(config)
    model.init_weights(seed=1)
    generator = torch.Generator().manual_seed(2)
    for parameter in model.parameters():
        parameter.grad = torch.randn(parameter.shape, generator=generator)
    return model


def matrices_of_blocks(model):
    named = model.named_parameters()
    return [p for name, p in named if name.startswith("blocks.") and p.ndim == 2]


def test_muon_takes_the_matrices_of_blocks_and_adamw_all_else():
    model, other = small_model(), small_model()
    both = muon(model.named_parameters(), lr=0.1, weight_decay=0.2)
    ours = matrices_of_blocks(other)
    rest = [p for p in other.parameters() if not any(p is each for each in ours)]
    assert [p.shape for p in both.param_groups[0]["params"]] == [p.shape for p in ours]
    apart = [
        torch.optim.Muon(ours, lr=0.1, weight_decay=0.2, adjust_lr_fn="match_rms_adamw"),
        adamw(rest, lr=0.1, weight_decay=0.2, fused=False),
    ]
    for optimizer in (both, *apart):
        optimizer.step()
        optimizer.step()
    assert all(map(torch.equal, model.parameters(), other.parameters()))
