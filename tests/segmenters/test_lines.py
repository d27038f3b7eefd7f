"""Lines of code: physical ones, and what all granularities share."""

import pickle
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from segmenters import Lines, SegmenterError, offsets
from segmenters.base import nested, tallied
from segmenters.code import advice, grammars, lines, parsed
from tests.segmenters.texts import any_text, logical, pieces

BLOCKS = (
    "import a\nimport b\n\n~# about f\n@decorated\ndef f(\n    x):\n    pass\n\n\n~c = 1\nd = 2\n"
)


@given(text=st.text("\r\na\u00e9\u6f22", max_size=20) | any_text, block=st.integers(1, 5))
def test_physical_lines_equal_a_loop_over_characters_in_blocks_too(text, block):
    ends = [
        place + 1
        for place, char in enumerate(text)
        if char == "\n" or (char == "\r" and text[place + 1 : place + 2] != "\n")
    ]
    assert Lines().cut(text).tolist() == sorted({0, *ends, len(text)})
    with mock.patch.object(offsets, "_BLOCK", block):
        assert offsets.character_ends(text).tolist() == ends


def test_a_definition_starts_with_its_comments_and_decorators_by_machine_and_by_grammar():
    text = BLOCKS.replace("~", "")
    levels = logical("python").levels(text)
    assert pieces(text, "python", level=2) == BLOCKS.split("~")
    assert "def f(\n    x):\n" in pieces(text, "python")
    found = nested(parsed.levels(text, "python"), len(text), count=3)
    assert [cuts.tolist() for cuts in found] == [cuts.tolist() for cuts in levels]


@pytest.mark.parametrize(
    ("language", "marked"),
    [
        (
            "python",
            "class A:\n    x = 1\n~    # f\n    @d\n    def f(self):\n        pass\n~    y = 2\n",
        ),
        ("java", "class A {\n  int x;\n~  // f\n  void f() {\n  }\n~  int y;\n}\n"),
    ],
)
def test_a_method_starts_with_what_is_directly_above_it(language, marked):
    text = marked.replace("~", "")
    assert pieces(text, language, level=1) == marked.split("~")
    assert pieces(text, language, level=2) == [text]


def test_statements_have_three_levels():
    assert len(Lines().levels("")) == 1
    assert [level.tolist() for level in logical("auto").levels("")] == [[0]] * 3


def test_the_document_tells_its_language_unless_the_segmenter_does():
    lines = logical("auto")
    for language, found in ((None, "rust"), ("C++", "cpp"), ("Klingon", "rust")):
        assert lines.for_document(path="a/b.rs", language=language).language == found
    assert lines.for_document(path="a/b.unknown") is lines.for_document() is lines
    assert logical("py").for_document(path="b.rs").language == "python"


def test_a_script_says_what_it_is_and_anything_else_has_physical_lines():
    body = "f(1,\n  2)\n"
    assert pieces(body, "auto") == ["f(1,\n", "  2)\n"]
    script = ["#!/usr/bin/env python3\n", body]
    assert pieces("".join(script), "auto") == script


def test_the_lookahead_is_that_of_the_language():
    assert Lines().lookahead == Lines(language="rust").lookahead == logical("python").lookahead == 1
    assert logical("rust").lookahead is logical("auto").lookahead is None


def test_a_missing_grammar_is_an_error_unless_the_fallback_is_allowed(monkeypatch):
    monkeypatch.setattr(advice, "find_spec", lambda name: None if "rust" in name else True)
    with pytest.raises(SegmenterError, match=r"'rust' .* \(pip install tree-sitter tree-sitter-ru"):
        logical("rust")
    text = "f(\n);\n"
    allowed = Lines(granularity="logical", language="rust", fallback=True)
    assert [level.tolist() for level in allowed.levels(text)] == [[0, 3, 6], [0, 6], [0, 6]]
    assert allowed.versions() == {}
    assert Lines(language="rust").cut(text).tolist() == [0, 3, 6]


@pytest.fixture
def unread():
    """Nothing is known of grammars, before and after."""
    held = (grammars.load, advice._fault, parsed._grammar)
    for cache in held:
        cache.cache_clear()
    yield
    for cache in held:
        cache.cache_clear()


def test_a_grammar_of_another_version_is_no_text_too_hard_to_parse(unread, monkeypatch):
    version = ValueError("Incompatible Language version 16. Must be between 13 and 15")
    monkeypatch.setattr(grammars.tree_sitter, "Parser", mock.Mock(side_effect=version))
    told = r"version 16.*; pip install -U tree-sitter tree-sitter-rust\), or fallback=True"
    with pytest.raises(SegmenterError, match=told):
        logical("rust")
    with tallied() as rules:
        Lines(granularity="logical", language="rust", fallback=True).cut("f(\n);\n")
    (rule,) = rules
    assert rule == f"{advice.NO_GRAMMAR}rust" and "install -U" in advice.cure(rule)


def test_the_fingerprint_names_the_grammar():
    assert Lines().versions() == logical("python").versions() == {}
    versions = logical("c").versions()
    assert list(versions) == ["tree-sitter", "tree-sitter-c", "tree-sitter-cpp"]
    twin = pickle.loads(pickle.dumps(logical("c++")))
    assert twin == logical("cpp")


def test_a_row_named_by_its_file_and_line_has_the_language_of_its_path():
    for name, meta, language in (
        ("part.jsonl:4", {"path": "src/b.go"}, "go"),
        ("a.py", {"path": "b.go"}, "python"),
        ("v1.0", {"ext": "rs"}, "rust"),
    ):
        assert logical("auto").choose(text="", name=name, meta=meta) == logical(language)


@pytest.mark.parametrize(
    ("language", "marked"),
    [
        ("python", '"""One thing. ~It is\n  good. ~Yes.\n\n~  :param x: It.\n~  >>> f(1)\n"""\n~'),
        ("python", 'x = """no. One. Two.""".strip()\n~# An end. ~Two.\n~y = 1  # No. One.\n~'),
        ("c", "/**\n * One thing. ~It is\n * good.\n *\n~ * @param x It.\n */\n~int f(int x);\n~"),
        ("c", "// An end. ~Two.\n~/* No. One. */ int g(void);\n~"),
        ("haskell", "-- | An end. ~Two.\n~f :: Int\n~"),
        ("ocaml", "(** An end. ~Two. *)\n~let x = 1\n~"),
        ("html", "<!-- An end. ~Two. -->\n~<p>No. One.</p>\n~"),
        # Pragmas and conditions are no prose, though they look like comments.
        ("haskell", '{-# WARNING f "Slow. Use g." #-}\n~{- | An end. ~Two. -}\n~f = 1\n~'),
        ("html", "<!--[if IE]><p>No. One.</p><![endif]-->\n~<!-- An end. ~Two. -->\n~"),
    ],
)
def test_sentences_in_docstrings_and_comments_are_a_level_of_their_own(language, marked):
    text, segmenter = marked.replace("~", ""), logical(language, prose="sentences")
    with pytest.raises(ValueError, match="need the whole text: set prose=null"):
        segmenter.machine()
    assert "prose" in segmenter.versions()
    assert pieces(text, segmenter) == marked.split("~")[:-1]
    assert segmenter.level_names == ("sentence", "statement", "method", "class")


SIGNS = [
    *('"""', "'''", "# ", "/*", "*/", "// ", " * ", "-- ", "--[[", "]]", "{-", "-}", "\n=pod\n"),
    *("\n=cut\n", "\n", "\r", "  ", "An end. ", "Two.\n", "@param x\n", "x = 1\n", "@doc "),
]


@pytest.mark.parametrize("language", ["python", "c", "haskell", "lua", "perl", "elixir"])
@given(parts=st.lists(st.sampled_from(SIGNS), max_size=30))
def test_cuts_of_statements_are_the_same_with_sentences_below_them(language, parts):
    text = "".join(parts)
    levels = logical(language, prose="sentences").levels(text)
    plain = logical(language).levels(text)
    assert [level.tolist() for level in levels[1:]] == [level.tolist() for level in plain]
    assert np.isin(levels[1], levels[0]).all()
    assert levels[0].tolist() == logical(language, prose="sentences").cut(text).tolist()


def test_physical_lines_in_place_of_logical_ones_are_told_once(caplog):
    lines._warn.cache_clear()
    for _ in range(2):
        assert len(Lines(granularity="logical").cut("x = [\n1]\n")) == 3
    (told,) = caplog.messages
    assert "physical lines" in told and "language='python'" in told
    with tallied() as counts:
        Lines(granularity="logical").cut("x = [\n1]\n")
    assert counts == {Lines.unknown: 9} and len(caplog.messages) == 1
    Lines(granularity="logical", language="python").cut("x = [\n1]\n")
    Lines().cut("x = [\n1]\n")
    assert len(caplog.messages) == 1
