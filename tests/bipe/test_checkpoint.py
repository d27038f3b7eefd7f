"""Models on disk come back as they were, or say what is wrong with the folder."""

import pytest
import torch

from bipe import Decoder, DecoderConfig
from bipe.checkpoint import CheckpointError, load_model, save_model
from bipe.layouts import config_from_official, from_official, to_official
from tests.bipe.conftest import ONE_EACH, SCHEMES, random_batch, small_decoder


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


def test_a_tied_head_stays_tied(tmp_path):
    model = small_decoder("flat_rope", tied_head=True)
    save_model(model, tmp_path / "model")
    loaded, _ = load_model(tmp_path / "model")
    assert loaded.head.weight is loaded.tokens.weight
    assert torch.equal(loaded.head.weight, model.head.weight)


def test_saving_again_replaces_and_a_failed_save_leaves_what_was(tmp_path):
    for seed in (0, 1):
        save_model(small_decoder("flat_rope", seed=seed), tmp_path / "model")
    with pytest.raises(TypeError):
        save_model(small_decoder("flat_alibi"), tmp_path / "model", notes={"bad": object()})
    loaded, _ = load_model(tmp_path / "model")
    assert loaded.config.encoding == SCHEMES["flat_rope"]
    assert torch.equal(loaded.head.weight, small_decoder("flat_rope", seed=1).head.weight)
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


OFFICIAL = {
    "vocab_size": 61, "hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 6,
    "intermediate_size": 64, "rms_norm_eps": 1e-5,
}  # fmt: skip


@pytest.mark.parametrize(
    ("scheme", "kind"),
    [("flat_rope", "rope"), ("flat_alibi", "alibi"), ("bilevel_learned_rope", "bipe_rope")],
)
def test_the_official_layout_goes_and_comes_back(scheme, kind):
    model = small_decoder(scheme, n_kv_head=2)
    state, config = to_official(model), {**OFFICIAL, "rpe_type": kind, "num_key_value_heads": 2}
    tokens, at = random_batch(2, 40, seed=0)
    assert torch.equal(from_official(config, state)(tokens, at), model(tokens, at))
    # Buffers of the release are ignored, strangers are not.
    state["model.layers.0.self_attn.alibi"] = torch.zeros(1, 6, 1, 64)
    if kind == "alibi":
        from_official(config, state)
    state["model.layers.0.self_attn.q_proj.bias"] = torch.zeros(48)
    with pytest.raises(CheckpointError, match=r"unknown layout: .*'model.layers.0.self_attn.q_pro"):
        from_official(config, state)


def test_an_official_config_that_needs_more_is_refused():
    with pytest.raises(CheckpointError, match=r"rope_scaling.rope_type must be .*was: 'ntk-yarn'"):
        config_from_official({**OFFICIAL, "rope_scaling": {"type": "ntk-yarn", "factor": 4.0}})
    for length in (None, 1, "64"):
        with pytest.raises(CheckpointError, match=rf"train_scale.*for log_scale, was: {length}"):
            config_from_official({**OFFICIAL, "log_scale": True, "train_scale": length})
    with pytest.raises(CheckpointError, match=r"rpe_type must be one of rope, .*was: 'xpos'"):
        config_from_official({**OFFICIAL, "rpe_type": "xpos"})
