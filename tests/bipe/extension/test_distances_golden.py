"""Parity of far methods with the released ReRoPE and BiPE, and with the windows of transformers."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from bipe import Decoder, Positions
from bipe.attention.passes.dispatch import members
from bipe.extension import LogN, Window
from bipe.extension.distances import log_n_scale
from bipe.layouts import config_to_official, from_official, to_official
from bipe.loss import token_nll
from tests.bipe.test_golden import DTYPES, FOLDER, arrays, close, positions_of, present, read

ENCODINGS, SCALARS = "encodings_torch.npz", "encodings_scalars.json"
WINDOWS = "sliding_window.json"
KEYS = np.load(FOLDER / ENCODINGS).files if (FOLDER / ENCODINGS).exists() else []
MODEL = "rope_A"  # the weights that ReRoPE was run on
PATCHED = sorted({key.rsplit("/", 1)[0] for key in KEYS if key.startswith("rerope/")
                  and key.endswith("/last_hidden")})  # fmt: skip
LOG_SCALE = [
    case
    for case in read("bipe/cases.json")["cases"]
    if (case.get("config_override") or {}) == {"log_scale": True}
]


def with_far(name, far, dtype):
    """A golden model with a method of bipe.extension."""
    model = from_official(
        read(f"bipe/{name}.config.json"), load_file(FOLDER / f"bipe/{name}.safetensors")
    )
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
    data, given = np.load(FOLDER / ENCODINGS), read(SCALARS)[name]
    far = {"_target_": "bipe.extension.ReRoPE", "window": given["window"]}
    if "scaling_factor" in given:
        far |= {"_target_": "bipe.extension.LeakyReRoPE", "factor": float(given["scaling_factor"])}
    model = with_far(MODEL, far | {"log_n": given["training_length"]}, dtype)
    model.attention = path
    tokens = torch.from_numpy(data["rerope/input_ids"]).long()
    hidden = model(tokens, Positions.from_marks(torch.zeros(tokens.shape, dtype=torch.uint8)))
    theirs = torch.from_numpy(data[f"{name}/last_hidden"]).double()
    torch.testing.assert_close(hidden.double(), theirs, atol=2e-5, rtol=0)
    nll = token_nll(hidden[:, :-1].flatten(0, 1), model.head.weight, tokens[:, 1:].flatten())
    theirs = torch.from_numpy(data[f"{name}/token_nll"]).flatten()
    torch.testing.assert_close(nll.double(), theirs, atol=2e-5, rtol=0)


@present(WINDOWS)
@pytest.mark.parametrize("case", read(WINDOWS) if (FOLDER / WINDOWS).exists() else [])
def test_the_window_equals_that_of_transformers(case):
    queries, keys = case["q_len"], case["kv_len"]
    ids = torch.arange(keys)[None]
    allowed = torch.ones(1, queries, keys, dtype=torch.bool).tril(keys - queries)
    passes = Window(window=case["window"]).passes(ids[:, keys - queries :], ids)
    (seen,) = members(passes, ids=ids, allowed=allowed)
    assert torch.equal(seen[0], torch.tensor(case["mask"]).bool())


@pytest.mark.parametrize("key", [key for key in KEYS if key.startswith("logn/") and "train" in key])
def test_log_n_equals_its_release(key):
    data = np.load(FOLDER / ENCODINGS)
    ids = torch.from_numpy(data["logn/position_1based"]).long()[None] - 1
    kind, _, length = key.removeprefix("logn/").rpartition("_train")
    far = LogN(original_length=int(length), clip=kind == "su_clip1")
    ours, theirs = far.scale(ids)[0], torch.from_numpy(data[key])
    torch.testing.assert_close(ours, theirs, atol=1e-7, rtol=1e-7)
    assert torch.equal(ours, log_n_scale(ids, int(length), clip=far.clip)[0])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("case", LOG_SCALE, ids=lambda case: case["case"])
@torch.no_grad()
def test_log_n_without_a_floor_is_the_log_scale_of_the_release(case, dtype):
    """Which takes the segment for the position under BiPE, and a row of tokens for its length."""
    official = read(f"bipe/{case['model']}.config.json") | case["config_override"]
    state = load_file(FOLDER / f"bipe/{case['model']}.safetensors")
    data, model = arrays(case), from_official(official, state).to(dtype)
    hidden = model(data["input_ids"].long(), positions_of(data))
    close(hidden[:, data["hidden_pos"].long()], data["last_hidden"], case)
    close(model.head(hidden)[:, data["logits_pos"].long()], data["logits"], case)
    if "alibi" not in case["kind"]:  # which transformers does not have
        written = config_to_official(model.config, max_length=64)
        assert (written["log_scale"], written["train_scale"]) == (True, official["train_scale"])
        again = from_official(written, to_official(model))
        assert torch.equal(again(data["input_ids"].long(), positions_of(data)), hidden)
