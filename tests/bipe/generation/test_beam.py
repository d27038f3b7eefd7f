"""Beam search: exhaustive where it is wide enough, greedy where it is narrow, always cached."""

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bipe import Positions
from bipe.generation import Beams, beam, beam_search, generate
from segmenters import Newline
from tests.bipe.conftest import small_decoder
from tests.bipe.generation.test_session import LINES, LateMarker, draw, late_marks, whole_logits

STOP = 2


def exhaustive(model, prompt, *, max_new, search):
    """Every continuation with its score by whole forward passes, best first."""
    going_on = set(range(model.config.vocab_size)) - {STOP}
    scored = []
    for length in range(max_new + 1):
        written = [*itertools.product(going_on, repeat=length)]
        rows = torch.tensor([[*prompt, *tokens] for tokens in written])
        at = Positions.from_marks(torch.zeros(rows.shape, dtype=torch.uint8))
        chances = model.logits(rows, at).double().log_softmax(-1)[:, len(prompt) - 1 :].tolist()
        for tokens, row in zip(written, chances, strict=True):
            drawn = [*tokens, *([STOP] if length < max_new else [])]
            total = sum(row[i][token] for i, token in enumerate(drawn))
            scored.append((search.score(total, len(drawn)), list(tokens)))
    return sorted(scored, key=lambda each: -each[0])


@settings(max_examples=8)
@given(
    seed=st.integers(0, 1000),
    penalty=st.sampled_from([-1.0, 0.0, 0.6, 1.0, 2.0]),
    max_new=st.integers(1, 3),
)
@torch.no_grad()
def test_a_beam_of_everything_is_exhaustive_search(seed, penalty, max_new):
    model = small_decoder("flat_rope", seed=seed, vocab_size=4).double()
    for early in (False, True):
        # More beams than continuations: early stopping then finds nothing to stop.
        search = Beams(beams=3**3 + 3**2 + 3 + 1, length_penalty=penalty, early_stopping=early)
        found = beam_search(model, [1, 3], max_new=max_new, search=search, stop_ids=[STOP])
        expected = exhaustive(model, [1, 3], max_new=max_new, search=search)
        assert len(found) == len(expected)
        assert [each.score for each in found] == pytest.approx([score for score, _ in expected])
        assert found[0].tokens == expected[0][1]


@settings(max_examples=12)
@given(seed=st.integers(0, 1000), penalty=st.sampled_from([-1.0, 0.0, 0.7, 1.5]))
@torch.no_grad()
def test_ending_late_finds_what_never_ending_finds(seed, penalty):
    """The bound on open hypotheses leaves none aside that would have won."""
    model = small_decoder("flat_rope", seed=seed, vocab_size=6).double()
    search = Beams(beams=2, length_penalty=penalty, early_stopping=False)
    how = {"max_new": 7, "search": search, "stop_ids": [STOP]}
    found = beam_search(model, [1], **how)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(beam, "_is_over", lambda *_: False)
        assert found == beam_search(model, [1], **how)


@pytest.mark.parametrize("scheme", ["flat_rope", "bilevel_learned_alibi"])
def test_one_beam_is_greedy(scheme):
    model, prompt = small_decoder(scheme).double(), draw(3, 14)
    for stop in (7, 12, 33):
        how = {"max_new": 12, "marker": LINES, "stop_ids": [stop]}
        (greedy,) = generate(model, [prompt], **how)
        (found,) = beam_search(model, prompt, search=Beams(beams=1), **how)
        assert (found.tokens, found.ended) == (greedy.tokens, greedy.ended)


@torch.no_grad()
def test_scores_are_those_of_reading_everything_again():
    model = small_decoder("bilevel_learned_alibi_x96").double()
    prompt = draw(4, 20)
    found = beam_search(model, prompt, max_new=9, search=Beams(beams=5), marker=LINES, chunk=6)
    assert len(found) == 5
    assert [each.score for each in found] == sorted((e.score for e in found), reverse=True)
    for each in found:
        logits = whole_logits(model, prompt + each.tokens, Newline())
        assert each.score == pytest.approx(mean_of(logits, each.tokens, len(prompt)))


def mean_of(logits, tokens, begin):
    chances = logits.log_softmax(-1)
    return sum(float(chances[begin - 1 + i, id]) for i, id in enumerate(tokens)) / len(tokens)


@torch.no_grad()
def test_given_marks_are_used_and_the_marker_begins_behind_them():
    model = small_decoder("bilevel_learned_rope").double()
    prompt, marks = draw(5, 12), [3, 0, 0, 2, 0, 2, 0, 0, 0, 0, 2, 0]
    how = {"max_new": 6, "search": Beams(beams=3), "marker": LateMarker(), "marks": marks}
    for each in beam_search(model, prompt, **how):
        # LateMarker leaves the first mark to what follows; it opens no document.
        at = Positions.from_marks(torch.tensor([marks + late_marks(each.tokens)]).byte())
        logits = model.logits(torch.tensor([prompt + each.tokens]), at)[0]
        assert each.score == pytest.approx(mean_of(logits, each.tokens, 12))


def test_wrong_numbers_are_refused():
    model, how = small_decoder("flat_rope"), {"search": Beams()}
    for call, reason in (
        (lambda: Beams(beams=0), "beams must be at least 1, was: 0"),
        (lambda: Beams(length_penalty=float("nan")), "length_penalty must be finite"),
        (lambda: beam_search(model, [], max_new=3, **how), "must have at least one token"),
        (lambda: beam_search(model, [1], max_new=0, **how), "max_new must be at least 1 token"),
    ):
        with pytest.raises(ValueError, match=reason):
            call()
