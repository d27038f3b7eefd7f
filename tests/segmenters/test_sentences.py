"""Sentences by the rules: what a reader would cut, the laws, the fast lanes, and hostile text.

In sentences.json "|" marks the boundaries of examples, written for this test; dialogues of many
languages have quotes in quotes (BIPE_FUZZ=20000 reads more of them).
"""

import json
import os
import re
import unicodedata
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from segmenters import Sentences
from segmenters.prose import rules as sentence_rules
from segmenters.prose import tables
from segmenters.prose.ahead import REACH
from tests.segmenters.dialogues import LANGUAGES, dialogue
from tests.segmenters.record_samples import with_marks
from tests.segmenters.test_laws import SIGNS
from tests.segmenters.texts import any_text, pieces

pytest.importorskip("spacy")
RULES, AHEAD = Sentences(), Sentences(next_word=True)
TEXTS = json.loads(Path(__file__).with_name("sentences.json").read_text(encoding="utf-8"))
CAUSAL = TEXTS["causal"] | TEXTS["languages"]


@pytest.mark.parametrize("case", CAUSAL)
def test_one_character_decides_where_a_reader_ends_a_sentence(case):
    expected = CAUSAL[case].split("|")
    text = "".join(expected)
    assert pieces(text, RULES) == pieces(text, Sentences(backend="spacy")) == expected


def test_sentences_in_quotes_end_at_their_terminators_and_closers():
    names = set()
    for seed in range(int(os.environ.get("BIPE_FUZZ", "200"))):
        text, ends, name = dialogue(seed)
        expected = with_marks(text, [[*ends, len(text)]])
        assert with_marks(text, [RULES.cut(text)]) == expected, (seed, name)
        names.add(name)
    assert names == {*LANGUAGES}


@pytest.mark.parametrize("case", TEXTS["next_word"])
def test_the_next_word_decides_if_it_may(case):
    expected = TEXTS["next_word"][case].split("|")
    for backend in ("rules", "spacy"):
        assert pieces("".join(expected), Sentences(backend=backend, next_word=True)) == expected


@pytest.mark.parametrize("space", ["  ", "\n", "\r\n", "\u3000", "\u00a0", "\n\n", " \n \n "])
def test_white_space_behind_a_sentence_may_be_of_any_kind(space):
    for text in TEXTS["languages"].values():
        *parts, final = text.split("|")
        parts = [part[:-1] + space if part[-1] == " " else part for part in parts]
        assert pieces("".join([*parts, final]), RULES) == [*parts, final]


@pytest.mark.parametrize(("between", "closes"), [(10, True), (60, False)])
def test_a_quotation_between_spaces_that_is_never_closed_is_forgotten(between, closes):
    text = 'He said " nothing. ' + "We went on. " * between + '" It is so. '
    assert pieces(text, RULES)[-1] == ("It is so. " if closes else '" It is so. ')


def test_a_list_starts_anew_with_its_line():
    text = "1) a 2) b\nSee 3) c\n1) d 2) e"
    assert pieces(text, AHEAD) == ["1) a ", "2) b\nSee 3) c\n1) d ", "2) e"]


def test_leading_white_space_belongs_to_the_first_sentence():
    assert pieces(" \n\n One. Two. ", RULES) == [" \n\n One. ", "Two. "]
    assert pieces(" \n\n ", RULES) == [" \n\n "]


@pytest.mark.parametrize("plane", range(2))
def test_each_terminator_of_unicode_ends_sentences(plane):
    """All that the Python that runs this knows of the property Sentence_Terminal."""
    signs = map(chr, range(0x10000 * plane, 0x10000 * plane + 0x10000))
    found = [sign for sign in signs if regex.fullmatch(r"\p{Sentence_Terminal}", sign)]
    found = [sign for sign in found if unicodedata.category(sign) != "Cn"]
    assert len(found) >= 70
    for sign in found:
        sentence = f"\u05d0\u05d1\u05d2\u05d3\u05d4\u05d5{sign} "
        assert RULES.cut(3 * sentence).tolist() == [0, 8, 16, 24], hex(ord(sign))
        machine, ends = RULES.machine(), []
        for character in 3 * sentence:
            ends += machine.push(character)
        assert [end for end in ends if end > 0] == [8, 16], hex(ord(sign))


HARD = st.lists(st.sampled_from(SIGNS[RULES]), max_size=30).map("".join)
_WORDS = [
    *("yes", "Then", "I", "A", "Dr", "etc", "a.m", "it", "3", "one", "Co", "\u6765", "\u0561"),
    *("x", "X in", "the set S", "by J", "z < k", "info", "Yahoo"),
]
_ENDS = [
    *(". ", "? ", ".", "! \n", ".) ", '." ', ". '", "\u3002", "\uff01 ", ".\n", " ", ", ", ". - "),
]
# Short words and ends in turn, so that each end has a word before and behind it.
sentences = st.lists(st.tuples(st.sampled_from(_WORDS), st.sampled_from(_ENDS)), max_size=12).map(
    lambda pairs: "".join(word + end for word, end in pairs)
)


@given(text=any_text)
def test_rules_alone_and_rules_in_spacy_cut_alike(text):
    assert RULES.cut(text).tolist() == Sentences(backend="spacy").cut(text).tolist()


@lru_cache
def without_lanes(pattern):
    """The candidates without the lanes that decide at first sight: `_is_end` decides on all."""
    twin = pattern.pattern.replace(tables.LANES, "").replace(tables.WIDE_LANES, "")
    assert twin != pattern.pattern
    return re.compile(twin)


def slow_ends(text, *, next_word=False):
    """The ends that `_is_end` finds, asked about each candidate."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("ASCII", "ANY", "AMONG_WIDE"):
            patch.setattr(tables, name, without_lanes(getattr(tables, name)))
        return sentence_rules.sentence_ends(text, next_word=next_word)


@given(text=st.one_of(any_text, HARD, sentences), next_word=st.booleans())
@settings(max_examples=12 * settings.default.max_examples)
def test_the_fast_lanes_cut_as_the_slow_one(text, next_word):
    fast = sentence_rules.sentence_ends(text, next_word=next_word)
    assert fast == slow_ends(text, next_word=next_word)


def test_what_is_remembered_is_what_was_decided():
    units = ["a.m. ", "Co. I ", "jr. A", "1. ", "I. ", "- 2. ", ". . A", "! A", ". ''", "\u03b1; "]
    for unit in (*units, "x. Y", "in X. y. "):
        text = "So it is. " + unit * 40 + "`` So. '' " + unit * 40
        assert sentence_rules.sentence_ends(text) == slow_ends(text), unit


def test_options_and_tables_make_another_fingerprint(monkeypatch):
    assert (RULES.lookahead, AHEAD.lookahead) == (1, REACH)
    before = RULES.fingerprint()
    assert before != AHEAD.fingerprint()
    monkeypatch.setattr(tables, "LISTS", (frozenset({"co"}), *tables.LISTS[1:]))
    assert RULES.fingerprint() != before


def test_cuts_of_a_long_text_are_dense_in_sentences():
    text = "A short sentence here. " * 50_000
    assert len(text) > 1_000_000  # spaCy's usual limit
    for backend in ("rules", "spacy"):
        assert (np.diff(Sentences(backend=backend).cut(text)) == 23).all()
