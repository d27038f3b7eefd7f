"""Writing of many scripts is prose, and its dialogues are conversations: looks in any language."""

import json
import unicodedata
from itertools import pairwise
from pathlib import Path

import pytest

from segmenters import Turns, route
from segmenters.documents.looks import looks_like

# Of each language some sentences, written for this test, and of some a dialogue.
TEXTS = json.loads(Path(__file__).with_name("scripts.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("form", ["NFC", "NFD"])
@pytest.mark.parametrize("language", TEXTS["prose"])
def test_prose_of_any_language_is_prose(language, form):
    """Vowels of many scripts are marks, which are no letters to Python."""
    text = unicodedata.normalize(form, TEXTS["prose"][language])
    for shown in (text, " ".join([text] * 5), "\n".join([text] * 3), "\n\n".join([text] * 9)):
        assert looks_like(shown) is None
        assert route(text=shown) == "prose"


@pytest.mark.parametrize("language", TEXTS["dialogues"])
def test_names_of_any_language_begin_turns(language):
    lines = TEXTS["dialogues"][language] * 2
    text = "\n".join(lines)
    assert looks_like(text) == "transcript"
    turns = Turns(names=True).levels(text)[1].tolist()
    assert [text[a:b].strip() for a, b in pairwise(turns)] == lines


def test_code_whose_comments_are_of_another_script_stays_code():
    said = TEXTS["prose"]["hi"]
    code = f"def f(x):\n    # {said}\n    return x\n\n\n" * 4
    assert looks_like(code) == "code"
