"""What the sentence rules know: scripts, quotes and abbreviations, and what the next word adds."""

import re
from functools import lru_cache
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from segmenters import Sentences
from segmenters.prose import rules as sentence_rules
from segmenters.prose import tables
from segmenters.prose.ahead import REACH
from tests.segmenters.texts import any_text, grows_too_fast

RULES = Sentences(backend="rules")
AHEAD = Sentences(backend="rules", next_word=True)


def pieces(text, segmenter):
    return [text[start:end] for start, end in pairwise(segmenter.cut(text))]


# "|" marks the boundaries.
CAUSAL = {
    "few words do not end at an abbreviation": "In the U.S. Senate it passed. |At 5 a.m. Ann left.",
    "an abbreviation may end many words": "He lives in the far U.S. |They do not. |At 5 p. m. |We.",
    "states before nouns": "She was in the U.S. Army. |She left the U.S. |It is & Co. KG.",
    "brackets within a sentence": "It left (Fig. No. 5. So it says) then. |(It was. |Yes.) |So.",
    "ranges of ordinals": "Aus dem 1. -3. Jahrhundert. |Gut.",
    "units and years": "It took 5 m. |Then w 1986 r. |Potem.",
    "three periods apart": "It was . . . I mean it. |A period . . . . |Next.",
    "omission in quotes": '"So [...] the end [...]" (Smith 55). |Then.',
    "short words before small letters": "i want it. |they have two. |ask pp. ten",
    "accents before small letters": "en s\u00e9curit\u00e9. |\u00e0 ce jour",
    "no white space": "good service.|There are more!|Try it...|Then go to www.Site.com or J.Smith.",
    "dashes tell who says so": "\u2013 Why? \u2013 she asked. |- Because! \u2014 he said.",
    "a hyphen starts a turn": "- Why? |- Because. |- \u00bbHow?\u00ab - he asked.",
    "symbols": "For each x in S. |Then A and B. |So the set S. |By J. Smith, in A. Jones.",
    "tokenised text": 'Se oli . |niin . |" Hyv\u00e4 . " |Sitten .',
    "ordinals": "Montag, 3. Juli, im XIX. Jahrhundert, v 19. stolet\u00ed. |Od 23. 8. 1999. |Pak.",
    "sections": "8.2. Text of it. |See section 8.2. |Then 9.",
    "words in brackets": "Das Haus (engl. House) und (vgl. Abb. 3). |Gut (so). |Na [ja]. |Ende.",
    "unknown abbreviations": "Am bbrv. 5 und Th. Mann, 5 km. |Hmm. |Dann ging er. |Shh. |Gut.",
    "units": "Det kostar 15 mill. kronor. |Ja.",
    "numbers of notes": "It was decided.12 |As (here).3 |No.\u00b3 |Still version 1.2 is out.",
    "Cyrillic initials": "\u0414\u0436. \u0423. \u0413\u0438\u0431\u0441. |\u0414\u0430.",
    "Indic initials": "\u0939 \u0907. \u0915\u0947. \u0930 \u0906\u092f\u093e\u0964 |\u0939.",
    "titles of works": "\u300a\u8d70\uff01\u300b\u597d\u3002|\uff08\u662f\u3002\u4e0d\uff09\u3002",
    "Finnish quotes": "H\u00e4n tuli. |\u201dHyv\u00e4\u00e4!\u201d |Niin.",
    "Korean": "\ub124. |\uc88b\uc544\uc694.",
    "low commas": "Dat zegt de vrouw. |,, Kom nu. '' |Ja.",
    "guillemets apart": "Il dit \u00ab oui. \u00bb |Elle rit. |\u00bbJa.\u00ab |Gut.",
    "doubled marks apart": "Hij zei: ,, Ja. '' |Toen ging hij.",
    "emoji stay behind": "Great! \U0001f334\U0001f334 |We left \U0001f600 |And so on.",
    "a face may come first": "\U0001f600 Hello there. |Bye.",
    "quotes apart": "He sings ' Oh dad ! ' and '' Come ! '' there . |' Dr . Yes . ' |It is .",
    "German guillemets": "\u00bbJa?\u00ab |\u00bbNein\u00ab, rief er. |\u00bbDoch.\u00ab",
    "abbreviations of two words": "Das ist Dr. med. Kurz. |Vedi (ad es. Rom).",
    "faces of signs": "We won :) |Then we lost :-( |He left ;) and came back (so :) it was).",
    "no width": 'He left.\u200b |She "came.\u200f"\u2060 |It.\ufeff |\u05d3\u05d0.\u200f |\u05d0.',
    "labels": "Chapter 7. Basics\n\n|Table 5.2.\u00a0A list\n\n|Part IV. Night\n\n|Map 3.\n|It.",
    "labels of sentences": "See Chapter 5. |It is long, as is Part 7. |Room 5. |Go.",
    "other labels": "\u0413\u043b\u0430\u0432\u0430 7. \u041e\u043d\n\n|\u56fe 5. \u7f51.",
    "signs in quotes": 'Use "?" (or "h"). |An "!" |"Yes." |The \u201e.\u201c - a dot. |"?" |It.',
    "rules": "He left\n%\n|she.\n|* * *\n\n|It\n ---\r\n|a\n\u2550\u2550\u2550 \n |2\n--\nor 5\n%.",
    "dividers": "Best wishes ------ |The end ====== |2 more. |See ______ there - or -- There.",
    "addresses": "From: Ann Lee <a.lee@c.org> |Date: today. |Ask <a@b.c> about x<y> Then go.",
    "Greek questions": "\u03a4\u03b9; |\u039d\u03b1\u03b9; \u03bd\u03b1\u03b9.",
    "Armenian colons": "\u0535\u057d\u055d \u0561\u0575\u0576: |\u0544\u0565\u0576\u0584. \u0531",
    "Chinese opening quotes": "\u6765\u3002|\u201c\u597d\u3002\u201d|\u4ed6",
    "elided articles": "Vedi l'art. 5 e dell'art. 6. |Poi va.",
    "hyphened initials": "Avec J.-P. Blanc. |Oui.",
    "a word that is a unit": "He walked in. |20 minutes later he left. |A 12 in. [30 cm] board.",
    "Polish": "Na ul. Polnej o godz. 9 oraz m.in. Jan. |Dobrze.",
    "Dutch": "Met dhr. Bos en mevr. Prins, d.w.z. Ja. |Goed.",
    "Portuguese": "O Sr. Silva e a Sra. Costa. |V\u00e3o.",
    "items of lines": "Take:\n|* bread\n|* milk - or\n so\n|* rice\n\n|1. one\n|2. two",
    "items of letters": "a. one\n|b. two\n\n|(1) so\n|(2) then\n\n|a) long, "
    + "long " * 9
    + "\nbut.",
    "items without end": "a. one\nc. three\n7. one\n9. two\n+ one\n- two",
    "phrases of time": "At 5 a.m. Mr. Hale left. |He was home by 6 a.m. |Mr. Hale was not.",
    "no white space behind days": "I left on Monday.|He had paid 1,000.|It is 1.5.A",
    "three periods and two spaces": "Happy . . .  |No one was. |Sad . . . No one was.",
    "firms before Danish": "Hun var hos Briggs & Co. |Det var godt.",
    "Roman ordinals": "Boli \u0161esti XII. Pluku. |To je Henry II. |So.",
    "Russian": "\u041d\u0430 \u0443\u043b. \u041c\u0438\u0440\u0430. |\u0414\u0430.",
}
READ_AHEAD = {
    "the next word decides": "I work for the U.S. Government. |I live in the U.S. |How about you?",
    "items of a line": "1) milk and bread |2) Eggs",
    "numbered items": "1.) The first item |2.) The second item",
    "lettered items": "a. The first |b. The second |c. The third",
    "items count on": "1. Take them all |2. Rest",
    "items behind a sentence": "So it went. |a. here |b. there |c. back. |Call 1) him 2) her.",
    "items of lines": "Take:\n|* bread\n|* milk - or\n so\n|* rice\n\n|1. one\n|2. two\n7) three",
    "speech in small letters": "- Why? - she asked. |Come home! he said. |What for? |- No.",
    "times": "It left at 6 p.m. |Travelers wait. |She had an I.V. |It was late.",
    "no white space": "We saw the world.|Today is Tuesday.|Mr. Blanc paid 1,000.|That is Node.Js.",
    "sums and dates": "1 + 1 is 2. |2 + 2 is 4. |Am 23. 8. 1999.",
    "who speaks": '"Sorry!" I say. |"No!" |I went.',
    "omission at the start": "It was so. |. . . The end was not. |...and so on.",
}


@pytest.mark.parametrize("backend", ["rules", "spacy"])
@pytest.mark.parametrize("case", CAUSAL)
def test_one_character_decides(case, backend):
    expected = CAUSAL[case].split("|")
    assert pieces("".join(expected), Sentences(backend=backend)) == expected


@pytest.mark.parametrize("backend", ["rules", "spacy"])
@pytest.mark.parametrize("case", READ_AHEAD)
def test_the_next_word_decides_if_it_may(case, backend):
    expected = READ_AHEAD[case].split("|")
    assert pieces("".join(expected), Sentences(backend=backend, next_word=True)) == expected


def test_a_list_starts_anew_with_its_line():
    text = "1) a 2) b\nSee 3) c\n1) d 2) e"
    assert pieces(text, AHEAD) == ["1) a ", "2) b\nSee 3) c\n1) d ", "2) e"]


_HARD = [
    *".!?: ;'`,[]1a\u201c\u00ab\u00bb\u3002\U0001f600\u0561\u03b1",
    *(" ''", " ' ", "``", ". ", "\n\n", "Yes", " :) ", "------ ", "<a@b.c> "),
    *("\u201d ", " (", "\u1361\u1361", "1.", "Mr.", "U.S", "es.", "a) "),
]
_LISTS = [
    "* ",
    "- ",
    "1. ",
    "2",
    "(1) ",
    "(",
    "a) ",
    "b",
    "c",
    "\n",
    "\n  ",
    ":\n",
    "word ",
    "so. ",
]
hard = st.one_of(
    st.lists(st.sampled_from(signs), max_size=30).map("".join) for signs in (_HARD, _LISTS)
)


@given(text=hard)
def test_quotes_and_emoji_are_decided_at_the_next_character(text):
    cuts = RULES.cut(text).tolist()
    for length in range(1, len(text)):
        seen = [place for place in RULES.cut(text[:length]).tolist() if place < length]
        assert seen == [place for place in cuts if place < length]


@given(text=any_text)
def test_reading_the_next_word_obeys_the_laws(text):
    cuts = AHEAD.cut(text)
    assert (np.diff(cuts) > 0).all() and cuts[0] == 0 and cuts[-1] == len(text)
    assert cuts.tolist() == Sentences(next_word=True).cut(text).tolist()
    for length in range(1, len(text)):
        known = length - REACH
        seen = {place for place in AHEAD.cut(text[:length]).tolist() if place <= known}
        assert seen == {place for place in cuts.tolist() if place <= known}


def test_the_option_is_named_where_it_is_wrong():
    assert (RULES.lookahead, AHEAD.lookahead) == (1, REACH)
    assert RULES.fingerprint() != AHEAD.fingerprint()
    with pytest.raises(TypeError, match="next_word must be a bool, was: int"):
        Sentences(next_word=1)
    with pytest.raises(ValueError, match="next_word must be false unless backend is rules"):
        Sentences(backend="senter", next_word=True)


@pytest.mark.parametrize(
    "unit",
    ["1) ", "1) 2) ", ". \u00bb ", ". '' ", "; ", ". . ", "\U0001f600 ", "a.B", "! \U0001f600"],
)
def test_hostile_text_takes_linear_time(unit):
    # Four times the text: 4 when linear, 16 when quadratic; the constant forgives the clock.
    texts = ((unit * size)[:size] for size in (30_000, 120_000))
    assert not grows_too_fast(AHEAD.cut, *texts, most=9, slack=0.02)


_WORDS = ["yes", "Then", "I", "A", "Dr", "etc", "a.m", "it", "3", "one", "Co", "\u6765", "\u0561"]
_ENDS = [
    *(". ", "? ", ".", "! \n", ".) ", '." ', ". '", "\u3002", "\uff01 ", ".\n", " ", ", "),
    *(". - ",),
]
# Short words and ends in turn, so that each end has a word before and behind it.
sentences = st.lists(st.tuples(st.sampled_from(_WORDS), st.sampled_from(_ENDS)), max_size=12).map(
    lambda pairs: "".join(word + end for word, end in pairs)
)


@pytest.mark.parametrize("case", CAUSAL)
def test_each_case_is_decided_at_the_next_character(case):
    text = CAUSAL[case].replace("|", "")
    cuts = RULES.cut(text).tolist()
    for length in range(1, len(text)):
        seen = [place for place in RULES.cut(text[:length]).tolist() if place < length]
        assert seen == [place for place in cuts if place < length]


@lru_cache
def without_lanes(pattern):
    """The candidates without the lanes that decide at first sight: `_is_end` decides on all."""
    twin = pattern.pattern.replace(tables.LANES, "")
    assert twin != pattern.pattern
    return re.compile(twin)


def slow_ends(text, *, next_word=False):
    """The ends that `_is_end` finds, asked about each candidate; nothing is remembered."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("ASCII", "ANY"):
            patch.setattr(tables, name, without_lanes(getattr(tables, name)))
        patch.setattr(sentence_rules, "_DENSE", 0)
        return sentence_rules.sentence_ends(text, next_word=next_word)


@given(text=st.one_of(any_text, hard, sentences), next_word=st.booleans())
@settings(max_examples=12 * settings.default.max_examples)
def test_the_fast_lanes_cut_as_the_slow_one(text, next_word):
    assert sentence_rules.sentence_ends(text, next_word=next_word) == slow_ends(
        text, next_word=next_word
    )


@pytest.mark.parametrize(
    "unit", ["a.m. ", "Co. I ", "jr. A", "1. ", "I. ", "- 2. ", ". . A", "! A", ". ''", "\u03b1; "]
)
def test_what_is_remembered_is_what_was_decided(unit):
    text = "So it is. " + unit * 40 + "`` So. '' " + unit * 40
    assert sentence_rules.sentence_ends(text) == slow_ends(text)
