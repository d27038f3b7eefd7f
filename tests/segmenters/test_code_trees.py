"""Statements and definitions by grammar: snippets with the boundaries that a reader expects.

The snippets say what the rule means in each language; they cannot show how often real code has
forms that they do not hold.
"""

import re
import time
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from segmenters import Lines, SegmenterError
from segmenters.code import grammars, parsed
from segmenters.code.languages import LANGUAGES
from segmenters.code.tables import TABLES
from tests.segmenters import snippets_braces, snippets_other
from tests.segmenters.texts import any_text

SNIPPETS = snippets_braces.SNIPPETS | snippets_other.SNIPPETS

PARSED = [language for language in LANGUAGES if language != "python"]
_MARK, _LINE = re.compile(r"@=?\|(?=\n)"), re.compile(r"@=?\|\n")
each = pytest.mark.parametrize("language", PARSED)
UNITS = ["(", "'", '"', "`", "/*\n", "{\n", "%w(", "<!--\n", "\u3000", "\0", "\ud800", "a ", "\n"]


def pieces(text, language, level=0):
    cuts = Lines(granularity="block", language=language).levels(text)[level]
    return [text[start:end] for start, end in pairwise(cuts)]


@each
def test_every_language_cuts_its_snippet_as_written(language):
    snippet = SNIPPETS[language]
    text = _MARK.sub("", snippet)
    lines = [_MARK.sub("", piece) + "\n" for piece in _LINE.split(snippet)[:-1]]
    blocks = [_MARK.sub("", piece) + "\n" for piece in snippet.split("@=|\n")[:-1]]
    assert pieces(text, language) == lines
    assert pieces(text, language, level=1) == blocks


@each
def test_the_names_in_a_table_are_those_of_the_grammar(language):
    table = TABLES[language]
    grammar = grammars.load(table.module, table.function)
    known = {grammar.node_kind_for_id(number) for number in range(grammar.node_kind_count)}
    own = f"{table.opens} {table.defines} {table.contains} {table.loose}".split()
    allowed = {"jsx_element", "jsx_text"} if language == "typescript" else set()
    assert set(own) - known - allowed == set()


@each
@settings(deadline=None)  # the first text loads the grammar
@given(data=st.data())
def test_any_text_is_tiled_by_lines_and_blocks(language, data):
    text = data.draw(st.one_of(any_text, st.binary(max_size=80).map(lambda b: b.decode("latin-1"))))
    physical = Lines().cut(text)
    lines, blocks = Lines(granularity="block", language=language).levels(text)
    assert lines[0] == blocks[0] == 0 and lines[-1] == blocks[-1] == len(text)
    assert np.isin(lines, physical).all() and np.isin(blocks, lines).all()


@each
def test_characters_beyond_ascii_do_not_move_cuts(language):
    text = _MARK.sub("", SNIPPETS[language])
    head = {"html": "<!-- {} -->\n", "css": "/* {} */\n", "ocaml": "(* {} *)\n"}.get(language)
    if head is None:
        return
    plain, rich = head.format("abcd"), head.format("\u00e9\u3042\U0001f600\ud800")
    assert len(plain) == len(rich)
    logical = Lines(granularity="logical", language=language)
    assert logical.cut(plain + text).tolist() == logical.cut(rich + text).tolist()


@pytest.mark.parametrize("line_end", ["\r\n", "\r"])
def test_line_ends_of_other_systems_are_line_ends(line_end):
    text = "f(1,\n  2);\ng();\n".replace("\n", line_end)
    expected = ["f(1,\n  2);\n", "g();\n"]
    if line_end == "\r\n":
        assert pieces(text, "javascript") == [e.replace("\n", line_end) for e in expected]
    assert "".join(pieces(text, "javascript")) == text


def test_broken_code_has_physical_lines_where_it_is_broken():
    text = (
        "int a = f(1,\n  2);\nint b = = (3\n  4 5;\n@@\nint f(int x,\n  int y) {\n  return x;\n}\n"
    )
    found = pieces(text, "c")
    assert found[0] == "int a = f(1,\n  2);\n"
    assert {"int b = = (3\n", "  4 5;\n", "@@\n"} <= set(found)
    assert {"  return x;\n", "}\n"} <= set(found)


def test_brackets_beyond_any_human_depth_are_not_parsed():
    text = "x = " + "(" * 5000 + "\n" + ")" * 5000 + ";\n"
    assert pieces(text, "javascript") == text.splitlines(keepends=True)


def test_long_texts_are_parsed_in_pieces(monkeypatch):
    text = "void f(int a,\n       int b) {\n  g();\n}\n\n" * 300
    whole = pieces(text, "c")
    monkeypatch.setattr(parsed, "_PIECE", 1000)
    assert pieces(text, "c") == whole
    monkeypatch.setattr(parsed, "_LONG_LINE", 100)
    long = 'char *s = "' + "x" * 200 + '";\n'
    assert pieces(text + long + text, "c") == [*whole, long, *whole]


@each
@pytest.mark.parametrize("unit", UNITS)
def test_hostile_text_neither_crashes_nor_hangs(language, unit):
    text = (unit * (12_000 // len(unit)))[:12_000] + "\n"
    start = time.process_time()
    cuts = Lines(granularity="logical", language=language).cut(text)
    assert cuts[-1] == len(text)
    assert time.process_time() - start < 20


def test_a_grammar_that_goes_missing_later_is_named(monkeypatch):
    lines = Lines(granularity="logical")
    monkeypatch.setattr(parsed, "find_spec", lambda name: None)
    parsed._grammar.cache_clear()
    with pytest.raises(SegmenterError, match="pip install tree-sitter tree-sitter-bash"):
        lines.cut("#!/bin/sh\nls\n")
