"""Parity with the released BiPE, elementwise, on whatever cases the golden folder holds."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from bipe.decoder import Decoder
from bipe.encodings import ALiBi, RoPE
from bipe.encodings.alibi import alibi_slopes
from bipe.layouts import from_official, to_official
from bipe.loss import summed_cross_entropy, token_nll
from bipe.positions import NO_DOCUMENT, Positions
from segmenters import official_marks

FOLDER = Path(os.environ.get("BIPE_GOLDEN", Path(__file__).parent.parent / "golden"))
KINDS = ("rope", "alibi", "bipe_rope", "bipe_alibi")
DTYPES = (torch.float32, torch.float64)


def read(path: str):
    return json.loads((FOLDER / path).read_text())


def present(name: str):
    """A folder of the user's own may hold a part of the data; the repository's holds all."""
    absent = "BIPE_GOLDEN" in os.environ and not (FOLDER / name).exists()
    return pytest.mark.skipif(absent, reason=f"{FOLDER} holds no {name}")


class Golden:
    """The arrays of a file by name, in float64; nothing if a folder of the user's lacks it."""

    def __init__(self, name: str) -> None:
        path = FOLDER / name
        self.data = np.load(path) if path.exists() else None
        self.names = [] if self.data is None else self.data.files

    def __getitem__(self, name: str) -> Tensor:
        found = torch.from_numpy(np.asarray(self.data[name]))
        return found.double() if found.is_floating_point() else found.long()

    def of(self, prefix: str) -> list[str]:
        return [name for name in self.names if name.startswith(prefix)]

    def cases(self, prefix: str, depth: int = 2) -> list[str]:
        found = (name.split("/") for name in self.of(f"{prefix}/"))
        return sorted({"/".join(parts[:depth]) for parts in found if len(parts) > depth})


TORCH, TF, JAX = (Golden(f"encodings_{kind}.npz") for kind in ("torch", "tf", "jax"))


CASES = [
    case
    for case in read("bipe/cases.json")["cases"]
    # Frequency scaling and log-n belong to context extension.
    if case["kind"] in KINDS and not case.get("config_override")
]
ARRAYS = np.load(FOLDER / "bipe/cases.npz")
IDS = "bipe/position_ids.json"
POSITION_IDS = read(IDS) if (FOLDER / IDS).exists() else []


def arrays(case: dict) -> dict[str, Tensor]:
    prefix = case["case"] + "/"
    names = [name for name in ARRAYS.files if name.startswith(prefix)]
    return {name.removeprefix(prefix): torch.from_numpy(ARRAYS[name]) for name in names}


def released(name: str, dtype: torch.dtype, **changes) -> Decoder:
    """A model of the release, with changes of its configuration."""
    config = read(f"bipe/{name}.config.json") | changes
    return from_official(config, load_file(FOLDER / f"bipe/{name}.safetensors")).to(dtype)


def model_of(case: dict, dtype: torch.dtype) -> Decoder:
    model = released(case["model"], dtype)
    if case.get("patched"):
        table = model.scheme.intra.table.weight
        ramp = torch.linspace(-1, 1, table.shape[1]).half().to(dtype)
        with torch.no_grad():
            table[-1] = ramp
    return model.train()


def marks_of(tokens: np.ndarray) -> Tensor:
    """Marks by the released rule, on token ids."""
    return torch.from_numpy(official_marks(tokens).astype(np.uint8) << 1)


def positions_of(data: dict[str, Tensor]) -> Positions:
    """The ids of the release, which count padding like any token; attention does not see it."""
    marks = marks_of(data["input_ids"].numpy())
    at = Positions.from_marks(marks)
    if "attention_mask" not in data:
        return at
    document = at.document.masked_fill(data["attention_mask"] == 0, NO_DOCUMENT)
    return Positions(document=document, token=at.token, inter=at.inter, intra=at.intra)


def tolerance(case: dict) -> float:
    # The release adds an unshifted bias of up to slope * 96 * segments: its own rounding.
    return 2e-4 if case["kind"] == "bipe_alibi" else 2e-5


def close(ours: Tensor, theirs: Tensor, case: dict) -> None:
    torch.testing.assert_close(ours.double(), theirs.double(), atol=tolerance(case), rtol=0)


@pytest.mark.parametrize(
    ("path", "dtype"),
    [("auto", torch.float32), ("auto", torch.float64), ("eager", torch.float64)],
    ids=str,
)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["case"])
def test_forward_equals_the_release(case, dtype, path):
    data, model = arrays(case), model_of(case, dtype)
    model.attention = path
    tokens, at = data["input_ids"].long(), positions_of(data)
    hidden = model(tokens, at)
    logits = model.head(hidden)
    nll = token_nll(hidden[:, :-1].flatten(0, 1), model.head.weight, tokens[:, 1:].flatten())
    nll = nll.view(tokens.shape[0], -1)

    seen = torch.ones_like(tokens, dtype=torch.bool)
    if "attention_mask" in data:
        seen = data["attention_mask"] == 1
    for name, ours in (("hidden", hidden), ("logits", logits)):
        at_ = data[f"{name}_pos"].long()
        theirs = data["last_hidden" if name == "hidden" else "logits"]
        close(ours[:, at_][seen[:, at_]], theirs[seen[:, at_]], case)
    # A token is scored if both it and the one that predicts it are seen.
    scored = seen[:, 1:] & seen[:, :-1]
    close(nll[scored], data["token_nll"][scored], case)
    if "attention_mask" not in data:
        assert nll.mean().item() == pytest.approx(case["loss"], abs=tolerance(case))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    "case",
    [c for c in CASES if (FOLDER / f"bipe/{c['model']}.grads.json").exists()
     and c["case"].endswith("/main")],
    ids=lambda case: case["case"],
)  # fmt: skip
def test_gradients_equal_the_release(case, dtype):
    data, model = arrays(case), model_of(case, dtype)
    tokens = data["input_ids"].long()
    hidden = model(tokens, positions_of(data))[:, :-1].flatten(0, 1)
    targets = tokens[:, 1:].flatten()
    loss = summed_cross_entropy(hidden, model.head.weight, targets, chunk=50) / len(targets)
    loss.backward()
    assert loss.item() == pytest.approx(case["loss"], abs=tolerance(case))

    for parameter in model.parameters():
        parameter.data, parameter.grad = parameter.grad, None
    grads = to_official(model)
    # The release freezes the last row of both tables (padding rows); ours are trained.
    for name in ("model.embed_tokens.weight", "model.embeds.0.weight"):
        if name in grads:
            grads[name][-1] = 0
    norms = read(f"bipe/{case['model']}.grads.json")["grad_l2"]
    assert set(norms) == set(grads)
    for name, norm in norms.items():
        assert grads[name].norm().item() == pytest.approx(norm, rel=1e-4), name
    named = {
        "grad_q0": "model.layers.0.self_attn.q_proj.weight",
        "grad_embeds": "model.embeds.0.weight",
    }
    for key, name in named.items():
        if key in data:
            close(grads[name], data[key], case)


@present(IDS)
@pytest.mark.parametrize("index", range(len(POSITION_IDS)))
def test_position_ids_equal_the_release(index):
    entry = POSITION_IDS[index]
    marks = marks_of(np.asarray(entry["input_ids"]))
    at = Positions.from_marks(marks)
    assert at.inter.tolist() == entry["inter"]
    kinds = [key for key in entry if key.startswith("intra_ts")]
    assert kinds
    for key in kinds:
        scale = key.removeprefix("intra_ts")
        intra = at.intra.clamp(max=int(scale) - 1) if scale.isdigit() else at.intra
        assert intra.tolist() == entry[key], key


@present("encodings_scalars.json")
def test_slopes_equal_the_alibi_release():
    for heads, slopes in read("encodings_scalars.json")["alibi_slopes"].items():
        np.testing.assert_allclose(alibi_slopes(int(heads)), slopes, rtol=1e-7)


@present("encodings_torch.npz")
def test_alibi_bias_equals_x_transformers():
    theirs = TORCH["alibi/bias_xt"]
    n_head, n_query, n_key = theirs.shape
    k_ids = torch.arange(n_key)[None]
    bias = ALiBi(n_head=n_head).bias(k_ids[:, -n_query:], k_ids).dense(torch.float64)[0]
    past = torch.ones(n_query, n_key, dtype=torch.bool).tril(n_key - n_query)
    torch.testing.assert_close(bias[:, past], theirs[:, past], atol=1e-5, rtol=0)


@present("encodings_torch.npz")
@pytest.mark.parametrize("layout", ["interleaved", "half"])
def test_rope_layouts_equal_their_references(layout):
    q = TORCH["rope/interleaved_q"]
    rope = RoPE(head_width=q.shape[-1], interleaved=layout == "interleaved")
    ours = rope.rotation(torch.arange(q.shape[2]).expand(len(q), -1)).query(q)
    torch.testing.assert_close(ours, TORCH[f"rope/{layout}_out"], atol=1e-5, rtol=0)
