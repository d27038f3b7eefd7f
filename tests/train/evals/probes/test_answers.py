"""Scores of probes: who copies finds, who guesses finds by chance; chunks and caches agree."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from bipe import Positions
from bipe.positions import SEGMENT_BIT
from segmenters import ArithmeticSteps, Stride
from tests.bipe.conftest import small_decoder
from tests.train.evals.probes.conftest import Cheat, copies, guesses, hay_for, haystack
from train.errors import DataError
from train.evals.loop import Subject
from train.evals.probes.answers import (
    BLOCK,
    CUE,
    SHORTEST,
    by_position,
    copied,
    log_likelihoods,
    shares_found,
)
from train.evals.probes.kinds import KINDS
from train.evals.probes.measure import COPIES, NAMES, Plan, Probe
from train.evals.probes.trials import Draw, Texts, trial
from train.tasks.arithmetic.symbols import Symbols


def decoder(scheme, vocab_size):
    return small_decoder(scheme, vocab_size=vocab_size).eval()


def trials(name, hay, count, *, length=300, depth=0.5):
    kind = KINDS[name]
    return [
        trial(kind, hay, length=length, depth=depth if kind.deep else None,
              candidates=6, draw=Draw(0, name, number))
        for number in range(count)
    ]  # fmt: skip


def probe(name, model, hay, *, lengths=(400,), **options):
    """The rows of all cells of a probe."""
    defaults = {"depths": [0.0, 1.0], "trials": 2, "candidates": 3}
    rest = {"scoring": ["rank"], "tokens_per_batch": 800, "seed": 0}
    made = Probe(name=name, hay=hay, plan=Plan(**(defaults | rest | options)), lengths=lengths)
    run = SimpleNamespace(bilevel=False)
    subject = Subject(run=run, row_length=1, lengths=(), held_out=None)
    return [row for cell in made.cells(subject) for row in cell.measure(model)]


def values(rows, measure):
    return [row.value for row in rows if row.measure == measure]


@pytest.fixture(scope="module", params=["newline", "stride"])
def cut(request, texts, tokenizer):
    """Texts whose answers go on with the segment of the question, or open segments of their own."""
    return texts if request.param == "newline" else of(Stride(length=3), tokenizer)


def of(segmenter, tokenizer):
    return Texts(tokenizer=tokenizer, segmenter=segmenter)


@pytest.mark.parametrize(("encoding", "chunk"), [("flat_rope", 1000), ("bilevel_learned_rope", 64)])
def test_likelihoods_are_those_of_the_whole_text(encoding, chunk, hay, cut):
    model = decoder(encoding, cut.tokenizer.vocab_size)
    made = trials("niah_multikey", hay_for(cut), 2)
    found = log_likelihoods(model, made, chunk=chunk)
    for row, each in zip(found, made, strict=True):
        for value, ids in zip(row, each.candidates, strict=True):
            whole = np.concatenate([each.tokens, ids])
            tokens, marks = torch.from_numpy(whole)[None], cut.marks(whole)
            at = Positions.from_marks(torch.from_numpy(marks)[None], packed=False)
            with torch.no_grad():
                chances = model.logits(tokens, at)[0].log_softmax(-1)
            expected = sum(float(chances[299 + i, id]) for i, id in enumerate(ids.tolist()))
            assert value == pytest.approx(expected, abs=2e-4)


def test_who_copies_finds_and_writes_every_needle(hay, texts):
    model = Cheat(copies, texts.tokenizer.vocab_size)
    rows = probe("niah_single", model, hay, lengths=[300], scoring=["rank", "write"], trials=1)
    assert values(rows, "written") == values(rows, "accuracy") == [1.0, 1.0]
    assert next(row.note for row in rows if row.measure == "trial_written")
    rows = probe("niah_multiquery", model, hay, lengths=[300], scoring=["write"], trials=1)
    assert not values(rows, "accuracy") and 0 <= values(rows, "written")[0] <= 1


def test_who_guesses_finds_by_chance(hay, texts):
    model = Cheat(guesses(), texts.tokenizer.vocab_size)
    made = trials("passkey", hay, 1, length=64)
    found = np.array([shares_found(model, made)[0] for _ in range(100)])
    assert abs(found.mean() - 1 / 6) < 4 * (1 / 6 * 5 / 6 / 100) ** 0.5


@pytest.mark.parametrize("name", COPIES)
def test_who_copies_knows_the_second_appearance_alone(name, hay, texts):
    made = [COPIES[name](hay, length=151, depth=0.5, draw=Draw(number)) for number in range(2)]
    for each in made:
        assert len(each.tokens) == len(each.marks) == 151
        once = each.tokens[each.first : each.first + each.size]
        assert np.array_equal(once, each.tokens[each.second :])
        assert each.distance_tokens == each.second - each.first
    known = copied(Cheat(copies, texts.tokenizer.vocab_size), made, chunk=50)
    sure = 0.6 if name == "segment" else 0.95  # the words of a segment stand elsewhere, too
    assert all(one["accuracy"] > sure and one["second"] < one["first"] / 2 for one in known)
    guessed = copied(Cheat(guesses(), texts.tokenizer.vocab_size), made)
    assert all(one["accuracy"] < 0.2 for one in guessed)
    assert made[0].size > CUE


def test_the_repeated_segment_is_a_segment_in_both_places(hay, texts):
    for number in range(20):
        depth = number % 3 / 2
        found = COPIES["segment"](hay, length=400, depth=depth, draw=Draw(number))
        opened = np.flatnonzero(found.marks >> SEGMENT_BIT & 1)
        assert {found.first, found.second} <= {*opened}
        (size,) = np.diff([*opened, 400])[opened == found.first]
        assert found.size == min(size, BLOCK) >= SHORTEST
        assert abs(found.first / found.second - depth) < 0.12
    assert COPIES["segment"](hay, length=SHORTEST, depth=0.0, draw=Draw(0)) is None


@pytest.mark.parametrize("name", NAMES)
def test_a_probe_is_the_same_every_time_whatever_the_batch(name, hay, texts):
    model = decoder("bilevel_learned_rope", texts.tokenizer.vocab_size)
    one, two = probe(name, model, hay), probe(name, model, hay, tokens_per_batch=1)
    other = probe(name, model, hay, seed=1)
    assert rounded(one) == rounded(two) != rounded(other)


def rounded(rows):
    return [(row.measure, row.depth, row.start, None if row.value is None else round(row.value, 3))
            for row in rows]  # fmt: skip


def test_rows_have_their_places_their_distances_and_their_protocol(hay, texts):
    model = decoder("flat_rope", texts.tokenizer.vocab_size)
    rows = probe("niah_multikey", model, hay, lengths=[500, 40, 300], candidates=5)
    found = {(row.measure, row.length, row.depth): row for row in rows if row.number is None}
    assert {(row.source, row.task) for row in rows} == {("made up", "niah_multikey")}
    for length in (300, 500):
        for measure in ("accuracy", "distance_tokens", "distance_segments", "chance", "trials"):
            assert all((measure, length, depth) in found for depth in (0.0, 1.0))
        near, far = (found["distance_tokens", length, depth].value for depth in (1.0, 0.0))
        assert near <= far < length
        assert found["chance", length, 0.0].value == 0.2
        assert found["trials", length, 0.0].value == 2
    assert all("no room" in found["left_out", 40, depth].note for depth in (0.0, 1.0))
    assert len(values(rows, "trial_accuracy")) == len(values(rows, "trial_distance_tokens")) == 8
    assert not values(rows, "written")
    for part in ("5 candidates", "chance 0.20", "made up", "2 trials per"):
        assert part in found["accuracy", 300, 0.0].note


def test_losses_by_position_hold_every_token_once(hay, texts):
    model = decoder("bilevel_learned_rope", texts.tokenizer.vocab_size)
    taken = [hay.take(Draw("here", n), 300)[0] for n in range(3)]
    curves = {}
    marks = list(map(texts.marks, taken))
    for level, *octave in by_position(model, taken, marks, rows=2, chunk=64):
        curves.setdefault(level, []).append(octave)
    sums = []
    for curve in curves.values():
        starts, stops, losses, tokens = zip(*curve, strict=True)
        assert sum(tokens) == 3 * 299 and stops[:-1] == starts[1:]
        sums.append(sum(n * (loss or 0) for loss, n in zip(losses, tokens, strict=True)))
    assert sums[0] > 0 and sums == pytest.approx([sums[0]] * 3)
    assert [tokens for *_, tokens in curves["token"][:5]] == [0, 3, 6, 12, 24]


def test_a_vocabulary_that_cannot_spell_the_answers_is_refused_by_key():
    symbols = of(ArithmeticSteps(), Symbols(modulus=7).build())
    with pytest.raises(DataError, match=r"evaluate\.probes"):
        probe("passkey", None, haystack(symbols, "1+2=3=3"))
