"""Documents of several kinds of text. In a marked text, '@@' stands where a segment ends."""

import ast
import json
import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import segmenters
from segmenters import Lines, Mixed, Sentences
from segmenters.documents import markdown
from segmenters.documents.mixed import FORMATS
from segmenters.places import Walk
from tests.segmenters.grammar import document
from tests.segmenters.texts import any_text, grows_too_fast

_PIECES = [
    *("```", "~~~", "````", "```python\n", "\n", "\n", "\n\n", "# ", "- ", "1. ", "| a |", "---"),
    *("===", "    ", "<p>", "</p>", "<b>", "</b>", "<pre>", "</pre>", "<script>", "</script>"),
    *("<br/>", "<!--", "-->", '<a href="', '">', "'", "<", ">", "One. ", "Two", " ", ".", "\r\n"),
    *("\r", "\t", "x = 1\n", "\\documentclass{a}", "\\begin{document}", "$", "%", "> ", "$$"),
    *("a|b\n", "--|--\n", "`", "``", "+++\n", "---\na: b\n", "&nbsp;", "&lt;"),
    *('<pre class="language-c">', "\\begin{verbatim}\n", "\\end{verbatim}\n", "From: a\n"),
    *("Subject: b\n", "From x 1999\n", "-- \n", "diff --git a b\n", "--- a\n+++ b\n"),
    *("@@ -1 +1 @@\n", "::\n", ".. code-block:: c\n", ":a: b\n", ">>> x\n", ".. _a:\n"),
    *('{"cells": [', '{"source": [', '"a\\n"', '"', "\\u00e9", ", ", "]}", ": "),
]
documents = st.one_of(st.lists(st.sampled_from(_PIECES), max_size=40).map("".join), any_text)


def check(format, marked):
    pieces = marked.split("@@")
    text = "".join(pieces)
    cuts = Mixed(format=format).cut(text).tolist()
    assert [text[start:end] for start, end in pairwise(cuts)] == pieces


@pytest.mark.parametrize("format", FORMATS)
@given(text=documents)
def test_segments_tile_the_document(format, text):
    cuts = Mixed(format=format).cut(text)
    assert cuts[0] == 0 and cuts[-1] == len(text)
    assert (np.diff(cuts) > 0).all()


def test_formats_read_by_loops_that_end():
    """A walk moves forward whatever is matched; `while` promises nothing."""
    for path in (Path(segmenters.__file__).parent / "documents").glob("*.py"):
        nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        assert not [node.lineno for node in nodes if isinstance(node, ast.While)], path.name


def test_a_walk_moves_forward_whatever_is_matched_or_skipped():
    walk = Walk(re.compile("a?"), "baab")
    seen = []
    for match in walk:
        walk.skip(0)
        seen.append(match.span())
    assert seen == [(0, 0), (1, 2), (2, 3), (3, 3)]
    assert [match.start() for match in Walk(re.compile("b"), "bb", 0, 1)] == [0]


@pytest.mark.parametrize(
    "marked",
    [
        "# One. Two\n@@Text here. @@More\nof it.\n\n@@Setext\n======\n@@After. @@End",
        "- one. @@Two.\n@@- three\n  more\n\n@@1. First. @@Go.\n@@2. Second",
        "| a | b. C |\n@@|---|---|\n@@| c | d |\n\n@@Text",
        "Say:\n\n@@```python\n@@x = 1\n@@\n@@y = 2. Z\n@@```\n\n@@Done. @@Yes",
        "~~~\n@@```\n@@a. B\n@@~~~~ \n@@After. @@End",
        "````c++ {x}\n@@```\n@@int a;\n@@never closed. Never",
        "1. \n@@    > One. @@Two\n    > goes on.\n@@2. Three",
        "- item\n\n@@  ```sh\n@@  ls. A\n@@  ```\n@@",
        "Not ```a fence``` at all. @@Yes\n\n@@    ```\n@@    indented. Code\n@@\n@@After. @@End",
        "---\n@@title: A. B\n@@---\n@@Text. @@More",
        "One\r\n@@```\r\n@@a\r\n@@```\r\n@@Two. @@Three",
    ],
)
def test_markdown_fences_are_lines_and_the_rest_sentences(marked):
    check("markdown", marked.removesuffix("@@"))


@pytest.mark.parametrize(
    "marked",
    [
        "<body>\n<p>One <b>two.</b> @@Three. @@<i>Four</i> five.</p>\n@@<p>Six</p></body>",
        '<ul class="a. B"><li>A</li>@@<li>B. @@C<br>@@D</ul> <!-- x. Y -->',
        "Text. @@More\n@@<pre>\n@@a. B\n@@c</pre>\n@@Then. @@End",
        "<script>\n@@let a = '<p>. B';\n@@</script>\n@@One a < two. @@Two",
        "<pre>never closed. @@Yes",
        "<div></div><p>Hello big world.</p>@@<p><i>So</i> it is.</p>",
        "<hr><pre>\n@@a\n@@</pre>\n@@</div> <p>Hello big world.</p>",
    ],
)
def test_tags_stay_with_their_text(marked):
    check("html", marked)


def test_a_paper_has_a_preamble_of_lines_and_a_text_of_sentences():
    check(
        "latex",
        "\\documentclass{a}\n@@\\usepackage{b} % c. D\n@@\\begin{document}\nIt is. @@So $x. A$. @@"
        "B\n@@\\begin{proof}\nOne. @@Two.\n\\end{proof}\n\\end{document}\n",
    )
    check("latex", "It is. @@So")


def test_a_notebook_is_cut_at_the_lines_of_its_file():
    text = json.dumps({"cells": [{"source": ["a = 1\n", "b. C"]}], "nbformat": 4}, indent=1)
    assert Mixed(format="notebook").cut(text).tolist() == Lines().cut(text).tolist()


def test_prose_alone_is_cut_as_sentences_are():
    text = "Dr. Who came. It rained!\n\nThe end"
    assert Mixed().cut(text).tolist() == Sentences(backend="rules").cut(text).tolist()


def test_an_unknown_format_is_named():
    with pytest.raises(ValueError, match=r"format must be one of diff, email.*was: 'word'"):
        Mixed(format="word")


HOSTILE = [
    *(
        "```\n",
        "`" * 50 + "\n",
        "~",
        "~~~ `",
        "#",
        "# \n",
        "- ",
        "- a\n",
        "| ",
        "---\n",
        "a:\n",
        " \n",
    ),
    *(
        "<",
        "<a '",
        '<a "',
        "<p>",
        "</p>",
        "<pre>",
        "</pre>",
        "<script>a",
        "<!--",
        "<b>. ",
        "&",
        "\0",
    ),
    *(
        "\\documentclass",
        "\\begin{document}\n",
        "  \n",
        "\t",
        "[",
        "1. ",
        "\n",
        "\ud800",
        "</b>. ",
        "=",
    ),
    *(
        "> ",
        ">\n",
        "From a 1999\n\n",
        "--- a\n+++ b\n",
        "::\n",
        "::\n\n a\n",
        ".. code::\n",
        '"',
        "\\",
    ),
    *(
        '{"cells":[{"source":["',
        "$$\n",
        "$a",
        "\\begin{a}\n",
        "- ```\n",
        "a|b\n-|-\n",
        "<!--\n",
        "&amp;",
    ),
    *("<div>\n", "\\begin{verbatim}\n", "``a", "`a\n", "From: a\n", "A" * 70 + "\n", "a\n---\n"),
]


@pytest.mark.parametrize("format", FORMATS)
def test_hostile_documents_take_linear_time(format):
    for piece in HOSTILE:
        texts = (piece * (size // len(piece)) for size in (8_000, 16_000))
        assert not grows_too_fast(Mixed(format=format).cut, *texts, most=2.5, slack=0.05), piece


def test_markdown_read_in_paragraphs_has_the_parts_of_its_lines(monkeypatch):
    texts = [document(seed) for seed in range(200)]
    texts += ["- a\n    b\n  c\n\n      d\n e\n[f](g)\n===\n" + text for text in texts[:40]]
    parts = [[part[:3] for part in markdown.parts(text)] for text in texts]
    monkeypatch.setattr(markdown, "_LINES", markdown._LINE)
    assert parts == [[part[:3] for part in markdown.parts(text)] for text in texts]
