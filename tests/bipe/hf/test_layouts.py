"""Models of strangers, as transformers makes them: read exactly, or refused with the reason."""

import pytest
import torch
import transformers

from bipe import Positions
from bipe.checkpoint import CheckpointError
from bipe.layouts import config_to_official, from_official, to_official
from tests.bipe.hf.conftest import VOCABULARY, filled, llama_config

SIZES = {"head_dim": 8}
READ = {
    "Llama": {},
    "Llama_tied": {"tie_word_embeddings": True},
    "Llama_llama3": {
        "rope_parameters": {
            "rope_type": "llama3",
            "rope_theta": 500000.0,
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 16,
        }
    },
    "Mistral": {"sliding_window": None},
    "Qwen2": {},
    "Qwen3": {},
}
REFUSED = {
    "Gemma": ({}, "model_type must be one of llama, .*was: 'gemma'"),
    "Gemma3": ({}, "was: 'gemma3_text'"),
    "Granite": ({}, "was: 'granite'"),
    "Mistral": (
        {"sliding_window": 16},
        "all layers must attend to all tokens, was: sliding_window=16",
    ),
    "Llama": ({"hidden_act": "gelu"}, "hidden_act must be 'silu' or 'swish' .*was: 'gelu'"),
    "Llama_biased": ({"mlp_bias": True}, "mlp_bias must be False"),
    "Llama_scaled": ({"logits_scaling": 8.0}, "logits_scaling must be 1"),
    "Llama_capped": ({"final_logit_softcapping": 30.0}, "final_logit_softcapping must be absent"),
    "Qwen2": (
        {"use_sliding_window": True, "sliding_window": 16, "max_window_layers": 1},
        "all layers must attend to all tokens, was: sliding_attention",
    ),
}


def stranger(name, *, vocab_size=VOCABULARY, **keys):
    cls = getattr(transformers, f"{name.partition('_')[0]}ForCausalLM")
    torch.manual_seed(0)
    config = llama_config(cls.config_class, **SIZES, **keys)
    config.vocab_size = vocab_size
    return filled(cls(config))


@torch.no_grad()
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", READ)
def test_a_strangers_model_is_read(name, dtype):
    theirs = stranger(name, **READ[name]).to(dtype)
    ours = from_official(theirs.config.to_dict(), theirs.state_dict())
    assert ours.tokens.weight.dtype == dtype
    back = to_official(ours)
    assert back.keys() == theirs.state_dict().keys()
    assert all(torch.equal(back[key], each) for key, each in theirs.state_dict().items())
    if dtype == torch.float32:
        ids = torch.randint(1, VOCABULARY, (2, 40), generator=torch.Generator().manual_seed(0))
        at = Positions.from_marks(torch.zeros_like(ids).byte(), packed=False)
        torch.testing.assert_close(ours.logits(ids, at), theirs(ids).logits, atol=2e-5, rtol=1e-4)


@torch.no_grad()
@pytest.mark.parametrize("name", READ)
def test_what_was_read_is_a_model_of_transformers_again(name):
    theirs = stranger(name, **READ[name])
    ours = from_official(theirs.config.to_dict(), theirs.state_dict())
    config = config_to_official(ours.config, max_length=512)
    kind = transformers.AutoConfig.for_model(**config)
    again = transformers.AutoModelForCausalLM.from_config(kind).eval()
    again.load_state_dict(to_official(ours))
    ids = torch.arange(1, 30)[None]
    assert torch.equal(again(ids).logits, theirs(ids).logits)


@pytest.mark.parametrize("name", REFUSED)
def test_a_model_that_computes_otherwise_is_refused(name):
    keys, reason = REFUSED[name]
    theirs = stranger(name, **keys)
    with pytest.raises(CheckpointError, match=reason):
        from_official(theirs.config.to_dict(), theirs.state_dict())


def test_missing_weights_and_other_shapes_are_named():
    theirs = stranger("Llama")
    config, state = theirs.config.to_dict(), dict(theirs.state_dict())
    name = "model.layers.1.mlp.up_proj.weight"
    with pytest.raises(
        CheckpointError, match=rf"{name} must be \(64, 32\) according to the config"
    ):
        from_official(config, state | {name: torch.zeros(65, 32)})
    del state[name]
    with pytest.raises(CheckpointError, match=f"{name} is missing"):
        from_official(config, state)
    with pytest.raises(CheckpointError, match="hidden_size must be a whole number, was: None"):
        from_official({**config, "hidden_size": None}, state)
