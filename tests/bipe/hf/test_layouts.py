"""Models of strangers, as transformers makes them: read exactly, or refused with the reason."""

import pytest
import torch
import transformers
from transformers import AutoModelForCausalLM

from bipe import Positions
from bipe.checkpoint import CheckpointError
from bipe.layouts import from_official, to_official
from bipe.layouts.folders import read_folder, write_folder
from tests.bipe.hf.conftest import VOCABULARY, filled, ids_of, llama_config

LLAMA3 = {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0}
LLAMA3 |= {"high_freq_factor": 4.0, "original_max_position_embeddings": 16}
READ = {
    "Llama": {},
    "Llama_tied": {"tie_word_embeddings": True},
    "Llama_llama3": {"rope_parameters": LLAMA3},
    "Mistral": {"sliding_window": None},
    "Qwen2": {},
    "Qwen3": {},
}
WINDOWS = {"use_sliding_window": True, "sliding_window": 16, "max_window_layers": 1}
REFUSED = {
    "Gemma": ({}, "model_type must be one of llama, .*was: 'gemma', whose"),
    "Gemma3": ({}, "was: 'gemma3_text'"),
    "Granite": ({}, "was: 'granite'"),
    "Mistral": ({"sliding_window": 16}, "attend to all tokens, was: sliding_window=16"),
    "Llama": ({"hidden_act": "gelu"}, "hidden_act must be 'silu' or 'swish' .*was: 'gelu'"),
    "Llama_biased": ({"mlp_bias": True}, "mlp_bias must be False"),
    "Llama_biases": ({"attention_bias": True}, "attention_bias must be false"),
    "Llama_scaled": ({"logits_scaling": 8.0}, "logits_scaling must be 1"),
    "Llama_capped": ({"final_logit_softcapping": 30.0}, "final_logit_softcapping must be absent"),
    "Qwen2": (WINDOWS, "all layers must attend to all tokens, was: sliding_attention"),
}


def stranger(name, *, vocab_size=VOCABULARY, **keys):
    cls = getattr(transformers, f"{name.partition('_')[0]}ForCausalLM")
    torch.manual_seed(0)
    config = llama_config(cls.config_class, head_dim=8, **keys)
    config.vocab_size = vocab_size
    return filled(cls(config))


def same(one, other):
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)


@torch.no_grad()
@pytest.mark.parametrize("name", READ)
def test_a_strangers_model_is_read_and_becomes_one_of_transformers_again(name, tmp_path):
    theirs = stranger(name, **READ[name])
    theirs.save_pretrained(tmp_path / "theirs")
    ours, _ = read_folder(tmp_path / "theirs")
    same(to_official(ours), theirs.state_dict())
    ids = ids_of(2, 40)
    at = Positions.from_marks(torch.zeros_like(ids).byte(), packed=False)
    expected = theirs(ids).logits
    torch.testing.assert_close(ours.logits(ids, at), expected, atol=2e-5, rtol=1e-4)
    write_folder(ours, tmp_path / "ours", max_length=512)
    again = AutoModelForCausalLM.from_pretrained(tmp_path / "ours")
    assert type(again) is type(theirs) or name == "Mistral"  # which is a LLaMA without windows
    assert torch.equal(again(ids).logits, expected)


@pytest.mark.parametrize("name", REFUSED)
def test_a_model_that_computes_otherwise_is_refused(name):
    keys, reason = REFUSED[name]
    theirs = stranger(name, **keys)
    with pytest.raises(CheckpointError, match=reason):
        from_official(theirs.config.to_dict(), theirs.state_dict())


def test_missing_weights_and_other_shapes_are_named():
    theirs = stranger("Llama").bfloat16()
    config, state = theirs.config.to_dict(), dict(theirs.state_dict())
    assert from_official(config, state).tokens.weight.dtype == torch.bfloat16
    name = "model.layers.1.mlp.up_proj.weight"
    without = {key: each for key, each in state.items() if key != name}
    for keys, weights, reason in (
        ({}, {**state, name: torch.zeros(65, 32)}, rf"{name} must be \(64, 32\) according to the"),
        ({}, {**state, "x": torch.zeros(1)}, r"unknown layout: \['x'\]"),
        ({}, without, f"{name} is missing"),
        ({"hidden_size": None}, state, "hidden_size must be a whole number, was: None"),
        ({"rpe_type": "fire"}, state, "rpe_type must be one of rope, alibi, .*was: 'fire'"),
    ):
        with pytest.raises(CheckpointError, match=reason):
            from_official({**config, **keys}, weights)
