"""Generation: cached equals recomputed, rows do not feel neighbours, sampling keeps its rules."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bipe.generation import Sampling, generate
from segmenters import Newline, TokenMarker
from tests.bipe.conftest import SCHEMES, small_decoder
from tests.bipe.generation.test_session import PIECES, draw, whole_logits

LINES = TokenMarker(segmenter=Newline(), pieces=PIECES)


@pytest.mark.parametrize(
    ("scheme", "static"), [*((scheme, True) for scheme in SCHEMES), ("chain", False)]
)
@torch.no_grad()
def test_greedy_equals_recomputing_everything(scheme, static):
    model = small_decoder(scheme).double()
    prompt, expected = draw(1, 12), []
    for _ in range(8):
        logits = whole_logits(model, prompt + expected, Newline())
        expected.append(int(logits[-1].argmax()))
    (written,) = generate(model, [prompt], max_new=8, marker=LINES, static=static, chunk=5)
    assert written.tokens == expected
    assert written.ended == "length"


@pytest.mark.parametrize(
    "sampling", [Sampling(), Sampling(temperature=0.0, repetition_penalty=1.3)]
)
@torch.no_grad()
def test_a_row_does_not_feel_its_neighbours(sampling):
    model = small_decoder("bilevel_learned_alibi_x96").double()
    prompts = [draw(2, 3), draw(3, 14), draw(4, 9)]
    arguments = {"max_new": 12, "marker": LINES, "stop_ids": [7], "sampling": sampling}
    together = generate(model, prompts, **arguments)
    # Streams are drawn by row: each prompt keeps its place, beside copies of itself.
    for row, prompt in enumerate(prompts):
        alone = generate(model, [prompt] * (row + 1), **arguments)
        assert alone[row] == together[row]


def test_the_same_seed_writes_the_same_and_another_does_not():
    model = small_decoder("flat_rope")
    one, again, other = (
        generate(model, [[1, 2]], max_new=20, sampling=Sampling(), seed=seed) for seed in (0, 0, 1)
    )
    assert one == again != other


def test_stop_ids_end_a_row_and_are_left_out():
    model = small_decoder("flat_rope")
    (free,) = generate(model, [[1, 2, 3]], max_new=10)
    stop = free.tokens[4]
    (ended,) = generate(model, [[1, 2, 3]], max_new=10, stop_ids=[stop])
    assert ended.tokens == free.tokens[: free.tokens.index(stop)]
    assert ended.ended == "stop"


def test_stop_strings_end_a_row_and_its_text():
    model = small_decoder("flat_rope")

    def decode(ids):
        return "".join(chr(0x4E00 + id) for id in ids)

    (free,) = generate(model, [[1, 2, 3]], max_new=30, decode=decode)
    stop = free.text[6:9]
    (ended,) = generate(model, [[1, 2, 3]], max_new=30, decode=decode, stop_strings=["zz", stop])
    assert ended.text == free.text[: free.text.index(stop)]
    assert ended.ended == "stop"
    assert len(ended.tokens) == len(ended.text) + 3


def test_every_token_is_told_as_it_comes():
    told = []
    written = generate(
        small_decoder("flat_rope"),
        [[1], [2, 3]],
        max_new=5,
        on_token=lambda row, token: told.append((row, token)),
    )
    for row, found in enumerate(written):
        assert [token for at, token in told if at == row] == found.tokens


logits_lists = st.lists(
    st.floats(-20, 20, width=32).map(lambda x: round(x, 3)), min_size=2, max_size=30, unique=True
)


@given(logits=logits_lists, top_k=st.integers(1, 40), top_p=st.floats(0.01, 1.0))
def test_sampling_keeps_the_fewest_likely_tokens(logits, top_k, top_p):
    values = torch.tensor(logits)
    none = torch.empty(0, dtype=torch.int64)
    kept = Sampling(top_k=top_k).filtered(values, none) > float("-inf")
    assert kept.sum() == min(top_k, len(logits))
    assert values[kept].min() >= values[~kept].max() if (~kept).any() else True
    kept = Sampling(top_p=top_p).filtered(values, none) > float("-inf")
    ordered = values.softmax(-1)[kept].sort(descending=True).values
    assert ordered.sum() >= top_p - 1e-5
    assert ordered[:-1].sum() < top_p + 1e-5
    assert values[kept].min() >= values[~kept].max() if (~kept).any() else True


def test_the_repetition_penalty_lowers_what_was_seen():
    logits = torch.tensor([2.0, -2.0, 1.0])
    found = Sampling(repetition_penalty=2.0).filtered(logits, torch.tensor([0, 1]))
    assert found.tolist() == [1.0, -4.0, 1.0]


def test_draws_follow_the_chances():
    generator = torch.Generator().manual_seed(0)
    logits, none = torch.tensor([0.0, 1.0, 2.0]), torch.empty(0, dtype=torch.int64)
    draws = torch.tensor([Sampling().draw(logits, none, generator) for _ in range(4000)])
    shares = torch.bincount(draws, minlength=3) / len(draws)
    torch.testing.assert_close(shares, logits.softmax(-1), atol=0.03, rtol=0)


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"temperature": -1.0}, "temperature must be at least 0"),
        ({"top_k": 0}, "top_k must be at least 1"),
        ({"top_p": 0.0}, "top_p must be above 0"),
        ({"repetition_penalty": 0.0}, "repetition_penalty must be above 0"),
    ],
)
def test_sampling_out_of_bounds_is_refused(wrong, match):
    with pytest.raises(ValueError, match=match):
        Sampling(**wrong)


def test_what_cannot_be_written_is_refused():
    model = small_decoder("flat_rope")
    with pytest.raises(ValueError, match="at least one token"):
        generate(model, [[]], max_new=3)
    with pytest.raises(ValueError, match="stop_strings need decode"):
        generate(model, [[1]], max_new=3, stop_strings=["x"])
    with pytest.raises(ValueError, match="max_new must be at least 1"):
        generate(model, [[1]], max_new=0)
