"""Boundaries from a field of the row or from a function: where they cut, and what is refused."""

import pickle
import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from bipe.build import build
from segmenters import Called, Given, Segmenter, SegmenterError
from tests.segmenters.texts import any_text, pieces

TEXT = "He left. She stayed.\n\nIt rained."


def levels(value, text=TEXT, **options):
    chosen = Given(field="b", **options).choose(text=text, meta={"b": value})
    return [pieces(text, chosen, level=level) for level in range(len(chosen.level_names))]


SEGMENTS = ["He left. ", "She stayed.\n\n", "It rained."]


def test_offsets_spans_and_texts_say_the_same():
    for value in ([9, 22], [0, 9, 22], [9, 22, 32], SEGMENTS):
        assert levels(value) == [SEGMENTS]
    assert levels(["He left.", "", "She stayed.", " It rained.\n"]) == [SEGMENTS]
    assert levels([[0, 8], [9, 20], [22, 32]], form="spans") == [SEGMENTS]


@pytest.mark.parametrize(
    ("value", "form"),
    [
        ([["He left.", "She stayed."], ["It rained."]], "auto"),
        ([[0, 9], [22]], "auto"),
        ([[[0, 8], [9, 20]], [[22, 32]]], "spans"),
    ],
)
def test_lists_in_lists_are_levels(value, form):
    fine, coarse = levels(value, form=form, names=["sentence", "paragraph"])
    assert fine == SEGMENTS
    assert coarse == ["He left. She stayed.\n\n", "It rained."]
    names = Given(field="b", names=["sentence", "paragraph"]).level_names
    assert names == ("sentence", "paragraph")


def test_text_in_no_span_is_a_segment_of_its_own():
    assert levels([[9, 20]], form="spans") == [SEGMENTS]
    assert levels(["She"]) == [["He left. ", "She ", "stayed.\n\nIt rained."]]
    assert levels([]) == [[TEXT]]


@pytest.mark.parametrize(
    ("value", "options", "rule"),
    [
        ([9, 99], {}, "character 99: field 'b': offsets must increase and be from 9 to 32 here"),
        ([9, 4], {}, "offsets must increase and be from 9 to 32 here, was: 4"),
        ([-1], {}, "offsets must increase and be from 0 to 32 here"),
        (["He left.", "He left."], {}, "character 8: field 'b': texts must occur in the document"),
        ([True], {}, "must be texts or offsets"),
        ([[0, 8]], {}, "must be texts or offsets in characters; set form=spans for pairs"),
        ([[0, 8, 9]], {"form": "spans"}, "spans must be pairs of a start and an end"),
        ("He left.", {}, "boundaries must be lists nested 1"),
        (["a"], {"names": ["x", "y"]}, "boundaries must be lists nested 1"),
        (None, {}, "boundaries must be lists nested 1"),
    ],
)
def test_wrong_boundaries_are_refused(value, options, rule):
    with pytest.raises(SegmenterError, match=re.escape(rule)):
        levels(value, **options)


def test_a_document_without_the_field_is_refused_with_the_cure():
    with pytest.raises(SegmenterError, match=r"field 'b' .*path\); set meta_keys=\[b\]"):
        Given(field="b").choose(text=TEXT, meta={"path": "x"})
    with pytest.raises(SegmenterError, match=r"choose\(text=\.\.\., meta={'b': "):
        Given(field="b").cut(TEXT)


@given(text=any_text, data=st.data())
def test_given_offsets_are_the_cuts(text, data):
    places = data.draw(st.lists(st.integers(0, len(text)), unique=True).map(sorted))
    chosen = Given(field="b").choose(text=text, meta={"b": places})
    assert chosen.cut(text).tolist() == sorted({0, len(text), *places})
    parts = [text[start:end] for start, end in pairwise([0, *places, len(text)])]
    joined = Given(field="b").choose(text=text, meta={"b": parts}).cut(text)
    assert joined[0] == 0 and joined[-1] == len(text)


class Splitter:
    made = 0

    def __init__(self, *, sign):
        type(self).made += 1
        self.sign = sign

    def split(self, text):
        return [part for part in re.split(f"(?<={self.sign})", text) if part]


def after(text, *, sign="."):
    return [place + 1 for place, letter in enumerate(text) if letter == sign]


def broken(text):
    raise KeyError(text[:1])


class Found(NamedTuple):
    """What a library may return: sentences with a text, in an attribute."""

    text: str
    sents: Sequence["Found"] = ()


class Pipeline:
    def __call__(self, text):
        return Found(text, [Found(part) for part in text.split()])


def lines(language, text):
    return "\n".join(text.split(language))


HERE = "tests.segmenters.levels.test_given"


def test_a_function_or_a_method_of_an_object_cuts_and_is_loaded_once():
    assert Called(function=f"{HERE}:after").cut("a. b.c").tolist() == [0, 2, 5, 6]
    comma = Called(function=f"{HERE}:after", options={"sign": ","})
    assert comma.cut("a. b,c").tolist() == [0, 5, 6]
    method = Called(function=f"{HERE}:Splitter", method="split", options={"sign": ";"})
    before = Splitter.made
    for _ in range(3):
        twin = pickle.loads(pickle.dumps(method))
        assert twin == method and twin.cut("a;b; c").tolist() == [0, 2, 5, 6]
    assert Splitter.made - before <= 1
    assert comma.fingerprint()["parameters"]["options"] == {"sign": ","}


def test_sentences_are_read_as_libraries_return_them():
    method = Called(function=f"{HERE}:Pipeline", method="__call__", take="sents")
    assert method.cut("ab c d").tolist() == [0, 3, 5, 6]
    option_first = Called(function=f"{HERE}:lines", options={"language": ";"})
    assert option_first.cut("ab;c;d").tolist() == [0, 2, 3, 4, 5, 6]
    assert option_first.cut("a;b\x0cc\u2028d").tolist() == [0, 1, 2, 7]
    rows = Given(field="s").choose(text="a. b.", meta={"s": [{"text": "a."}, {"text": "b."}]})
    assert rows.cut("a. b.").tolist() == [0, 3, 5]
    with pytest.raises(SegmenterError, match="no attribute 'parts'"):
        Called(function=f"{HERE}:Pipeline", method="__call__", take="parts").cut("a")


@pytest.mark.parametrize("spans", [np.array([[0, 2], [3, 5]]), [np.array([0, 2]), (3, 5)]])
def test_spans_may_be_rows_of_numpy(spans):
    chosen = Given(field="s", form="spans").choose(text="a. b.", meta={"s": spans})
    assert chosen.cut("a. b.").tolist() == [0, 3, 5]


def test_spacy_is_called_by_its_recipe():
    sentencizer = {"nlp": {"pipeline": ["s"]}, "components": {"s": {"factory": "sentencizer"}}}
    options = {"name": "en", "config": sentencizer}
    called = Called(function="spacy:blank", method="__call__", take="sents", options=options)
    assert called.cut(TEXT).tolist() == [0, 9, 22, len(TEXT)]
    assert [*called.versions()] == ["spacy"]


RECIPES = Path(__file__).parents[3].joinpath("docs", "segmenters.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("library", ["blingfire", "sentencex"])
def test_a_recipe_runs_as_the_documentation_states_it(library):
    pytest.importorskip(library)
    row = re.search(rf"^\| {library} \| `(.*?)` \|.*\| (?:`(.*)`)? ?\|$", RECIPES, re.MULTILINE)
    called = Called(function=row[1], options=yaml.safe_load(row[2] or "{}"))
    assert called.cut(TEXT).tolist() == [0, 9, 22, len(TEXT)]


def test_what_a_function_does_wrong_is_an_error_of_the_segmenter():
    with pytest.raises(SegmenterError, match=r"test_given:broken: KeyError: 'x'"):
        Called(function=f"{HERE}:broken").cut("xy")
    with pytest.raises(SegmenterError, match="ModuleNotFoundError"):
        Called(function="nowhere_at_all:x").cut("xy")


def test_a_description_may_name_a_function_only_of_an_allowed_package():
    described = {"_target_": "segmenters.Called", "function": "os:system"}
    for form in (described, {"_target_": "segmenters.Clauses", "of": described}):
        with pytest.raises(ValueError, match=r"code that is not allowed.*allowed_targets=\[os"):
            build(form, Segmenter)
    with pytest.raises(ValueError, match="names code that is not allowed"):
        build(described | {"function": "oscar:f"}, Segmenter, allowed=("os.",))
    ours = {"_target_": "segmenters.Called", "function": "segmenters.base:nested"}
    with pytest.raises(ValueError, match="names code that is not allowed"):
        build(ours, Segmenter, allowed=("segmenters.",))
    allowed = described | {"function": f"{HERE}:after"}
    assert build(allowed, Segmenter, allowed=("tests.",)).cut("a.b").tolist() == [0, 2, 3]
