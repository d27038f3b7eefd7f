"""The source whose segmenter suits a text is chosen, whatever the order of the sources."""

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segmenters import ArithmeticSteps, Auto, Clauses, Lean, Lines, Newline, Sentences
from train.data.rows.source_segmenter import own_segmenter, source_segmenter
from train.disk.manifest import plain
from train.errors import ConfigError

CHAINS = "\n".join(f"{n}+2+3 = {n + 2}+3 = {n + 5}" for n in range(40))
PROSE = "Dr. Smith slept. It rained all night! Nobody noticed. " * 5
# Text, the name of its file, and the segmenter of a source of its kind.
TEXTS = {
    "prose": (PROSE, None, Sentences()),
    "code": ("x = 1\n", "a.py", Lines()),
    "steps": (CHAINS, None, ArithmeticSteps()),
    "lean": ("theorem a : b := by simp\n", "a.lean", Lean()),
}


def sets_of(segmenters):
    """Data whose sources have these segmenters, as far as is asked of them."""
    held = {name: {"segmenter": plain(each.fingerprint())} for name, each in segmenters.items()}
    return SimpleNamespace(
        sources={name: ("folder", name) for name in held},
        manifests={"folder": {"sources": held}},
        levels_of=lambda name: (0,),
    )


def chosen(segmenters, text, name, **words):
    return source_segmenter(
        sets_of(segmenters), source=None, allowed=(), text=text, name=name, **words
    )


@given(st.permutations([*TEXTS]), st.sampled_from([*TEXTS]))
def test_the_source_of_the_kind_of_a_text_is_taken(order, kind):
    text, name, segmenter = TEXTS[kind]
    sources = {each: TEXTS[each][2] for each in order}
    assert chosen(sources, text, name) == segmenter
    del sources[kind]
    assert chosen(sources, text, name) == next(iter(sources.values()))


def test_a_segmenter_inside_another_counts_and_auto_comes_before_others(capsys):
    clauses, auto = Clauses(of=Sentences()), Auto()
    assert chosen({"a": Newline(), "b": clauses}, PROSE, None) == clauses
    assert chosen({"a": Newline(), "b": auto}, PROSE, None) == auto
    assert chosen({"a": auto, "b": Sentences()}, PROSE, None) == Sentences()
    wanted = Sentences(next_word=True)
    assert chosen({"a": wanted, "b": Sentences()}, PROSE, None) == Sentences()
    capsys.readouterr()
    assert chosen({"a": Lines(), "b": Lean()}, None, None, section="generate") == Lines()
    assert capsys.readouterr().err == (
        "bipe: generate.source=a is taken: a (Lines), the first source; there are also b (Lean)\n"
    )


def test_nothing_is_said_where_there_is_no_choice(capsys):
    assert chosen({"a": Lean(), "b": Lean()}, PROSE, None) == Lean()
    both = {"a": Lines(), "b": Lean()}
    assert chosen(both, PROSE, None, trained_on=["b"]) == Lean()
    assert source_segmenter(sets_of(both), source="b", allowed=()) == Lean()
    assert capsys.readouterr().err == ""


def test_the_notes_of_a_model_hold_the_segmenters_of_its_sources(tmp_path):
    held = sets_of({"a": Lines(), "b": Sentences()}).manifests["folder"]["sources"]
    given = {"allowed": (), "section": "generate"}
    assert own_segmenter(tmp_path, {"documents": held}, text=PROSE, **given) == Sentences()
    assert own_segmenter(tmp_path, {"documents": held}, source="a", **given) == Lines()
    with pytest.raises(ConfigError, match=r"generate.source: 'c' is not a source"):
        own_segmenter(tmp_path, {"documents": held}, source="c", **given)
    for documents in ({}, {"a": {}}, {"a": None}, None, [1]):
        with pytest.raises(ConfigError, match=r"cannot be read; set generate.segmenter"):
            own_segmenter(tmp_path, {"documents": documents}, **given)
