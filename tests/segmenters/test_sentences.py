"""Sentences by the rules: what a reader would cut, the laws, the fast lanes, and hostile text.

In sentences.json "|" marks the boundaries of examples, written for this test; dialogues of many
languages have quotes in quotes (BIPE_FUZZ=20000 reads more of them).
"""

import json
import os
import string
import unicodedata
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from segmenters import Sentences
from segmenters.prose import candidates, word_lists
from segmenters.prose import rules as sentence_rules
from segmenters.prose import sentences as causal_sentences
from segmenters.prose.endings import foresight
from segmenters.prose.endings.ahead import REACH
from segmenters.prose.endings.doubt import names
from segmenters.prose.endings.table import ENDS
from tests.segmenters.dialogues import LANGUAGES, dialogue
from tests.segmenters.samples import with_marks
from tests.segmenters.test_laws import SIGNS
from tests.segmenters.texts import any_text, pieces

pytest.importorskip("spacy")
RULES, AHEAD = Sentences(), Sentences(next_word=True)
TEXTS = json.loads(Path(__file__).with_name("sentences.json").read_text(encoding="utf-8"))
CAUSAL = TEXTS["causal"] | TEXTS["languages"] | TEXTS["words_by_language"]


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


def test_letters_may_be_decomposed_in_abbreviations():
    text = unicodedata.normalize("NFD", "Le g\u00e9n. Leclerc est n\u00e9 le 5 f\u00e9vr. 1902.")
    assert pieces(text, RULES) == [text]


@pytest.mark.parametrize("name", ["DE", "de-AT", "German", "deu_Latn"])
def test_a_language_has_many_names(name):
    text = "So ist es, gest. Mai in Rom, siehe Abs. Drei. He changed his mind. Then."
    assert pieces(text, Sentences(language=name)) == pieces(text, Sentences(language="de"))


def test_how_a_very_long_sentence_began_is_forgotten():
    text = "\u2014 " + "word " * 1000 + "why? \u2014 Then he left it. So"
    machine = RULES.machine()
    ends = machine.push(text[:4500]) + [e for c in text[4500:] for e in machine.push(c)]
    assert [0, *ends, len(text)] == RULES.cut(text).tolist()


@pytest.mark.parametrize("place", range(511, 517))
def test_words_of_a_language_are_kept_as_far_back_as_they_are_read(place):
    """All but what may be read again is forgotten at the last letter of an abbreviation."""
    before = ("qq " * 2000)[: causal_sentences._LONGEST - 3]
    text = f"{before[:-place]} the {before[5 - place :]} Abs. Basics are it"
    machine = RULES.machine()
    pieces_of = (text[: causal_sentences._LONGEST], *text[causal_sentences._LONGEST :])
    ends = [end for piece in pieces_of for end in machine.push(piece)]
    assert [0, *ends, len(text)] == RULES.cut(text).tolist()


def test_leading_white_space_belongs_to_the_first_sentence():
    assert pieces(" \n\n One. Two. ", RULES) == [" \n\n One. ", "Two. "]
    assert pieces(" \n\n ", RULES) == [" \n\n "]


@pytest.mark.parametrize("plane", range(2))
def test_each_terminator_of_unicode_ends_sentences(plane):
    """All of the property Sentence_Terminal, and the sof pasuq."""
    signs = map(chr, range(0x10000 * plane, 0x10000 * plane + 0x10000))
    terminals = [s for s in signs if regex.fullmatch(r"\p{Sentence_Terminal}|\u05c3", s)]
    assert len(terminals) >= 70
    for sign in terminals:
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


@given(
    st.lists(
        st.sampled_from([*" .!?()>\"'`=_~[]1aAB\r\t:", "etc", "Mr", "...", " ''", "------"]),
        max_size=24,
    ).map("".join)
)
def test_what_is_one_sentence_at_a_look_is_one_by_the_rules(text):
    assert not (sentence_rules.is_one(text) and sentence_rules.sentence_ends(text))


@given(text=any_text)
def test_rules_alone_and_rules_in_spacy_cut_alike(text):
    assert RULES.cut(text).tolist() == Sentences(backend="spacy").cut(text).tolist()


def slow_ends(text, **options):
    """The ends that the tables find, asked about each candidate."""
    return sentence_rules.sentence_ends(text, **options, log=[])


@given(
    text=st.one_of(any_text, HARD, sentences),
    next_word=st.booleans(),
    language=st.sampled_from(("xx", "xx", "de", "en")),
)
@settings(max_examples=12 * settings.default.max_examples)
def test_the_fast_lanes_cut_as_the_slow_one(text, next_word, language):
    options = {"next_word": next_word, "language": language}
    fast = sentence_rules.sentence_ends(text, **options)
    assert fast == slow_ends(text, **options)
    # As if the text were long, in one block or in many.
    for block in (candidates.BLOCK, 7):
        with patch.multiple(candidates, LONG=0, BLOCK=block):
            assert sentence_rules.sentence_ends(text, **options) == fast


def test_a_rare_sign_far_into_a_long_text_ends_a_sentence():
    text = "\u00c4ber so it is. " * (candidates.BLOCK // 8)
    assert pieces(text + "So it is\u203c Is it\u203d It is.", RULES)[-3:] == [
        "So it is\u203c ",
        "Is it\u203d ",
        "It is.",
    ]


def test_a_blank_line_behind_a_quote_that_opens_apart_ends_a_sentence():
    assert pieces("Is it! \u00bb\n\nso it is", RULES) == ["Is it! ", "\u00bb\n\n", "so it is"]


@pytest.mark.parametrize("gap", ["\n", "\t", "\r\n    "])
def test_a_word_behind_a_line_end_is_read_as_behind_a_space(gap):
    for text in ("So it was. Oh! no, it was not.", "she said so. so it ended. it did end. then"):
        parts = pieces(text.replace(" ", gap), RULES)
        assert [" ".join(part.split()) for part in parts] == [
            part.strip() for part in pieces(text, RULES)
        ]


def test_what_is_remembered_is_what_was_decided():
    units = ["a.m. ", "Co. I ", "jr. A", "1. ", "I. ", "- 2. ", ". . A", "! A", ". ''", "\u03b1; "]
    for unit in (*units, "x. Y", "in X. y. "):
        text = "So it is. " + unit * 40 + "`` So. '' " + unit * 40
        assert sentence_rules.sentence_ends(text) == slow_ends(text), unit


def test_a_pause_in_armenian_before_a_number_is_the_same_in_a_long_text():
    text = "\u0561\u0562\u0563... 21 \u0561\u0562\u0563: " * 400
    assert sentence_rules.sentence_ends(text) == slow_ends(text)


@pytest.mark.parametrize("word", ["a.m", "word", "Co", "X", "U.S", "z", "Jr", "sta", "3"])
@pytest.mark.parametrize("next_word", [False, True])
def test_letters_that_are_foreseen_alike_are_decided_each(word, next_word):
    for letter in string.ascii_letters + string.digits:
        text = f"He said that he saw it {word}. {letter}ord it is."
        fast = sentence_rules.sentence_ends(text, next_word=next_word)
        assert fast == slow_ends(text, next_word=next_word), letter


def test_what_was_foreseen_is_forgotten_before_it_is_too_much(monkeypatch):
    monkeypatch.setattr(foresight, "_MOST", 8)
    text = "".join(f"It was word{number}. Then it ended! " for number in range(100))
    assert sentence_rules.sentence_ends(text) == slow_ends(text)
    assert foresight.foresight(False, "xx").size <= 8


def test_of_long_runs_of_signs_and_spaces_nothing_is_kept():
    for size in range(200, 210):
        text = f"It was so.{' ' * size}Then it ended{'!' * size} So it was."
        assert sentence_rules.sentence_ends(text) == slow_ends(text)
    assert max(map(len, foresight.foresight(False, "xx"))) <= foresight._LONGEST


def decided(texts):
    """The names of the rules that decide at some place of the texts."""
    both = [Sentences(next_word=next_word) for next_word in (False, True)]
    return {ruling.rule for text in texts for rules in both for ruling in rules.why(text)}


def test_each_rule_of_the_tables_decides_a_sentence_of_these_tests():
    examples = [text.replace("|", "") for part in TEXTS.values() for text in part.values()]
    assert {*names(ENDS)} - decided(examples) == set()


def test_a_rule_is_named_at_each_place_where_a_sentence_might_end():
    text = "Dr. Lee left. It was 3.5 km."
    rulings = [(ruling.place, ruling.ends, ruling.rule) for ruling in RULES.why(text)]
    assert rulings == [
        (4, False, "abbreviation before a name"),
        (14, True, "plain word"),
        (23, False, "glued to what starts no sentence"),
        (28, True, "end of text"),
    ]


def test_options_and_tables_make_another_fingerprint(monkeypatch):
    assert (RULES.lookahead, AHEAD.lookahead) == (1, REACH)
    before = RULES.fingerprint()
    assert before != AHEAD.fingerprint()
    monkeypatch.setattr(word_lists, "LINES", (*word_lists.LINES, "de zzz"))
    assert RULES.fingerprint() != before


def test_cuts_of_a_long_text_are_dense_in_sentences():
    text = "A short sentence here. " * 50_000
    assert len(text) > 1_000_000  # spaCy's usual limit
    for backend in ("rules", "spacy"):
        assert (np.diff(Sentences(backend=backend).cut(text)) == 23).all()
