"""Sentences: cases stated by hand, the two ways to run the rules, and hostile text."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given

from segmenters import Sentences
from segmenters.prose import tables
from tests.segmenters.texts import any_text, grows_too_fast

spacy = pytest.importorskip("spacy")
RULES = Sentences(backend="rules")


def pieces(text, segmenter=RULES):
    cuts = segmenter.cut(text)
    return [text[start:end] for start, end in pairwise(cuts)]


# "|" marks the boundaries.
CASES = {
    "plain": "The door opened. |Nobody came in! |Why? |It was late.",
    "white space stays behind": "It rained.  \n|We left.",
    "titles": "Dr. Brown met Mrs. Lee on St. James Rd. |He waved.",
    "initials": "J. R. Moore wrote it. |W. B. agreed.",
    "the pronoun": "It was she and I. |Then we left.",
    "references": "See fig. 3, Prop. 2, no. 5 and pp. 20 of vol. I, e.g. A Book. |Or no. |Then go.",
    "decimals": "It costs 3.50 or $4.25 in all. |Cheap.",
    "addresses": "Write to a.b@c.org or see www.c.org/x.html today. |Thanks.",
    "times": "At 5 p.m. we met. |It was 6 p.m. |Nobody minded.",
    "companies": "Stone Inc. sold it. |She works for Stone Inc. |He does not.",
    "closing quotes": 'He said "Stop." |Then he ran. |(It was dark.) |So what?',
    "reported speech": '"Who is it?" she asked. |"Me!" said he.',
    "interjections": "Alas! my friend is gone. |Oh! how sad.",
    "informal": "that was nice! |and cheap food. |would go again",
    "ellipsis": "I thought... well, no. |Perhaps... |He left.",
    "spaced ellipsis": "I thought . . . no.",
    "words left out": "A law [...] Of the land.",
    "notes": "It was so. [12] |Others differ.[3] |Still.",
    "blank lines": "A heading\n\n|A paragraph without a stop\n \n|Another, wrapped\nhere.",
    "carriage returns": "A heading\r\n\r\n|Text, wrapped\r\nhere.",
    "numbered list": "1. First this.\n|2. Then that.\n|a. And so on.",
    "bullets": "\u2022 milk \u00b7 eggs |\u2022 bread",
    "German": "Am 3. Mai kam er, z. B. mit Dr. Kurz. |\u201eGut.\u201c |Dann ging er.",
    "French": "Elle a vu M. Dupont. |\u00c9tait-il seul ? |Oui.",
    "Spanish": "\u00bfQu\u00e9 hora es? |\u00a1Es tarde! |Vamos.",
    "Russian": "\u041e\u043d \u0431\u044b\u043b. |\u0410. \u0421. \u041f.",
    "Chinese": "\u6211\u6765\u4e86\u3002|\u4f60\u5462\uff1f|\u597d\uff01\u201d|\u4ed6\u8bf4\u3002",
    "Japanese": "\u96e8\u3002|\u300c\u884c\u304f\u3002\u300d\u3068\u8a00\u3002|\u306f!|\u305d",
    "Hindi": "\u0930\u093e\u092e \u0906\u092f\u093e\u0964 |\u0935\u0939 \u0917\u092f\u093e\u0964",
    "Arabic": "\u0645\u0646 \u0647\u0648\u061f |\u0647\u0648 \u0647\u0646\u0627. |\u0646.",
    "Urdu": "\u0648\u06c1 \u0622\u06cc\u0627\u06d4 |\u06c1\u0627\u06ba\u06d4",
    "Armenian": "\u0531\u0575\u0578\u0589 |\u0548\u0579\u0589",
}


@pytest.mark.parametrize("backend", ["rules", "spacy"])
@pytest.mark.parametrize("case", CASES)
def test_sentences_end_where_a_reader_ends_them(case, backend):
    expected = CASES[case].split("|")
    assert pieces("".join(expected), Sentences(backend=backend)) == expected


def test_leading_white_space_belongs_to_the_first_sentence():
    assert pieces(" \n\n One. Two. ") == [" \n\n One. ", "Two. "]
    assert pieces(" \n\n ") == [" \n\n "]


@given(text=any_text)
def test_rules_alone_and_rules_in_spacy_cut_alike(text):
    assert RULES.cut(text).tolist() == Sentences(backend="spacy").cut(text).tolist()


def test_wrong_parameters_are_named():
    with pytest.raises(TypeError, match="backend must be a str, was: int"):
        Sentences(backend=1)
    with pytest.raises(ValueError, match="language must not be empty"):
        Sentences(language="")


def test_other_tables_make_another_fingerprint(monkeypatch):
    before = RULES.fingerprint()
    monkeypatch.setattr(tables, "LISTS", (frozenset({"co"}), *tables.LISTS[1:]))
    assert RULES.fingerprint() != before


def test_spacy_reads_texts_beyond_its_usual_limit():
    text = "A short sentence here. " * 50_000
    assert len(text) > 1_000_000
    assert len(Sentences(backend="spacy").cut(text)) == 50_001


HOSTILE = [
    *("'\"", ".", " ", ". ", '."', ".\n", "\n ", "1. ", "a.", ". [1", "\u2022 ", "\u3002", "["),
    *("- 1. ",),
]


@pytest.mark.parametrize("unit", HOSTILE, ids=ascii)
@pytest.mark.parametrize("tail", ["", "x"])
def test_hostile_text_takes_linear_time(unit, tail):
    # Four times the text: 4 when linear, 16 when quadratic; the constant forgives the clock.
    texts = ((unit * size)[:size] + tail for size in (30_000, 120_000))
    assert not grows_too_fast(RULES.cut, *texts, most=9, slack=0.02)


def test_cuts_of_a_long_text_are_dense_in_sentences():
    cuts = RULES.cut("Every sentence ends here. " * 1000)
    assert np.diff(cuts).tolist() == [26] * 1000
