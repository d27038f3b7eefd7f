"""What is hidden in a comment, a string, a here-document or an address ends no statement.

`BIPE_FUZZ=400 pytest tests/segmenters/test_hidden.py` reads so many texts of each form.
"""

import os

import pytest

from segmenters import Mixed
from segmenters.code.minified import statement_ends
from tests.segmenters import hidden_code, hidden_texts
from tests.segmenters.hidden import hidden
from tests.segmenters.samples import with_marks

FORMS = hidden_texts.FORMS | hidden_code.FORMS
_TEXTS = int(os.environ.get("BIPE_FUZZ", "20"))


@pytest.mark.parametrize("name", FORMS)
def test_statements_end_where_their_format_ends_them(name):
    segmenter = FORMS[name].segmenter
    for seed in range(_TEXTS):
        text, starts = hidden(FORMS[name], seed)
        expected = with_marks(text, [[*starts, len(text)]])
        assert with_marks(text, [segmenter.cut(text)]) == expected, seed


@pytest.mark.parametrize("name", ["coq", "lean", "python"])
def test_listings_in_documents_are_cut_like_files(name):
    segmenter = Mixed(format="markdown", granularity="logical")
    before, after = f"Then.\n\n~~~~~~ {name.split()[0]}\n", "~~~~~~\n\nSo."
    for seed in range(_TEXTS):
        text, starts = hidden(FORMS[name], seed)
        listing = text if text.endswith("\n") else text + "\n"
        inside = [len(before) + start for start in starts]
        ends = [0, len("Then.\n\n"), *inside, *(len(before + listing) + at for at in (0, 8))]
        assert segmenter.cut(before + listing + after).tolist()[:-1] == ends, text


@pytest.mark.parametrize("language", hidden_code.MINIFIED)
def test_statements_of_a_long_line_end_where_their_language_ends_them(language):
    for seed in range(_TEXTS):
        text, starts = hidden(hidden_code.MINIFIED[language], seed)
        assert [0, *statement_ends(text, 0, len(text), language)] == starts, text
