"""Recomputed blocks, few rows, widths of heads, norms and biases of projections; what is stored."""

import pytest
import torch
from torch import nn

from bipe import Decoder, DecoderConfig
from bipe.checkpoint import load_model, save_model
from bipe.decoder import Projection
from tests.bipe.conftest import (
    N_HEAD,
    ONE_EACH,
    SCHEMES,
    WIDTH,
    cached_equals_uncached,
    random_batch,
    small_decoder,
    target,
)
from train.fit.flops import block_weights, step_flops
from train.fit.parallel.sharded import materialize


def gradients(scheme, kept, **how):
    """Loss and gradients of a model; `kept`: gets the bytes stored for the backward pass."""
    model = small_decoder(scheme, **how).double()

    def keep(tensor):
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        loss = model.logits(*random_batch(2, 60, seed=0)).logsumexp(-1).square().sum()
    return loss, torch.autograd.grad(loss, list(model.parameters()))


@pytest.mark.parametrize("scheme", ONE_EACH)
def test_recomputing_keeps_less_for_the_same_loss_and_gradients(scheme):
    less, more = {}, {}
    (plain, grads), (again, others) = (
        gradients(scheme, more),
        gradients(scheme, less, recompute=True),
    )
    assert torch.equal(plain, again)
    for one, other in zip(grads, others, strict=True):
        torch.testing.assert_close(one, other, atol=1e-12, rtol=1e-12)
    assert sum(less.values()) < 0.8 * sum(more.values())


@pytest.mark.parametrize("shape", [(1, 1), (1, 2), (8, 1), (3, 3), (0, 1)], ids=str)
@pytest.mark.parametrize(
    ("dtype", "tolerance"),
    [(torch.float64, 1e-12), (torch.float32, 1e-5), (torch.bfloat16, 1e-2)],
    ids=str,
)
@pytest.mark.parametrize("least", [1, 5])
def test_few_rows_equal_the_plain_layer(shape, dtype, tolerance, least, monkeypatch):
    monkeypatch.setattr("bipe.decoder._LEAST", least)
    torch.manual_seed(0)
    layer, x = Projection(24, 640).to(dtype), torch.randn(*shape, 24).to(dtype)
    plain = nn.functional.linear(x, layer.weight).detach()
    with torch.no_grad():
        found = layer(x)
    assert found.shape == plain.shape and found.dtype == dtype
    torch.testing.assert_close(found, plain, atol=tolerance, rtol=tolerance)


def test_gradients_and_autocast_go_the_plain_way():
    torch.manual_seed(1)
    layer, x = Projection(24, 96), torch.randn(2, 1, 24)
    layer(x).square().sum().backward()
    assert layer.weight.grad is not None and list(layer.state_dict()) == ["weight"]
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        assert layer(x).dtype == torch.bfloat16


ROPE = {"encoding": target("RoPE", head_width=12)}
OPTIONS = {
    "wide_heads": {"head_width": 12, **ROPE},
    "wide_shared_heads": {"head_width": 12, "n_kv_head": 2, **ROPE},
    "odd_width": {"width": 50, "head_width": 12, **ROPE},
    "tied_head": {"tied_head": True},
    "qk_norm": {"qk_norm": "both"},
    "key_norm": {"qk_norm": "key"},
    "qkv_bias": {"qkv_bias": "qkv"},
    "qk_bias": {"qkv_bias": "qk", "n_kv_head": 3},
    "all": {"head_width": 12, "n_kv_head": 2, "qk_norm": "both", "qkv_bias": "qkv", **ROPE},
}
options = pytest.mark.parametrize("name", OPTIONS)


def model_with(name: str) -> Decoder:
    """A model with options, whose vectors are not those of the start."""
    model = small_decoder("flat_rope", **OPTIONS[name])
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim < 2:
                parameter.add_(torch.randn(parameter.shape, generator=generator), alpha=0.3)
    return model


@options
def test_a_model_with_options_is_cached_trained_and_stored(name, tmp_path):
    model = model_with(name)
    tokens, at = random_batch(2, 20, seed=2)
    model(tokens, at).square().sum().backward()
    for each, parameter in model.named_parameters():
        assert each == "head.weight" or parameter.grad.abs().sum() > 0, each
    save_model(model, tmp_path / "model")
    again, _ = load_model(tmp_path / "model")
    assert again.config == model.config
    assert (again.head.weight is again.tokens.weight) == ("tied_head" in OPTIONS[name])
    state = again.state_dict()
    assert all(torch.equal(state[key], value) for key, value in model.state_dict().items())
    cached_equals_uncached(model, [7] + [1] * 13)


@options
def test_the_counts_are_those_of_the_model(name):
    model = model_with(name)
    config, block = model.config, model.blocks[0]
    assert block_weights(config) == sum(p.numel() for p in block.parameters() if p.ndim == 2)
    heads = config.n_head * config.head_width
    gained = step_flops(config, row_length=8, keys=5.0).forward
    gained -= step_flops(config, row_length=8, keys=1.0).forward
    assert gained == 4 * 4 * config.n_layer * heads


@options
def test_what_has_no_memory_starts_as_what_has(name):
    config = small_decoder("flat_rope", **OPTIONS[name]).config
    with torch.device("meta"):
        model = Decoder(config)
    materialize(model, torch.device("cpu"))
    whole = dict(Decoder(config).named_parameters())
    for each, parameter in model.named_parameters():
        if parameter.ndim < 2:
            assert torch.equal(parameter, whole[each]), each
            assert (parameter == (0 if "bias" in each else 1)).all(), each


def test_key_norm_divides_scores_by_the_size_of_keys():
    attention = small_decoder("flat_nope", qk_norm="key").blocks[0].attention
    seen = []
    x = torch.randn(1, 5, WIDTH)
    attention(x, None, lambda q, k, v: seen.append((q, k)) or v, None)
    ((q, k),) = seen
    plain = attention.key(x).unflatten(-1, (N_HEAD, -1)).transpose(1, 2)
    scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
    expected = q @ (plain / plain.norm(dim=-1, keepdim=True)).transpose(-1, -2)
    torch.testing.assert_close(scores, expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("scheme", ONE_EACH)
def test_a_saved_model_computes_the_same(scheme, tmp_path):
    model = small_decoder(scheme)
    save_model(model, tmp_path / "model", notes={"row_length": 40})
    loaded, notes = load_model(tmp_path / "model")
    tokens, at = random_batch(2, 40, seed=0)
    assert notes == {"row_length": 40} and loaded.config == model.config
    assert torch.equal(loaded(tokens, at), model(tokens, at))


def test_an_encoding_with_a_width_of_its_own_comes_back(tmp_path):
    waves = {"_target_": "bipe.encodings.sandwich.Sandwich", "n_head": 4, "width": 64}
    small = {"vocab_size": 64, "width": 32, "n_layer": 1, "n_head": 4, "mlp_width": 32}
    save_model(Decoder(DecoderConfig(**small, encoding=waves)), tmp_path / "model")
    assert load_model(tmp_path / "model")[0].config.encoding == waves
    waves["width"] = 1 << 40
    with pytest.raises(ValueError, match="even and from 2 to 65536, was: 1099511627776"):
        Decoder(DecoderConfig(**small, encoding=waves))


def test_saving_again_replaces_and_a_failed_save_leaves_what_was(tmp_path):
    for seed in (0, 1):
        save_model(small_decoder("flat_rope", seed=seed), tmp_path / "model")
    with pytest.raises(TypeError):
        save_model(small_decoder("flat_alibi"), tmp_path / "model", notes={"bad": object()})
    loaded, _ = load_model(tmp_path / "model")
    assert loaded.config.encoding == SCHEMES["flat_rope"]
    assert torch.equal(loaded.head.weight, small_decoder("flat_rope", seed=1).head.weight)
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
