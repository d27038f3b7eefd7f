"""Generation: cached equals recomputed, rows do not feel neighbours, sampling keeps its rules."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bipe.generation import Sampling, generate
from segmenters import Newline
from tests.bipe.conftest import ONE_EACH, small_decoder
from tests.bipe.generation.test_session import LINES, draw, whole_logits

NONE = torch.empty(0, dtype=torch.int64)


@pytest.mark.parametrize(
    ("scheme", "static"), [*((scheme, True) for scheme in ONE_EACH), ("chain", False)]
)
@torch.no_grad()
def test_greedy_equals_recomputing_everything(scheme, static):
    model = small_decoder(scheme).double()
    prompt, expected = draw(1, 12), []
    for _ in range(6):
        logits = whole_logits(model, prompt + expected, Newline())
        expected.append(int(logits[-1].argmax()))
    (written,) = generate(model, [prompt], max_new=6, marker=LINES, static=static, chunk=5)
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


def test_stop_ids_and_stop_strings_end_a_row():
    model = small_decoder("flat_rope")

    def decode(ids):
        return "".join(chr(0x4E00 + id) for id in ids)

    (free,) = generate(model, [[1, 2, 3]], max_new=30, decode=decode)
    stop = free.text[6:9]
    (ended,) = generate(model, [[1, 2, 3]], max_new=30, decode=decode, stop_strings=["zz", stop])
    assert ended.text == free.text[: free.text.index(stop)]
    assert ended.ended == "stop"
    assert len(ended.tokens) == len(ended.text) + 3
    (ended,) = generate(model, [[1, 2, 3]], max_new=30, stop_ids=free.tokens[4:5])
    assert ended.tokens == free.tokens[: free.tokens.index(free.tokens[4])]
    assert ended.ended == "stop"


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
    kept = Sampling(top_k=top_k).filtered(values, NONE) > float("-inf")
    assert kept.sum() == min(top_k, len(logits))
    assert values[kept].min() >= values[~kept].max() if (~kept).any() else True
    kept = Sampling(top_p=top_p).filtered(values, NONE) > float("-inf")
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
    logits = torch.tensor([0.0, 1.0, 2.0])
    draws = torch.tensor([Sampling().draw(logits, NONE, generator) for _ in range(3000)])
    shares = torch.bincount(draws, minlength=3) / len(draws)
    torch.testing.assert_close(shares, logits.softmax(-1), atol=0.03, rtol=0)


def test_what_makes_no_sense_is_refused():
    for wrong, least in (("temperature", 0.0), ("top_k", 1)):
        with pytest.raises(ValueError, match=f"{wrong} must be at least {least:.0f}"):
            Sampling(**{wrong: least - 1})
    for wrong in ("top_p", "repetition_penalty"):
        with pytest.raises(ValueError, match=f"{wrong} must be above 0"):
            Sampling(**{wrong: 0.0})
    model, marked = small_decoder("flat_rope"), small_decoder("bilevel_learned_rope")
    for call, reason in (
        (lambda: generate(model, [[]], max_new=3), "at least one token"),
        (lambda: generate(model, [], max_new=3), "at least one prompt"),
        (lambda: generate(model, [[1]], max_new=3, stop_strings=["x"]), "stop_strings need decode"),
        (lambda: generate(model, [[1]], max_new=0), "max_new must be at least 1"),
        (lambda: generate(marked, [[1]], max_new=1), "the model counts segments: pass marker="),
    ):
        with pytest.raises(ValueError, match=reason):
            call()
