"""Retrofits: a model of flat RoPE goes on from where it is, and learns segments."""

import dataclasses

import pytest
import torch

from bipe import Cache, Decoder
from bipe.encodings.base import Flat, annealed, of_layer
from bipe.extension import extend_config
from bipe.layouts.folders import read_folder, write_folder
from tests.bipe.conftest import (
    BARE,
    HEAD_WIDTH,
    far,
    layers,
    random_batch,
    random_marks,
    small_decoder,
    target,
)

NOTES = {
    "row_length": 40,
    "positions": {"token": {"p99.9": 39}, "segment": {"p99.9": 7}},
}
LLAMA3 = far("Llama3", factor=4.0, original_length=16)
BASES = {
    "bare": BARE["rope"],
    "partial, interleaved": target(
        "RoPE", head_width=HEAD_WIDTH, part=[0.0, 0.5], interleaved=True
    ),
    "stretched": target("RoPE", head_width=HEAD_WIDTH, theta=500.0, stretch=LLAMA3),
}


def retrofitted(base: Decoder, strategy, *, notes=NOTES) -> Decoder:
    """The base model under a way; what it lacks is zero, as at the first step."""
    model = Decoder(extend_config(base.config, strategy, notes=notes).config)
    known = base.state_dict()
    state = {name: known.get(name, torch.zeros_like(v)) for name, v in model.state_dict().items()}
    model.load_state_dict(state)
    for part in annealed(model.scheme):
        part.anneal(0.0)
    return model


def bases():
    for name, rope in BASES.items():
        yield name, small_decoder("flat_nope", encoding=target("Flat", encoding=rope))
    yield "grouped, tied", small_decoder("flat_rope", n_kv_head=2, tied_head=True)


@pytest.fixture
def llama(tmp_path):
    """A model that comes from a folder of transformers."""
    rope = target("RoPE", head_width=HEAD_WIDTH, theta=500.0)
    write_folder(small_decoder("flat_nope", encoding=rope, n_kv_head=2), tmp_path / "llama")
    model, config = read_folder(tmp_path / "llama")
    assert config["model_type"] == "llama"
    return model


def every_way_of_reading(model: Decoder):
    """Logits of packed rows and whole ones, without a cache and with one, in chunks and single."""
    yield model.logits(*random_batch(2, 40, seed=3))
    tokens, at = random_batch(2, 40, seed=4, documents=0.0)
    yield model.logits(tokens, dataclasses.replace(at, packed=False))
    for documents in (0.0, 0.1):
        marks, cache = random_marks(2, 40, seed=5, documents=documents), Cache(batch=2, grows=True)
        for part in (slice(20), slice(20, 39), slice(39, 40)):
            yield model.logits(tokens[:, part], cache.next(marks[:, part]), cache=cache)


@pytest.mark.parametrize(("name", "flat_layers"), [("Gated", 0), ("Homotopy", 1)])
@torch.no_grad()
def test_the_first_step_is_the_base_model_bit_for_bit(name, flat_layers, llama):
    for what, base in (*bases(), ("llama", llama)):
        model = retrofitted(base, far(name, flat_layers=flat_layers))
        pairs = zip(every_way_of_reading(base), every_way_of_reading(model), strict=True)
        assert all(torch.equal(a, b) for a, b in pairs), what


@pytest.mark.parametrize("name", ["Gated", "Homotopy"])
def test_what_is_new_is_zero_and_learns(name):
    model = retrofitted(small_decoder("flat_rope"), far(name))
    before = model.logits(*random_batch(2, 40, seed=3))
    before.logsumexp(-1).sum().backward()
    new = [name for name, p in model.named_parameters() if not p.any()]
    assert new == ["scheme.gate"] * (name == "Gated") + ["scheme.intra.table.weight"]
    for name in new:
        assert model.get_parameter(name).grad.abs().sum() > 0


@torch.no_grad()
def test_gates_of_one_and_the_end_of_a_homotopy_are_segments():
    base = small_decoder("flat_rope")
    segments = retrofitted(base, far("Swap"))
    gated, homotopy = (retrofitted(base, far(name, step=1.0)) for name in ("Gated", "Homotopy"))
    for model in (segments, gated, homotopy):
        model.scheme.intra.table.weight.copy_(torch.linspace(-1, 1, 48))
    gated.scheme.gate.fill_(1.0)
    homotopy.scheme.anneal(1.0)
    batch = random_batch(2, 40, seed=3)
    assert torch.equal(gated.logits(*batch), segments.logits(*batch))
    assert torch.equal(homotopy.logits(*batch), segments.logits(*batch))
    assert not torch.equal(base.logits(*batch), segments.logits(*batch))


@torch.no_grad()
def test_a_homotopy_goes_over_by_steps_and_counts_tokens_per_segment():
    model = retrofitted(small_decoder("flat_rope"), far("Homotopy", over=0.5))
    scheme = model.scheme
    assert scheme.step == 5.0  # 40 tokens, 8 segments
    _, at = random_batch(1, 40, seed=3, documents=0.0)
    for done, share in ((0.0, 0.0), (0.25, 0.5), (0.5, 1.0), (1.0, 1.0)):
        scheme.anneal(done)
        places = (1 - share) * at.token + share * 5.0 * at.inter
        expected = scheme.inter.rotation(places.double())
        torch.testing.assert_close(scheme.rotation(at).cos, expected.cos)


def test_the_first_layers_stay_flat():
    base = small_decoder("flat_rope", n_layer=4)
    model = retrofitted(base, far("Swap", flat_layers=3))
    kinds = [isinstance(of_layer(model.scheme, layer), Flat) for layer in range(4)]
    assert kinds == [True, True, True, False]


@torch.no_grad()
def test_a_split_is_the_base_model_within_its_window():
    base = small_decoder("flat_rope").double()
    done = extend_config(base.config, far("Split"), notes=NOTES)
    assert done.config.encoding["window"] == done.reports[0].original.length == 40
    model = retrofitted(base, far("Split", window=12)).double()
    tokens, at = random_batch(2, 40, seed=3, documents=0.0)
    near, whole = (each.logits(tokens, at) for each in (model, base))
    torch.testing.assert_close(near[:, :12], whole[:, :12])
    assert not torch.allclose(near[:, 12:], whole[:, 12:])


BIPE = target("Bilevel", intra=BARE["learned"], inter=BARE["rope"])
DYNAMIC = target("RoPE", head_width=HEAD_WIDTH, stretch=far("DynamicYaRN", original_length=9))
MIXED = layers(a=BARE["rope"], b=BARE["nope"])


@pytest.mark.parametrize(
    ("encoding", "strategy", "notes", "told"),
    [
        (BARE["alibi"], far("Gated"), NOTES, r"needs flat RoPE, was: ALiBi"),
        (BIPE, far("Swap"), NOTES, r"Swap needs flat RoPE, was: Bilevel\(Learned, RoPE\)"),
        (MIXED, far("Gated"), NOTES, r"was: Layers\(RoPE, NoPE\)"),
        (BARE["rope"], far("Gated"), {}, "set stretch.step, the tokens per segment"),
        (BARE["rope"], far("Split"), {}, "have no row_length"),
        (BARE["rope_yarn"], far("Split"), NOTES, "without stretch: use gated or swap"),
        (BARE["rope"], far("Swap", flat_layers=2), NOTES, r"below n_layer \(2\), was: 2"),
        (BARE["rope"], far("Swap", flat_layers=-1), NOTES, "flat_layers must be at least 0"),
        (BARE["rope"], far("Gated", step=-1.0), NOTES, "step must be at least 0, was: -1.0"),
        (BARE["rope"], far("Homotopy", over=0.0), NOTES, "over must be above 0 and at most 1"),
        (DYNAMIC, far("Gated"), NOTES, "must not have a dynamic stretch, was: DynamicYaRN"),
    ],
)
def test_what_no_way_can_do_is_refused(encoding, strategy, notes, told):
    config = dataclasses.replace(small_decoder("flat_nope").config, encoding=encoding)
    with pytest.raises(ValueError, match=told):
        extend_config(config, strategy, notes=notes)
