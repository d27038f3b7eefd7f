"""HiRoPE: two levels, plain nearby."""

import math

import pytest
import torch

from bipe.attention.passes import pass_attention
from bipe.encodings import RoPE
from bipe.encodings.hirope import HiRoPE
from tests.bipe.conftest import (
    HEAD_WIDTH,
    SCHEMES,
    cached_equals_uncached,
    close,
    packed_equals_alone,
    random_batch,
    small_decoder,
    target,
)


def model_with(window, **options):
    scheme = target("hirope.HiRoPE", head_width=HEAD_WIDTH, window=window)
    return small_decoder("flat_nope", encoding=scheme, **options).double()


@torch.no_grad()
def test_a_wide_window_is_plain_rope_and_none_is_bilevel():
    tokens, at = random_batch(2, 40, seed=1)
    close(model_with(40)(tokens, at), small_decoder("flat_rope").double()(tokens, at))
    hirope = small_decoder("flat_nope", encoding=SCHEMES["bilevel_hirope"]).double()
    close(model_with(None)(tokens, at), hirope(tokens, at))


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

    def scores(*turns):
        left, right = q, k
        for turn in turns:
            left, right = turn.query(left), turn.key(right)
        return left @ right.transpose(-1, -2) / math.sqrt(HEAD_WIDTH)

    near = scores(RoPE(head_width=HEAD_WIDTH).rotation(at.token))
    fast, slow = (RoPE(head_width=HEAD_WIDTH, pairs=x) for x in ((0.0, 0.5), (0.5, 1.0)))
    far = scores(fast.rotation(at.intra), slow.rotation(at.inter))
    distance = at.token[0, :, None] - at.token[0]
    both = torch.where(distance < window, near, far).masked_fill(distance < 0, float("-inf"))
    close(attend(q, k, v), both.softmax(-1) @ v)


def test_packed_equals_alone_and_cached_equals_uncached():
    packed_equals_alone(model_with(5), seed=4)
    cached_equals_uncached(model_with(5), [25] + [1] * 15)


def test_a_checkpoint_of_rope_fits():
    assert model_with(5).state_dict().keys() == small_decoder("flat_rope").state_dict().keys()
