"""Configurations of transformers are read into strategies, and written back as they were."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bipe.build import build
from bipe.checkpoint import CheckpointError
from bipe.encodings.rope import inverse_frequencies
from bipe.extension.hugging_face import read_stretch, write_stretch
from bipe.layouts import config_from_official, config_to_official
from tests.bipe.conftest import BARE, bilevel, rope, small_decoder, stretch

ORIGINAL = "original_max_position_embeddings"
factors = st.floats(1.01, 64.0)


def written(kind, optional=None, *, original=True, **fields):
    """Parameters of a rope type as transformers writes them."""
    always = {"rope_type": st.just(kind), "factor": factors, **fields}
    always |= {ORIGINAL: st.integers(2, 9000)} if original else {}
    return st.fixed_dictionaries(always, optional=optional)


RATIO = st.floats(0.5, 2.0)
BETAS = {"beta_fast": st.floats(8.0, 64.0), "beta_slow": st.floats(0.5, 4.0)}
LISTS = dict.fromkeys(
    ("short_factor", "long_factor"), st.lists(st.floats(1.0, 32.0), min_size=4, max_size=4)
)
WRITTEN = st.one_of(
    written("linear", original=False),
    written("dynamic"),
    written("yarn", {"attention_factor": RATIO, "mscale": RATIO}, **BETAS, truncate=st.booleans()),
    written("llama3", low_freq_factor=RATIO, high_freq_factor=st.floats(3.0, 8.0)),
    written("longrope", {"attention_factor": st.floats(1.0, 2.0)}, **LISTS),
)


@pytest.mark.parametrize("name", ["rope_scaling", "rope_parameters"])
@given(parameters=WRITTEN)
def test_what_is_read_is_written_as_it_was(name, parameters):
    read = read_stretch({name: parameters, "max_position_embeddings": 99_999})
    build(read)
    theta = 10000.0
    assert write_stretch(read, theta=theta, head_width=8) == {**parameters, "rope_theta": theta}


@given(parameters=WRITTEN, bipe=st.booleans())
def test_a_configuration_of_a_model_comes_back(parameters, bipe):
    turns = rope(theta=500000.0, stretch=read_stretch({"rope_scaling": parameters}))
    encoding = bilevel(BARE["learned"], turns) if bipe else turns
    config = small_decoder("flat_nope", encoding=encoding, n_kv_head=2).config
    official = config_to_official(config, max_length=4096)
    assert config_from_official(official, intra_length=24) == config
    for absent in ("rope_scaling", "rope_parameters"):
        part = {k: v for k, v in official.items() if k not in (absent, "rope_theta")}
        assert config_from_official(part, intra_length=24) == config


def test_ntk_aware_is_written_as_the_larger_theta_that_it_is():
    made = write_stretch(stretch("NTKAware", factor=8.0), theta=10000.0, head_width=64)
    assert made["rope_type"] == "default"
    base = inverse_frequencies(width=64, theta=10000.0)
    ours, _ = build(stretch("NTKAware", factor=8.0)).frequencies(base, theta=10000.0)
    theirs = inverse_frequencies(width=64, theta=made["rope_theta"])
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=0)


def test_old_names_and_lengths_beside_the_dictionary_are_read():
    phi3 = {
        "rope_scaling": {"type": "su", "short_factor": [1, 1.5], "long_factor": [2, 4]},
        "max_position_embeddings": 131072,
        ORIGINAL: 4096,
    }
    assert read_stretch(phi3) == {
        "_target_": "bipe.extension.LongRoPE",
        "short_factor": [1.0, 1.5],
        "long_factor": [2.0, 4.0],
        "original_length": 4096,
        "factor": 32.0,
    }
    yarn = {"rope_scaling": {"type": "yarn", "factor": 4, "mscale": None, "finetuned": True}}
    read = read_stretch({**yarn, "max_position_embeddings": 2048})
    assert read == {"_target_": "bipe.extension.YaRN", "factor": 4.0, "original_length": 2048}
    for nothing in ({}, {"rope_scaling": None}, {"rope_parameters": {"rope_type": "default"}}):
        assert read_stretch(nothing) is None


def test_what_has_no_counterpart_is_named():
    default = {"rope_type": "default", "partial_rotary_factor": 0.5}
    for name, held, message in (
        ("rope_scaling", {"type": "ntk"}, "rope_scaling.rope_type must be one of .*was: 'ntk'"),
        ("rope_scaling", {"type": "linear", "factor": 2, "beta_fast": 3}, "'beta_fast' is not"),
        ("rope_scaling", {"type": "yarn", "factor": 2}, f"rope_scaling.{ORIGINAL} or max_posi"),
        ("rope_scaling", {"type": "dynamic", "factor": 1, ORIGINAL: 9}, "factor of 'dynamic' must"),
        ("rope_parameters", {"rope_type": "linear"}, "rope_parameters.factor must be set"),
        ("rope_parameters", default, "rope_parameters.partial_rotary_factor must be 1"),
    ):
        with pytest.raises(ValueError, match=message):
            read_stretch({name: held})


@given(one=WRITTEN, other=WRITTEN)
def test_two_names_that_do_not_agree_are_refused(one, other):
    plain = {"rope_type": "default", "rope_theta": 1e4}
    for held in ({"rope_scaling": one}, {"rope_parameters": one}):
        assert read_stretch(held | {"max_position_embeddings": 99}) is not None
    assert read_stretch({"rope_scaling": one, "rope_parameters": one}) == read_stretch(held)
    for second in (plain, other) if one != other else (plain,):
        with pytest.raises(ValueError, match="rope_parameters and rope_scaling must agree"):
            read_stretch({"rope_scaling": one, "rope_parameters": second})


def test_what_transformers_does_not_have_is_not_written():
    config = small_decoder("flat_nope", encoding=rope(stretch=stretch("NTKMixed"))).config
    with pytest.raises(CheckpointError, match="no rope type for NTKMixed"):
        config_to_official(config, max_length=9)
    for scheme in ("flat_alibi", "flat_rope_interleaved", "bilevel_rope_rope", "chain"):
        with pytest.raises(CheckpointError, match="has no name for this encoding"):
            config_to_official(small_decoder(scheme).config, max_length=9)
    official = config_to_official(small_decoder("flat_rope").config, max_length=9)
    scaled = {"rope_parameters": {"rope_type": "linear", "factor": 2.0}, "rpe_type": "alibi"}
    with pytest.raises(CheckpointError, match="alibi has no rotary frequencies"):
        config_from_official({**official, **scaled})
