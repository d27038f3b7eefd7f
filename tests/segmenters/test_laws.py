"""Laws that every segmenter obeys, whatever the text."""

import copy
import itertools
import json
import pickle

import numpy as np
import pytest
from hypothesis import given

from segmenters import (
    Agda,
    ArithmeticSteps,
    Auto,
    ChainOfThought,
    Clauses,
    Coq,
    Hol,
    Isabelle,
    LaTeXProofs,
    Lean,
    Levels,
    Lines,
    Matched,
    Metamath,
    Mixed,
    Mizar,
    Newline,
    Official,
    Pattern,
    RandomCuts,
    Records,
    Segmenter,
    SegmenterError,
    Sentences,
    Stride,
    Tptp,
)
from segmenters.base import cuts_from_ends, nested
from tests.segmenters.texts import any_text

SEGMENTERS = [
    Pattern(ends=r";\s*|(?=def )"),
    Pattern(ends=""),
    Newline(),
    Official(),
    Stride(length=1),
    Stride(length=7),
    RandomCuts(mean=1),
    RandomCuts(mean=5.5, seed=3),
    Lines(),
    Agda(),
    Lines(granularity="logical", language="python", prose="sentences"),
    ArithmeticSteps(),
    ChainOfThought(),
    Coq(),
    Hol(),
    Isabelle(),
    LaTeXProofs(),
    Lean(),
    Metamath(),
    Metamath(inner=True),
    Mizar(),
    Mizar(inner=True),
    Tptp(),
    *(Records(format=format) for format in ("csv", "dockerfile", "json", "log", "sql", "yaml")),
    Mixed(),
    Mixed(format="html"),
    Auto(),
    Sentences(),
    Sentences(next_word=True),
    Sentences(backend="spacy"),
    Sentences(backend="sentencizer"),
    Clauses(of=Sentences(backend="rules")),
    Clauses(of=Newline()),
    Matched(of=Sentences(backend="rules"), kind="shuffled"),
    Matched(of=Lines(), kind="random"),
    Matched(of=Auto(), kind="stride"),
    Levels(of=Clauses(of=Newline()), keep=2),
    Levels(of=Clauses(of=Newline()), keep=["segment"], longest=5),
    Levels(of=Auto(), keep=3, longest=1),
    Levels(of=Newline(), longest="3 characters"),
]
for slow_to_load in SEGMENTERS:
    slow_to_load.cut("")  # spaCy loads here, outside of any deadline
each = pytest.mark.parametrize("segmenter", SEGMENTERS, ids=repr)


@each
@given(text=any_text)
def test_segments_tile_the_text_and_levels_are_nested(segmenter, text):
    twin = pickle.loads(pickle.dumps(segmenter))
    assert twin == segmenter
    levels = segmenter.levels(text)
    assert len(levels) == len(segmenter.level_names) == len(set(segmenter.level_names))
    for again in (segmenter, copy.copy(segmenter), twin):
        assert levels[0].tolist() == again.cut(text).tolist()
    for cuts in levels:
        assert cuts.dtype == np.int64 and cuts.ndim == 1
        assert cuts[0] == 0 and cuts[-1] == len(text) and (np.diff(cuts) > 0).all()
    for finer, coarser in itertools.pairwise(levels):
        assert set(coarser.tolist()) <= set(finer.tolist())


@each
@given(text=any_text)
def test_a_place_is_decided_within_the_lookahead(segmenter, text):
    if segmenter.lookahead is None:
        pytest.skip("needs the whole text")
    cuts = set(segmenter.cut(text).tolist())
    for length in range(1, len(text)):
        known = min(length - segmenter.lookahead, length - 1)
        seen = {place for place in segmenter.cut(text[:length]).tolist() if place <= known}
        assert seen == {place for place in cuts if place <= known}


def test_texts_are_strings_and_parameters_keyword_only_and_frozen():
    for segmenter in SEGMENTERS:
        for cut in (segmenter.cut, segmenter.levels):
            with pytest.raises(TypeError, match="text must be a str, was: bytes"):
                cut(b"bytes")
        with pytest.raises(TypeError):
            type(segmenter)(1)
        # Python 3.11 raises TypeError for a name that no slot has.
        with pytest.raises((AttributeError, TypeError)):
            segmenter.anything = 1
    with pytest.raises(TypeError):
        Segmenter()


def test_fingerprints_tell_segmenters_apart():
    prints = [json.dumps(segmenter.fingerprint(), sort_keys=True) for segmenter in SEGMENTERS]
    assert len(set(prints)) == len(SEGMENTERS)
    again = [json.dumps(copy.copy(s).fingerprint(), sort_keys=True) for s in SEGMENTERS]
    assert prints == again
    told = {"segmenter": "segmenters.Stride", "version": 1, "parameters": {"length": 7}}
    assert Stride(length=7).fingerprint() == told | {"versions": {}}


def test_cuts_are_made_of_ends_in_any_order():
    assert cuts_from_ends([5, 2, 2, 0, 9], 9).tolist() == [0, 2, 5, 9]
    assert cuts_from_ends(iter(()), 3).tolist() == [0, 3]
    assert cuts_from_ends([0, 0], 0).tolist() == [0]
    for end in (-1, 4):
        with pytest.raises(SegmenterError, match=f"between 0 and 3, was: {end}"):
            cuts_from_ends([1, end], 3)
    # An end inside of a finer segment moves to the next cut; missing levels cut nothing.
    levels = nested(([3, 6], [1, 6, 7], []), 9, count=4)
    assert [level.tolist() for level in levels] == [[0, 3, 6, 9], [0, 3, 6, 9], [0, 9], [0, 9]]


def test_an_error_names_its_document_and_character_and_survives_pickling():
    error = SegmenterError("open bracket", offset=7).in_document("a/b.v")
    for twin in (error, pickle.loads(pickle.dumps(error))):
        assert isinstance(twin, ValueError)
        assert str(twin) == "document 'a/b.v': character 7: open bracket"
        assert (twin.document, twin.offset) == ("a/b.v", 7)
