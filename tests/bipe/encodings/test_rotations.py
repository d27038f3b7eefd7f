"""Rotations and absolute encodings against their references and their formulas."""

import dataclasses
import itertools
import math

import pytest
import torch
from torch.nn.functional import softplus

from bipe.attention.passes import pass_attention
from bipe.encodings import Learned, RoPE, Sinusoidal
from bipe.encodings.complex_order import ComplexOrder, turned
from bipe.encodings.hirope import HiRoPE
from bipe.encodings.permuteformer import PermuteFormer
from bipe.encodings.pope import PoPE
from bipe.encodings.xpos import XPos
from bipe.rotation import compose
from tests.bipe.conftest import (
    BARE,
    HEAD_WIDTH,
    SCHEMES,
    cached_equals_uncached,
    random_batch,
    small_decoder,
    target,
)
from tests.bipe.extension.test_distances import METHODS
from tests.bipe.test_golden import JAX, TF, TORCH, present


def close(ours, theirs, atol=1e-5):
    torch.testing.assert_close(ours, theirs, atol=atol, rtol=0)


def heads(seed: int, *, time: int = 9, width: int = HEAD_WIDTH, n_head: int = 2) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(1, n_head, time, width, generator=generator, dtype=torch.float64)


def scores(rotation, q, k):
    return rotation.query(q) @ rotation.key(k).transpose(-1, -2) / math.sqrt(q.shape[-1])


@pytest.mark.parametrize("release", ["torchscale", "x_transformers"])
@pytest.mark.parametrize("case", TORCH.cases("xpos"))
def test_xpos_equals_its_references(case, release):
    q, k = TORCH[f"{case}/q"][:, None], TORCH[f"{case}/k"][:, None]
    time, width = q.shape[2:]
    scale_base = float(case.rpartition("sb")[2])
    ids, short = torch.arange(time)[None], {"torchscale": "ts", "x_transformers": "xt"}[release]
    # Both centre the row; they round the middle of an odd one differently.
    centre = (time + 1) // 2 if release == "torchscale" else time // 2
    turn = XPos(head_width=width, scale_base=scale_base, centre=centre).rotation(ids)
    close(turn.query(q)[:, 0], TORCH[f"{case}/{short}_q"])
    close(turn.key(k)[:, 0], TORCH[f"{case}/{short}_k"])
    for at in (0, centre, 1000):
        turn = XPos(head_width=width, scale_base=scale_base, centre=at).rotation(ids)
        close((turn.query(q) @ turn.key(k).mT)[:, 0], TORCH[f"{case}/{short}_scores"])
    if release == "torchscale":
        turn = XPos(head_width=width, scale_base=scale_base, centre=centre).rotation(ids[:, -1:])
        close(turn.query(q[:, :, -1:])[:, 0], TORCH[f"{case}/ts_q_incremental_offset"])


def test_xpos_refuses_ids_that_it_cannot_scale():
    xpos = XPos(head_width=8, centre=10)
    xpos.rotation(torch.tensor([[10 + xpos.reach]]))
    for beyond in (11 + xpos.reach, 9 - xpos.reach):
        with pytest.raises(ValueError, match=r"at most \d+ from the centre of XPos \(10\), was: "):
            xpos.rotation(torch.tensor([[beyond]]))
    turn = xpos.rotation(torch.tensor([[10 - xpos.reach, 10 + xpos.reach]])).to(torch.float32)
    x = torch.ones(1, 1, 2, 8)
    assert turn.query(x).isfinite().all() and turn.key(x).isfinite().all()


def test_partial_rotary_turns_its_part_as_a_narrower_head():
    x, ids = heads(1), torch.arange(9)[None]
    ours = RoPE(head_width=8, part=[0.25, 0.75]).rotation(ids).query(x)
    assert torch.equal(ours[..., :2], x[..., :2]) and torch.equal(ours[..., 6:], x[..., 6:])
    whole = RoPE(head_width=4).rotation(ids).query(x[..., 2:6])
    assert torch.equal(ours[..., 2:6], whole)


@pytest.mark.parametrize("interleaved", [False, True])
def test_p_rope_leaves_slow_pairs_and_turns_the_others_as_before(interleaved):
    x, ids = heads(2), torch.arange(9)[None]
    ours = RoPE(head_width=8, pairs=[0.0, 0.75], interleaved=interleaved).rotation(ids).query(x)
    whole = RoPE(head_width=8, interleaved=interleaved).rotation(ids).query(x)
    still = [6, 7] if interleaved else [3, 7]
    turning = [i for i in range(8) if i not in still]
    assert torch.equal(ours[..., still], x[..., still])
    assert torch.equal(ours[..., turning], whole[..., turning])


def test_pope_is_its_formula():
    q, k, ids = heads(4), heads(5), torch.arange(9)[None]
    pope = PoPE(head_width=8, n_head=2, theta=100.0)
    with torch.no_grad():
        pope.delta.normal_(generator=torch.Generator().manual_seed(6))
    delta = pope.delta.double().view(2, 8)
    theirs = torch.zeros(1, 2, 9, 9, dtype=torch.float64)
    for head, i, j, c in itertools.product(range(2), range(9), range(9), range(8)):
        angle = (j - i) * 100.0 ** (-c / 8) + delta[head, c]
        size = softplus(q[0, head, i, c]) * softplus(k[0, head, j, c])
        theirs[0, head, i, j] += size * angle.cos() / math.sqrt(8)
    turn = pope.rotation(ids).to(torch.float64)
    wide = turn.query(q), turn.key(k)
    assert wide[0].shape[-1] == 16
    # Attention divides by the square root of the width that it sees.
    close(wide[0] @ wide[1].transpose(-1, -2) / 4, theirs, atol=1e-9)


def test_permutations_are_applied_as_often_as_the_id_says():
    encoding = PermuteFormer(head_width=12, n_head=2, seed=3)
    x = heads(9, time=1, width=12)
    once = encoding.rotation(torch.tensor([[1]])).query(x)
    assert not torch.equal(once, x) and not torch.equal(once[:, 0], once[:, 1])
    many = x
    for count in range(40):
        ours = encoding.rotation(torch.tensor([[count]])).query(x)
        assert torch.equal(ours, many)
        many = encoding.rotation(torch.tensor([[1]])).query(many)


def test_the_decay_of_permuteformer_multiplies_weights():
    n_head, ids = 3, torch.arange(7)[None]
    bias = PermuteFormer(head_width=8, n_head=n_head).bias(ids, ids).dense(torch.float64)
    ratios = torch.sigmoid(torch.arange(n_head, dtype=torch.float64) / n_head * 3 + 2)
    distance = (ids[0, :, None] - ids[0]).double()
    close(bias[0].exp(), ratios[:, None, None] ** distance, atol=1e-12)
    assert PermuteFormer(head_width=8, n_head=2, decays=False).bias(ids, ids) is None


@pytest.mark.parametrize("name", ["pope", "permuteformer"])
@torch.no_grad()
def test_heads_that_share_keys_stay_relative_and_cached(name):
    encoding = BARE[name] | ({"n_kv_head": 2} if name == "permuteformer" else {})
    model = small_decoder("flat_nope", encoding=encoding, n_kv_head=2).double()
    tokens, at = random_batch(2, 20, seed=4, documents=0.0)
    expected = model(tokens, at)
    close(model(tokens, dataclasses.replace(at, token=at.token + 500)), expected, atol=1e-9)
    cached_equals_uncached(model, [1] * 20)


@pytest.mark.parametrize("method", ["rerope", "dual_chunk", "window"])
@pytest.mark.parametrize(
    "name", ["rope_partial", "rope_low_still", "xpos", "pope", "permuteformer"]
)
def test_far_methods_take_every_rotation(name, method):
    scheme = target("Flat", encoding=BARE[name], far=METHODS[method])
    model, eager = (
        small_decoder("flat_nope", encoding=scheme, attention=path).double()
        for path in ("auto", "eager")
    )
    batch = random_batch(2, 40, seed=6, documents=0.0)
    close(model(*batch), eager(*batch), atol=1e-9)
    cached_equals_uncached(model, [30] + [1] * 10)


def hirope_with(window, **options):
    scheme = target("hirope.HiRoPE", head_width=HEAD_WIDTH, window=window)
    return small_decoder("flat_nope", encoding=scheme, **options).double()


@torch.no_grad()
def test_a_wide_window_is_plain_rope_and_none_is_bilevel():
    tokens, at = random_batch(2, 40, seed=1)
    close(hirope_with(40)(tokens, at), small_decoder("flat_rope").double()(tokens, at))
    hirope = small_decoder("flat_nope", encoding=SCHEMES["bilevel_hirope"]).double()
    close(hirope_with(None)(tokens, at), hirope(tokens, at))


@pytest.mark.parametrize("path", ["auto", "chunked", "eager"])
@torch.no_grad()
def test_near_scores_are_plain_and_far_ones_are_of_both_levels(path):
    window, time = 7, 30
    scheme = HiRoPE(head_width=HEAD_WIDTH, window=window)
    _, at = random_batch(1, time, seed=2, documents=0.0)
    attend = pass_attention(scheme, q_at=at, k_at=at, dtype=torch.float64, path=path)
    q, k, v = torch.randn(
        3, 1, 1, time, HEAD_WIDTH, dtype=torch.float64, generator=torch.Generator().manual_seed(3)
    )

    near = scores(RoPE(head_width=HEAD_WIDTH).rotation(at.token), q, k)
    fast, slow = (RoPE(head_width=HEAD_WIDTH, pairs=x) for x in ((0.0, 0.5), (0.5, 1.0)))
    turn = compose(fast.rotation(at.intra), slow.rotation(at.inter))
    far = scores(turn, q, k)
    distance = at.token[0, :, None] - at.token[0]
    both = torch.where(distance < window, near, far).masked_fill(distance < 0, float("-inf"))
    close(attend(q, k, v), both.softmax(-1) @ v)


SINUSOIDS = (
    (TORCH, {"interleaved_onmt": "interleaved", "concat_txl": "halves", "fairseq": "spread"}),
    (TF, {"t2t": "spread"}),
    (JAX, {"fixed": "halves"}),
)
WAVES = [
    (file, name, layout)
    for file, layouts in SINUSOIDS
    for name in [*file.of("sinusoid/"), *file.of("randpe/fixed")]
    for kind, layout in layouts.items()
    if name.rpartition("/")[2].startswith(kind)
]


@pytest.mark.parametrize(("file", "name", "layout"), WAVES)
def test_sinusoids_equal_their_references(file, name, layout):
    theirs = file[name]
    time, width = theirs.shape
    start = int(name.rpartition("start")[2]) if "start" in name else 0
    ids = torch.arange(time)[None] + start
    ours = Sinusoidal(width=width, layout=layout).vectors(ids)[0]
    # fairseq zeroes the row of its padding id.
    there = theirs.abs().sum(-1) > 0
    assert there.sum() >= time - 1
    close(ours[there], theirs[there])


@present("encodings_tf.npz")
def test_complex_order_equals_its_reference():
    amplitudes, frequencies, words, positions, real, imaginary = (
        TF[f"complex_order/{name}"]
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
    [*JAX.of("randpe/rope_plain"), *(n for n in JAX.of("randpe/rope_") if n[-1] == "s")],
)
def test_rotations_at_real_and_random_positions_equal_theirs(name):
    if name.endswith("rope_plain"):
        positions = torch.arange(JAX["randpe/rope_x_bthd"].shape[1])
    elif name.endswith("rope_noisy_positions"):
        name, positions = "randpe/rope_noisy_out", JAX[name]
    else:
        positions = JAX[f"randpe/{name.partition('_at_')[2]}"]
    x = JAX["randpe/rope_x_bthd"].transpose(1, 2)
    rope = RoPE(head_width=x.shape[-1], interleaved=True)
    turn = rope.rotation(positions.expand(len(x), -1))
    close(turn.query(x).transpose(1, 2), JAX[name])


def test_a_scale_and_a_product_are_of_each_feature():
    x, ids = torch.randn(1, 3, 4), torch.arange(3)[None]
    learned = Learned(width=4, length=3, scale=0.25)
    assert torch.equal(learned.embed(x, ids), x + 0.25 * learned.table.weight)
    learned = Learned(width=4, length=3, combine="multiply")
    assert torch.equal(learned.embed(x, ids), x * learned.table.weight)
    waves = Sinusoidal(width=4, combine="multiply", scale=2.0)
    assert torch.equal(waves.embed(x, ids), x * waves.vectors(ids).float())
