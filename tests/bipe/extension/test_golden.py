"""Parity of context extension with its releases: frequencies, distances, windows, scaled models."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from bipe import Decoder, Positions, extension
from bipe.attention.passes import members
from bipe.encodings import RoPE
from bipe.encodings.rope import inverse_frequencies
from bipe.extension import LogN, Window
from bipe.extension.distances import log_n_scale
from bipe.layouts import config_to_official, from_official, to_official
from bipe.loss import token_nll
from bipe.positions import Lengths
from tests.bipe.test_golden import (
    DTYPES,
    FOLDER,
    TORCH,
    arrays,
    close,
    positions_of,
    present,
    read,
    released,
)

FILE = "rope_scaling.json"
SCALING = read(FILE) if (FOLDER / FILE).exists() else {"cases": [], "positions": []}
RTOL = 1e-6
SCALED = [
    case
    for case in read("bipe/cases.json")["cases"]
    if (case.get("config_override") or {}).get("rope_scaling")
]


def strategy(case):
    original = {"original_length": case.get("original_max_position_embeddings")}
    factor = {"factor": float(case.get("factor", 1))}
    match case["type"]:
        case "yarn" | "yarn_options":
            return extension.YaRN(**factor, **original, **case.get("options", {}))
        case "yarn_truncate_false":
            return extension.YaRN(**factor, **original, truncate=False)
        case "linear":
            return extension.Linear(**factor)
        case "ntk_static":
            return extension.NTKAware(factor=float(case["alpha"]))
        case "ntk_by_parts_v1":
            return extension.NTKByParts(**factor, **original)
        case "dynamic":
            return extension.DynamicNTK(**factor, original_length=case["max_position_embeddings"])
        case "dynamic_yarn":
            return extension.DynamicYaRN(**original)
        case "llama3":
            turns = {name: float(case[name]) for name in ("low_freq_factor", "high_freq_factor")}
            return extension.Llama3(**factor, **original, **turns)
        case "longrope":
            lists = {name: case[name] for name in ("short_factor", "long_factor")}
            given = case["attention_factor_given"]
            return extension.LongRoPE(**factor, **original, **lists, attention_factor=given)
    raise AssertionError(case["type"])


def label(case):
    names = ("type", "dim", "base", "factor", "alpha", "seq_len")
    return "-".join(str(case[name]) for name in names if case.get(name) is not None)


@present(FILE)
@pytest.mark.parametrize("case", SCALING["cases"], ids=label)
def test_frequencies_equal_their_references(case):
    length = case.get("seq_len")
    inv_freq, factor = strategy(case).frequencies(
        inverse_frequencies(width=case["dim"], theta=float(case["base"])),
        theta=float(case["base"]),
        length=None if length is None else torch.tensor(length),
    )
    # The release of YaRN divides positions instead of frequencies under PI.
    names = ("transformers",) if case["type"] == "linear" else ("transformers", "yarn_repo")
    found = [case[name] for name in names if name in case]
    assert found
    for theirs in found:
        np.testing.assert_allclose(inv_freq, theirs["inv_freq"], rtol=RTOL)
        expected = theirs.get("attention_factor", theirs.get("mscale", 1.0))
        assert float(factor) == pytest.approx(expected, rel=RTOL)


@present(FILE)
@pytest.mark.parametrize(
    "case", [case for case in SCALING["cases"] if "cos_at_positions" in case], ids=label
)
def test_cosines_and_sines_equal_their_references(case):
    rope = RoPE(head_width=case["dim"], theta=float(case["base"]), stretch=strategy(case))
    turned = rope.rotation(torch.tensor([SCALING["positions"]])).to(torch.float32)
    for ours, name in ((turned.cos, "cos_at_positions"), (turned.sin, "sin_at_positions")):
        np.testing.assert_allclose(ours[0], case[name], atol=1e-4)  # angles there are float32


@present(FILE)
def test_a_length_fixed_before_reproduces_the_stateful_sequence_of_transformers():
    """It keeps the frequencies of the longest call until one fits the original length again."""
    data = SCALING["hf_dynamic_stateful_sequence"]
    original = data["max_position_embeddings"]
    dynamic = extension.DynamicNTK(factor=data["factor"], original_length=original)
    base, longest = inverse_frequencies(width=data["dim"], theta=10000.0), 0
    for step in data["steps"]:
        longest = max(longest, step["seq_len"]) if step["seq_len"] > original else 0
        ours, _ = dynamic.frequencies(base, theta=10000.0, length=torch.tensor(longest))
        np.testing.assert_allclose(ours, step["inv_freq"], rtol=RTOL)


@pytest.mark.parametrize("name", TORCH.of("ntk_mixed/"))
def test_ntk_mixed_equals_its_author(name):
    parts = {"width": "_d", "factor": "_k", "exponent": "_b"}
    values = {key: float(name.split(mark)[1].split("_")[0]) for key, mark in parts.items()}
    base = inverse_frequencies(width=int(values.pop("width")), theta=10000.0)
    ours, _ = extension.NTKMixed(**values).frequencies(base, theta=10000.0)
    torch.testing.assert_close(ours, TORCH[name], rtol=1e-5, atol=0)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("case", SCALED, ids=lambda case: case["case"])
def test_a_scaled_model_equals_the_release(case, dtype):
    data = arrays(case)
    model = released(case["model"], dtype, **case["config_override"])
    tokens, at = data["input_ids"].long(), positions_of(data)
    # The release counts tokens, whatever turns the rotation, and keeps the longest it has seen.
    batch, length = tokens.shape
    if case["case"].endswith("_then_short"):
        length = max(d["input_ids"].shape[1] for d in map(arrays, same_instance(case)))
    longest = torch.full((batch,), length)
    at = replace(at, lengths=Lengths(token=longest, inter=longest, intra=longest))

    hidden = model(tokens, at)
    close(hidden[:, data["hidden_pos"].long()], data["last_hidden"], case)
    close(model.head(hidden)[:, data["logits_pos"].long()], data["logits"], case)
    nll = token_nll(hidden[:, :-1].flatten(0, 1), model.head.weight, tokens[:, 1:].flatten())
    close(nll.view(batch, -1), data["token_nll"], case)


def same_instance(case):
    """Cases that ran before a `_then_short` one on the same model."""
    stem = case["case"].removesuffix("_then_short")
    return [other for other in SCALED if other["case"] in (stem, f"{stem}_then_long")]


ROPE = {"kind": "rope"}  # of the weights that ReRoPE was run on
WINDOWS = "sliding_window.json"
PATCHED = [case for case in TORCH.cases("rerope") if f"{case}/last_hidden" in TORCH.names]
LOG_SCALE = [
    case
    for case in read("bipe/cases.json")["cases"]
    if (case.get("config_override") or {}) == {"log_scale": True}
]


def with_far(name, far, dtype):
    model = released(name, dtype)
    encoding = dict(model.config.encoding)
    if not encoding["_target_"].endswith("Bilevel"):
        encoding = {"_target_": "bipe.encodings.Flat", "encoding": encoding}
    longer = Decoder(replace(model.config, encoding={**encoding, "far": far}))
    longer.load_state_dict(model.state_dict())
    return longer.to(dtype)


@pytest.mark.parametrize("path", ["auto", "chunked", "eager"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", PATCHED)
@torch.no_grad()
def test_rerope_equals_its_release(name, dtype, path):
    given = read("encodings_scalars.json")[name]
    far = {"_target_": "bipe.extension.ReRoPE", "window": given["window"]}
    if "scaling_factor" in given:
        far |= {"_target_": "bipe.extension.LeakyReRoPE", "factor": float(given["scaling_factor"])}
    model = with_far("rope_A", far | {"log_n": given["training_length"]}, dtype)
    model.attention = path
    tokens = TORCH["rerope/input_ids"]
    hidden = model(tokens, Positions.from_marks(torch.zeros(tokens.shape, dtype=torch.uint8)))
    close(hidden, TORCH[f"{name}/last_hidden"], ROPE)
    nll = token_nll(hidden[:, :-1].flatten(0, 1), model.head.weight, tokens[:, 1:].flatten())
    close(nll, TORCH[f"{name}/token_nll"].flatten(), ROPE)


@present(WINDOWS)
@pytest.mark.parametrize("case", read(WINDOWS) if (FOLDER / WINDOWS).exists() else [])
def test_the_window_equals_that_of_transformers(case):
    queries, keys = case["q_len"], case["kv_len"]
    ids = torch.arange(keys)[None]
    allowed = torch.ones(1, queries, keys, dtype=torch.bool).tril(keys - queries)
    passes = Window(window=case["window"]).passes(ids[:, keys - queries :], ids)
    (seen,) = members(passes, ids=ids, allowed=allowed)
    assert torch.equal(seen[0], torch.tensor(case["mask"]).bool())


@pytest.mark.parametrize("key", [key for key in TORCH.of("logn/") if "train" in key])
def test_log_n_equals_its_release(key):
    ids = TORCH["logn/position_1based"].long()[None] - 1
    kind, _, length = key.removeprefix("logn/").rpartition("_train")
    far = LogN(original_length=int(length), clip=kind == "su_clip1")
    ours, theirs = far.scale(ids)[0], torch.from_numpy(TORCH.data[key])
    torch.testing.assert_close(ours, theirs, atol=1e-7, rtol=1e-7)
    assert torch.equal(ours, log_n_scale(ids, int(length), clip=far.clip)[0])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("case", LOG_SCALE, ids=lambda case: case["case"])
@torch.no_grad()
def test_log_n_without_a_floor_is_the_log_scale_of_the_release(case, dtype):
    """Which takes the segment for the position under BiPE, and a row of tokens for its length."""
    data, model = arrays(case), released(case["model"], dtype, **case["config_override"])
    hidden = model(data["input_ids"].long(), positions_of(data))
    close(hidden[:, data["hidden_pos"].long()], data["last_hidden"], case)
    close(model.head(hidden)[:, data["logits_pos"].long()], data["logits"], case)
    if "alibi" not in case["kind"]:  # which transformers does not have
        written = config_to_official(model.config, max_length=64)
        length = read(f"bipe/{case['model']}.config.json")["train_scale"]
        assert (written["log_scale"], written["train_scale"]) == (True, length)
        again = from_official(written, to_official(model))
        assert torch.equal(again(data["input_ids"].long(), positions_of(data)), hidden)
