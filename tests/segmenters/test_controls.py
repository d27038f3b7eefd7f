"""Patterns, controls and their random numbers: where they cut, and what they refuse."""

import json
from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bipe.build import build
from segmenters import (
    Clauses,
    Lines,
    Matched,
    Newline,
    Official,
    Pattern,
    RandomCuts,
    Sentences,
    Stride,
    base,
    official_marks,
)
from segmenters.controls import KINDS
from segmenters.random_numbers import GOLDEN, mix, stream
from tests.segmenters.texts import any_text, pieces

INNER = [Sentences(backend="rules"), Newline(), Stride(length=3), Stride(length=1)]


@pytest.mark.parametrize(
    ("segmenter", "marked"),
    [
        (Pattern(ends=r";\s*"), "a; |b;|c"),
        (Pattern(ends=r"(?=def )"), "x |def f |def g"),
        (Newline(), "a\n|\n|  b\r\n|c"),
        (Official(), "One. Two .| Three!\n|Four"),
        (Stride(length=3), "abc|def|gh"),
        (
            Clauses(of=Sentences()),
            "First, |it rained; |then (at 10:30) it stopped. |No: |it went on.\n|1,5 is one.",
        ),
    ],
)
def test_controls_cut_where_their_rule_says(segmenter, marked):
    assert pieces(marked.replace("|", ""), segmenter) == marked.split("|")


def test_official_separators_are_free_close_their_segment_and_rows_are_independent():
    ids = [7, 13, 8, 9, 869, 869, 4]
    assert official_marks(ids).tolist() == [True, False, True, False, False, True, True]
    ids = np.array([[5, 13], [13, 5]])
    assert official_marks(ids).tolist() == [[True, False], [True, True]]
    assert official_marks(ids, separators=(5,)).tolist() == [[True, True], [True, False]]
    assert official_marks(np.zeros((2, 0), dtype=int)).shape == (2, 0)


def test_random_lengths_are_geometric_with_the_mean_asked_for():
    lengths = np.diff(RandomCuts(mean=20, seed=1).cut("lorem ipsum " * 20_000))
    assert abs(lengths.mean() - 20) < 1
    assert abs(lengths.std() - np.sqrt(20 * 19)) < 1.5
    assert abs((lengths == 1).mean() - 1 / 20) < 0.01


def test_random_cuts_differ_between_seeds_and_between_texts():
    text = "the same words again and again, " * 50
    base = RandomCuts(mean=10, seed=1).cut(text).tolist()
    assert base != RandomCuts(mean=10, seed=2).cut(text).tolist()
    assert base != RandomCuts(mean=10, seed=1).cut("T" + text[1:]).tolist()


@pytest.mark.parametrize(
    ("segmenter", "twin"), [(Newline(), Pattern(ends="\n")), (Official(), Pattern(ends=r"\n| \."))]
)
@given(text=any_text)
def test_bytes_and_expressions_cut_alike(segmenter, twin, text):
    assert segmenter.cut(text).tolist() == twin.cut(text).tolist()


def test_random_cuts_do_not_depend_on_the_pieces_in_which_they_are_drawn(monkeypatch):
    text = "It rained. " * 500
    whole = RandomCuts(mean=7, seed=2).cut(text).tolist()
    monkeypatch.setattr(base, "_PIECE", 64)
    assert RandomCuts(mean=7, seed=2).cut(text).tolist() == whole


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
    for seed in range(1500):
        counts[Matched(of=Newline(), kind="random", seed=seed).cut(text)[1:-1]] += 1
    assert counts.sum() == 3 * 1500
    assert np.abs(counts[1:] / 1500 - 3 / 11).max() < 0.03


def test_a_fingerprint_builds_the_segmenter_again():
    made = Matched(of=Clauses(of=Lines(language="python")), kind="shuffled", seed=4)
    told = json.loads(json.dumps(made.fingerprint()))
    again = build({"_target_": told["segmenter"], **told["parameters"]})
    assert again == made
    assert json.loads(json.dumps(again.fingerprint())) == told


def test_numbers_are_those_that_the_authors_print():
    """The first numbers of the authors' C program for the seeds 0 and 1234567."""
    assert [*islice(stream(0), 2)] == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4]
    known = [6457827717110365317, 3203168211198807973, 9817491932198370423]
    assert [*islice(stream(1234567), 3)] == known


def test_a_stream_goes_on_from_block_to_block():
    made = [*islice(stream(2**64 - 1), 1000)]
    states = [(2**64 - 1 + n * GOLDEN) % 2**64 for n in range(1, 1001)]
    assert made == mix(np.array(states, np.uint64)).tolist()
