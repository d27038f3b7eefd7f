"""Absolute encodings, and encodings at given positions, against their references."""

import math

import numpy as np
import pytest
import torch

from bipe.encodings import ALiBi, Learned, RoPE, Sinusoidal
from bipe.encodings.alibi import alibi_slopes
from bipe.encodings.complex_order import ComplexOrder, turned
from tests.bipe.test_golden import FOLDER, present

TORCH, TF, JAX = (f"encodings_{kind}.npz" for kind in ("torch", "tf", "jax"))
SINUSOIDS = {
    TORCH: {"interleaved_onmt": "interleaved", "concat_txl": "halves", "fairseq": "spread"},
    TF: {"t2t": "spread"},
    JAX: {"fixed": "halves"},
}


def names(file: str, prefix: str) -> list[str]:
    if not (FOLDER / file).exists():
        return []
    return [name for name in np.load(FOLDER / file).files if name.startswith(prefix)]


def read(file: str, name: str) -> torch.Tensor:
    found = torch.from_numpy(np.load(FOLDER / file)[name])
    return found.double() if found.is_floating_point() else found.long()


def close(ours, theirs, atol=1e-5):
    torch.testing.assert_close(ours, theirs, atol=atol, rtol=0)


WAVES = [
    (file, name, layout)
    for file, layouts in SINUSOIDS.items()
    for name in [*names(file, "sinusoid/"), *names(file, "randpe/fixed")]
    for kind, layout in layouts.items()
    if name.rpartition("/")[2].startswith(kind)
]


@pytest.mark.parametrize(("file", "name", "layout"), WAVES, ids=lambda x: str(x))
def test_sinusoids_equal_their_references(file, name, layout):
    theirs = read(file, name)
    time, width = theirs.shape
    start = int(name.rpartition("start")[2]) if "start" in name else 0
    ids = torch.arange(time)[None] + start
    ours = Sinusoidal(width=width, layout=layout).vectors(ids)[0]
    # fairseq zeroes the row of its padding id.
    there = theirs.abs().sum(-1) > 0
    assert there.sum() >= time - 1
    close(ours[there], theirs[there])


@present(TORCH)
def test_shape_is_sinusoids_at_shifted_positions():
    embeddings, offsets, trained, evaluated = (
        read(TORCH, f"shape/{name}") for name in ("emb", "offsets", "train_out", "eval_out")
    )
    time, _, width = embeddings.shape
    x = embeddings.transpose(0, 1) * math.sqrt(width)  # [b, t, c]; OpenNMT scales embeddings
    encoding, ids = Sinusoidal(width=width), torch.arange(time).expand(len(x), -1)
    close(encoding.embed(x, ids + offsets[:, None]).transpose(0, 1), trained)
    # Its evaluation has a fixed offset, beyond all those of training; ours has none.
    far = range(int(offsets.max()) + 1, 4096)
    off = (encoding.embed(x, ids + offset).transpose(0, 1) - evaluated for offset in far)
    assert any(each.abs().max() < 1e-5 for each in off)


@present(TF)
def test_complex_order_equals_its_reference():
    amplitudes, frequencies, words, positions, real, imaginary = (
        read(TF, f"complex_order/{name}")
        for name in ("W_amp", "W_pos_init", "ids", "position", "real", "imag")
    )
    amplitude = amplitudes[words]
    x = torch.cat((amplitude, torch.zeros_like(amplitude)), -1)  # a phase of zero
    ours = turned(x, frequencies[words] * positions[..., None])
    close(ours, torch.cat((real, imaginary), -1))


def test_complex_order_turns_each_pair_by_its_frequency():
    encoding, x = ComplexOrder(width=6).double(), torch.randn(1, 5, 6, dtype=torch.float64)
    z = torch.complex(x[..., :3], x[..., 3:])
    angles = torch.arange(5)[:, None] * encoding.frequencies
    expected = z * torch.polar(torch.ones_like(angles), angles)
    ours = encoding.embed(x, torch.arange(5)[None])
    close(ours, torch.cat((expected.real, expected.imag), -1), atol=1e-12)


@pytest.mark.parametrize(
    "name",
    [*names(JAX, "randpe/rope_plain"), *(n for n in names(JAX, "randpe/rope_") if n[-1] == "s")],
)
def test_rotations_at_real_and_random_positions_equal_theirs(name):
    if name.endswith("rope_plain"):
        positions = torch.arange(read(JAX, "randpe/rope_x_bthd").shape[1])
    elif name.endswith("rope_noisy_positions"):
        name, positions = "randpe/rope_noisy_out", read(JAX, name)
    else:
        positions = read(JAX, f"randpe/{name.partition('_at_')[2]}")
    x = read(JAX, "randpe/rope_x_bthd").transpose(1, 2)
    rope = RoPE(head_width=x.shape[-1], interleaved=True)
    turn = rope.rotation(positions.expand(len(x), -1))
    close(turn.query(x).transpose(1, 2), read(JAX, name))


@pytest.mark.parametrize("name", [*names(JAX, "randpe/alibi"), *names(JAX, "randpe/noisy_alibi")])
def test_alibi_at_random_distances_equals_theirs(name):
    theirs = read(JAX, name)
    n_head, n_query, _ = theirs.shape
    slopes = torch.tensor(alibi_slopes(n_head), dtype=torch.float64)
    distances = (-theirs[0, 0] / slopes[0]).round().long()  # to the keys after the first query
    # Theirs is not causal: a past key is half an id nearer than a future one.
    for at in range(1, n_query):
        k_ids = -distances[: at + 1].flip(0)[None]
        ours = ALiBi(n_head=n_head).bias(torch.zeros(1, 1, dtype=torch.long), k_ids)
        past = ours.dense(torch.float64)[0, :, 0, :-1] + slopes[:, None] / 2
        close(past, theirs[:, at, :at])


def test_a_scaled_table_adds_less():
    x, ids = torch.randn(1, 3, 4), torch.arange(3)[None]
    learned = Learned(width=4, length=3, scale=0.25)
    assert torch.equal(learned.embed(x, ids), x + 0.25 * learned.table.weight)


def test_a_product_multiplies_each_feature():
    x, ids = torch.randn(1, 3, 4), torch.arange(3)[None]
    learned = Learned(width=4, length=3, combine="multiply")
    assert torch.equal(learned.embed(x, ids), x * learned.table.weight)
    waves = Sinusoidal(width=4, combine="multiply", scale=2.0)
    assert torch.equal(waves.embed(x, ids), x * waves.vectors(ids).float())
