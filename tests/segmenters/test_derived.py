"""Clauses, and controls that keep the number or the lengths of segments."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bipe.build import build
from segmenters import Clauses, Lines, Matched, Newline, Sentences, Stride
from segmenters.controls import KINDS
from tests.segmenters.texts import any_text

INNER = [Sentences(backend="rules"), Newline(), Stride(length=3), Stride(length=1)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("inner", INNER, ids=repr)
@given(text=any_text, seed=st.integers(0, 10))
def test_a_control_has_as_many_segments(kind, inner, text, seed):
    matched = Matched(of=inner, kind=kind, seed=seed)
    cuts = matched.cut(text)
    assert len(cuts) == len(inner.cut(text))
    lengths = np.diff(cuts)
    if kind == "shuffled":
        assert sorted(lengths) == sorted(np.diff(inner.cut(text)))
    if kind == "stride" and len(lengths):
        assert lengths.max() - lengths.min() <= 1


@pytest.mark.parametrize("kind", ["shuffled", "random"])
def test_draws_are_of_the_seed_and_the_text(kind):
    text = "One. Two is longer. Three! Four, five and six? Seven eight. " * 5
    cut = [Matched(of=INNER[0], kind=kind, seed=seed).cut(text).tolist() for seed in (0, 0, 1)]
    assert cut[0] == cut[1] != cut[2]
    other = Matched(of=INNER[0], kind=kind).cut(text.replace("Two", "Ten")).tolist()
    assert other != cut[0]


def test_random_places_are_alike():
    text = "ab\n" * 4  # four segments: three inner cuts of eleven places
    counts = np.zeros(12)
    for seed in range(4000):
        counts[Matched(of=Newline(), kind="random", seed=seed).cut(text)[1:-1]] += 1
    assert counts.sum() == 3 * 4000
    assert np.abs(counts[1:] / 4000 - 3 / 11).max() < 0.03


def test_clauses_lie_inside_segments():
    text = "First, it rained; then (at 10:30) it stopped. No: it went on.\n1,5 is one."
    clauses = Clauses(of=Sentences(backend="rules"))
    parts = [text[a:b] for a, b in zip(clauses.cut(text), clauses.cut(text)[1:], strict=False)]
    assert parts == [
        "First, ",
        "it rained; ",
        "then (at 10:30) it stopped. ",
        "No: ",
        "it went on.\n",
        "1,5 is one.",
    ]


@given(text=any_text)
def test_clauses_keep_all_cuts(text):
    inner = Sentences(backend="rules")
    assert set(inner.cut(text)) <= set(Clauses(of=inner).cut(text))


def test_a_fingerprint_builds_the_segmenter_again():
    made = Matched(of=Clauses(of=Lines(language="python")), kind="shuffled", seed=4)
    told = json.loads(json.dumps(made.fingerprint()))
    again = build({"_target_": told["segmenter"], **told["parameters"]})
    assert again == made
    assert json.loads(json.dumps(again.fingerprint())) == told


def test_impossible_settings_are_refused():
    with pytest.raises(TypeError, match="of must be a Segmenter, was: int 3"):
        Clauses(of=3)
    with pytest.raises(ValueError, match="kind must be one of shuffled, random, stride, was"):
        Matched(of=Newline(), kind="other")
    with pytest.raises(ValueError, match="seed must be at least 0, was: -1"):
        Matched(of=Newline(), kind="random", seed=-1)
