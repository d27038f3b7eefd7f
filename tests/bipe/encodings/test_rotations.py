"""Rotations against their references and their formulas."""

import dataclasses
import itertools
import math

import numpy as np
import pytest
import torch
from torch.nn.functional import softplus

from bipe import Positions
from bipe.encodings import RoPE
from bipe.encodings.permuteformer import PermuteFormer
from bipe.encodings.pope import PoPE
from bipe.encodings.xpos import XPos
from bipe.rotation import compose
from tests.bipe.conftest import (
    BARE,
    HEAD_WIDTH,
    N_HEAD,
    cached_equals_uncached,
    far,
    random_batch,
    small_decoder,
    target,
)
from tests.bipe.test_golden import FOLDER, present

TORCH = "encodings_torch.npz"


def cases(kind: str) -> list[str]:
    """Return the cases of a kind in the data: xpos/CASE/key."""
    if not (FOLDER / TORCH).exists():
        return []
    names = np.load(FOLDER / TORCH).files
    return sorted({n.split("/")[1] for n in names if n.startswith(f"{kind}/") and n.count("/") > 1})


def arrays(prefix: str) -> dict[str, torch.Tensor]:
    data = np.load(FOLDER / TORCH)
    return {
        name.removeprefix(prefix): torch.from_numpy(data[name]).double()
        for name in data.files
        if name.startswith(prefix)
    }


def close(ours, theirs, atol=1e-5):
    torch.testing.assert_close(ours, theirs, atol=atol, rtol=0)


def heads(seed: int, *, time: int = 9, width: int = HEAD_WIDTH, n_head: int = 2) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(1, n_head, time, width, generator=generator, dtype=torch.float64)


def scores(rotation, q, k):
    return rotation.query(q) @ rotation.key(k).transpose(-1, -2) / math.sqrt(q.shape[-1])


@present(TORCH)
@pytest.mark.parametrize("release", ["torchscale", "x_transformers"])
@pytest.mark.parametrize("case", cases("xpos"))
def test_xpos_equals_its_references(case, release):
    data = arrays(f"xpos/{case}/")
    time, width = data["q"].shape[1:]
    scale_base = float(case.rpartition("sb")[2])
    ids, short = torch.arange(time)[None], {"torchscale": "ts", "x_transformers": "xt"}[release]
    # Both centre the row; they round the middle of an odd one differently.
    centre = (time + 1) // 2 if release == "torchscale" else time // 2
    turn = XPos(head_width=width, scale_base=scale_base, centre=centre).rotation(ids)
    q, k = turn.query(data["q"][:, None])[:, 0], turn.key(data["k"][:, None])[:, 0]
    close(q, data[f"{short}_q"])
    close(k, data[f"{short}_k"])
    for at in (0, centre, 1000):
        turn = XPos(head_width=width, scale_base=scale_base, centre=at).rotation(ids)
        ours = turn.query(data["q"][:, None]) @ turn.key(data["k"][:, None]).transpose(-1, -2)
        close(ours[:, 0], data[f"{short}_scores"])
    if release == "torchscale":
        turn = XPos(head_width=width, scale_base=scale_base, centre=centre).rotation(ids[:, -1:])
        close(turn.query(data["q"][:, None, -1:])[:, 0], data["ts_q_incremental_offset"])


def test_xpos_refuses_ids_that_it_cannot_scale():
    xpos = XPos(head_width=8, centre=10)
    xpos.rotation(torch.tensor([[10 + xpos.reach]]))
    for beyond in (11 + xpos.reach, 9 - xpos.reach):
        with pytest.raises(
            ValueError, match=r"at most \d+ from the centre of XPos \(10\), but one"
        ):
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


def test_hirope_is_rope_where_both_levels_count_the_same():
    x, ids = heads(3), torch.arange(9)[None]
    fast, slow = (RoPE(head_width=8, pairs=pairs) for pairs in ([0.0, 0.5], [0.5, 1.0]))
    both = compose(fast.rotation(ids), slow.rotation(ids))
    close(both.query(x), RoPE(head_width=8).rotation(ids).query(x), atol=1e-12)


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


GROUPED = {
    "pope": target("pope.PoPE", head_width=HEAD_WIDTH, n_head=N_HEAD),
    "permuteformer": target(
        "permuteformer.PermuteFormer", head_width=HEAD_WIDTH, n_head=N_HEAD, n_kv_head=2
    ),
}


@pytest.mark.parametrize("name", GROUPED)
@torch.no_grad()
def test_heads_that_share_keys_stay_relative_and_cached(name):
    model = small_decoder("flat_nope", encoding=GROUPED[name], n_kv_head=2).double()
    tokens, at = random_batch(2, 20, seed=4, documents=0.0)
    expected = model(tokens, at)
    close(model(tokens, dataclasses.replace(at, token=at.token + 500)), expected, atol=1e-9)
    cached_equals_uncached(model, [1] * 20)


@pytest.mark.parametrize("path", ["eager", "masked", "causal", "auto"])
@torch.no_grad()
def test_wide_heads_take_every_path(path):
    tokens, _ = random_batch(2, 40, seed=5)
    at = Positions.from_marks(torch.zeros(2, 40, dtype=torch.uint8))
    expected = small_decoder("flat_pope", attention="eager").double()(tokens, at)
    close(small_decoder("flat_pope", attention=path).double()(tokens, at), expected, atol=1e-9)


FARS = {
    "rerope": far("ReRoPE", window=9),
    "dual_chunk": far("DualChunk", chunk=6, length=12),
    "window": far("Window", window=9),
}


@pytest.mark.parametrize("method", FARS)
@pytest.mark.parametrize(
    "name", ["rope_partial", "rope_low_still", "xpos", "pope", "permuteformer"]
)
def test_far_methods_take_every_rotation(name, method):
    scheme = target("Flat", encoding=BARE[name], far=FARS[method])
    model, eager = (
        small_decoder("flat_nope", encoding=scheme, attention=path).double()
        for path in ("auto", "eager")
    )
    batch = random_batch(2, 40, seed=6, documents=0.0)
    close(model(*batch), eager(*batch), atol=1e-9)
    cached_equals_uncached(model, [30] + [1] * 10)
