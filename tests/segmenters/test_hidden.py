"""What is hidden in a comment, a string, a here-document or an address ends no statement.

`BIPE_FUZZ=400 pytest tests/segmenters/test_hidden.py` reads so many texts of each form. Texts of
some forms are also counted by readers that are not ours.
"""

import ast
import csv
import dataclasses
import io
import json
import os
import sqlite3
import tomllib
from html.parser import HTMLParser
from itertools import pairwise

import pytest
import yaml

from segmenters import Mixed
from segmenters.code.minified import statement_ends
from tests.segmenters import hidden_code, hidden_texts
from tests.segmenters.hidden import hidden

FORMS = hidden_texts.FORMS | hidden_code.FORMS
_TEXTS = int(os.environ.get("BIPE_FUZZ", "20"))


def marked(text, starts):
    return "\u00a6".join(text[start:end] for start, end in pairwise([*starts, len(text)]))


@pytest.mark.parametrize("name", FORMS)
def test_statements_end_where_their_format_ends_them(name):
    segmenter = FORMS[name].segmenter
    for seed in range(_TEXTS):
        text, starts = hidden(FORMS[name], seed)
        assert marked(text, segmenter.cut(text).tolist()[:-1]) == marked(text, starts), seed


@pytest.mark.parametrize("name", ["sql of sqlite", "csv", "toml", "yaml", "python"])
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
        found = [0, *statement_ends(text, 0, len(text), language)]
        assert marked(text, found) == marked(text, starts), seed


def of_sqlite(text):
    count, start = 0, 0
    for place, sign in enumerate(text, 1):
        if sign == ";" and sqlite3.complete_statement(text[start:place]):
            count, start = count + 1, place
    return count


def of_yaml(text):
    found = yaml.compose(text).value
    return len(found) + sum(len(value.value) for key, value in found if key.value == "f")


class _Shown(HTMLParser):
    def handle_data(self, data):
        self.shown = getattr(self, "shown", "") + data


def of_html(text):
    reader = _Shown()
    reader.feed(text.replace("<![CDATA[", "<!--").replace("]]>", "-->"))
    return reader.shown.count(" here. ") + reader.shown.count(", then! ")


READERS = {
    "csv": lambda text: len([*csv.reader(io.StringIO(text, newline=""))]),
    "tsv": lambda text: len([*csv.reader(io.StringIO(text, newline=""), delimiter="\t")]),
    "html": of_html,
    "json": lambda text: len(json.loads(text, object_pairs_hook=list)),
    "python": lambda text: len(ast.parse(text).body),
    "sql of sqlite": of_sqlite,
    "yaml": of_yaml,
}


@pytest.mark.parametrize("name", READERS)
def test_readers_of_others_count_as_many_statements(name):
    form = FORMS[name]
    if name in ("json", "html"):  # without comments, which JSON has not, and CDATA
        form = dataclasses.replace(form, comments=(), ends=())
    for seed in range(_TEXTS):
        text, starts = hidden(form, seed)
        assert READERS[name](text) == len(starts), text


def test_a_reader_of_toml_finds_one_key_in_each_statement():
    for seed in range(_TEXTS):
        text, starts = hidden(FORMS["toml"], seed)
        for start, end in pairwise([*starts, len(text)]):
            assert len(tomllib.loads(text[start:end])) == 1, text
