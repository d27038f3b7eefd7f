"""White space of Thai, judged by PyThaiNLP, and what is said where it is not installed."""

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segmenters import Sentences
from tests.segmenters.texts import grows_too_fast

pytest.importorskip("pythainlp")
THAI, RULES = Sentences(backend="thai"), Sentences()
# "I went home", "and ate rice with mother", "Today the weather is very good".
HOME = "\u0e09\u0e31\u0e19\u0e01\u0e25\u0e31\u0e1a\u0e1a\u0e49\u0e32\u0e19\u0e41\u0e25\u0e49\u0e27"
RICE = (
    "\u0e41\u0e25\u0e30\u0e01\u0e34\u0e19\u0e02\u0e49\u0e32\u0e27"
    "\u0e01\u0e31\u0e1a\u0e41\u0e21\u0e48"
)
DAY = (
    "\u0e27\u0e31\u0e19\u0e19\u0e35\u0e49\u0e2d\u0e32\u0e01\u0e32\u0e28"
    "\u0e14\u0e35\u0e21\u0e32\u0e01"
)


def test_phrases_are_told_from_sentences():
    text = f"{HOME} {RICE} {DAY}"
    phrase, sentence = len(HOME) + 1, len(HOME) + len(RICE) + 2
    assert RULES.cut(text).tolist() == [0, phrase, sentence, len(text)]
    assert phrase not in THAI.cut(text)
    assert {*THAI.cut(text).tolist()} <= {*RULES.cut(text).tolist()}
    assert THAI.lookahead is None


def test_other_languages_are_cut_by_the_rules():
    text = "Mr. Brown came. He left.\nThen\u0e01 \u0e81"
    text += "\u0e82\u0e84\u0e87\u0e88\u0e8a\u0e8d\u0e94 \u0e95."
    for options in ({}, {"next_word": True}, {"line_ends": "paragraph"}):
        assert (
            Sentences(backend="thai", **options).cut(text).tolist()
            == Sentences(**options).cut(text).tolist()
        )


@given(
    text=st.text(alphabet="\u0e01\u0e32\u0e4d\u0e33\u0e46\u0e48 \n.a\0\u200b\ud800", max_size=60)
)
def test_any_text_is_tiled(text):
    cuts = THAI.cut(text).tolist()
    assert cuts == sorted({0, *cuts, len(text)})


def test_dictionary_and_model_are_named_in_the_fingerprint():
    versions = THAI.fingerprint()["versions"]
    assert {"tables", "pythainlp", "python-crfsuite"} == set(versions)
    assert RULES.fingerprint()["versions"] == {"tables": versions["tables"]}


def test_nothing_is_imported_or_written_before_it_is_used(tmp_path):
    program = (
        "import sys; from segmenters import Sentences; Sentences().cut('\\u0e01 \\u0e02');"
        "assert 'pythainlp' not in sys.modules; Sentences(backend='thai').cut('\\u0e01 \\u0e02')"
    )
    subprocess.run(
        [sys.executable, "-c", program],
        check=True,
        env={"HOME": str(tmp_path), "PYTHONPATH": ":".join(sys.path)},
    )
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("unit", ["\u0e01\u0e32 ", "\u0e01", " \u0e01 \u0e02"])
def test_hostile_text_takes_linear_time(unit):
    texts = ((unit * size)[:size] for size in (1_000, 4_000))
    assert not grows_too_fast(THAI.cut, *texts, most=9, slack=0.05)
