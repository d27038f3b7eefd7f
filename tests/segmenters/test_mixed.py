"""Documents of several kinds of text; documents.txt has examples of each (`samples`)."""

import ast
import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import segmenters
from segmenters import Lines, Mixed, Sentences
from segmenters.documents import markdown
from segmenters.documents.notebook import parts
from segmenters.places import Walk
from tests.segmenters.grammar import document
from tests.segmenters.samples import marked_in, plain, with_marks
from tests.segmenters.texts import any_text, pieces

EXAMPLES = marked_in("documents.txt")
CELLS = [
    {"cell_type": "markdown", "source": ["# A. B\n", "\n", '\U0001f600 \\ "c". D\n', "\n", "E"]},
    {"cell_type": "code", "source": ["a\n", "b"], "outputs": [{"text": ["c\n", "d"]}]},
]
NOTEBOOK = json.dumps({"cells": CELLS}, indent=1)


def segments(format, text, **options):
    return pieces(text, Mixed(format=format, **options))


@pytest.mark.parametrize(("format", "marked"), EXAMPLES)
def test_each_part_is_cut_as_what_it_is(format, marked):
    text = plain(marked)
    assert with_marks(text, Mixed(format=format).levels(text)) == marked


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


def test_prose_alone_is_cut_as_sentences_are():
    text = "Dr. Who came. It rained!\n\nThe end"
    assert Mixed().cut(text).tolist() == Sentences().cut(text).tolist()


def test_markdown_read_in_paragraphs_has_the_parts_of_its_lines(monkeypatch):
    texts = [document(seed) for seed in range(100)]
    texts += ["- a\n    b\n  c\n\n      d\n e\n[f](g)\n===\n" + text for text in texts[:40]]
    parts = [[part[:3] for part in markdown.parts(text)] for text in texts]
    monkeypatch.setattr(markdown, "_LINES", markdown._LINE)
    assert parts == [[part[:3] for part in markdown.parts(text)] for text in texts]


@pytest.mark.parametrize(
    ("format", "text"),
    [
        (
            "html",
            '<pre><code class="language-python">f(&quot;(&quot;,\n  <b>2</b>)\nx</code></pre>',
        ),
        ("html", "<script>f(1,\n  2);\n</script>"),
        ("latex", "\\begin{minted}{python}\nf(1,\n  2)\n\\end{minted}\n"),
        ("rst", ".. code:: python\n\n   f(1,\n     2)\n   x\n"),
        ("markdown", "> ```python\n> f(1,\n>   2)\n> x = 3\n> ```\n"),
    ],
)
def test_code_in_documents_has_logical_lines_in_its_language(format, text):
    found = segments(format, text, granularity="logical")
    assert any("f(" in segment and "2" in segment and "x" not in segment for segment in found)


def test_a_cell_of_a_notebook_is_a_section():
    _, paragraphs, sections = (cuts.tolist() for cuts in Mixed(format="notebook").levels(NOTEBOOK))
    begins = [NOTEBOOK[cut:].strip()[:6].split("\\n")[0] for cut in sections[1:-1]]
    assert begins == ['"# A. ', '"a']
    assert len(paragraphs) == 1 + len(sections) + 3  # two in Markdown, and the output


lines = st.lists(
    st.one_of(
        st.sampled_from(["# A. B\n", "One. Two\n", "\n", "```\n", "x = f(1,\n", '"\\ \t\u00e9']),
        any_text,
    ),
    max_size=6,
)
cells = st.lists(st.tuples(st.sampled_from(["markdown", "code", "raw"]), lines), max_size=4)


@given(
    cells=cells,
    indent=st.sampled_from([None, 1]),
    ascii=st.booleans(),
    joined=st.booleans(),
    kind_last=st.booleans(),
)
def test_a_cell_in_json_is_cut_where_its_text_is(cells, indent, ascii, joined, kind_last):
    made = []
    for kind, source in cells:
        cell = {"cell_type": kind, "source": "".join(source) if joined else source}
        made.append(dict(reversed(cell.items())) if kind_last else cell)
    text = json.dumps({"cells": made, "nbformat": 4}, indent=indent, ensure_ascii=ascii)
    assert "".join(segments("notebook", text)) == text
    views = [part for part in parts(text) if part.view is not None]
    wanted = [(kind, "".join(source)) for kind, source in cells if joined or source]
    # Two halves of a pair that JSON spells beside each other are one character.
    clean = [json.loads(json.dumps(source, ensure_ascii=ascii)) for _, source in wanted]
    assert [part.view.text for part in views] == clean
    cuts = set(Mixed(format="notebook").cut(text).tolist())
    for part, (kind, _) in zip(views, wanted, strict=True):
        shown = part.view.text
        own = Mixed().cut(shown) if kind == "markdown" else Lines().cut(shown)
        expected = {int(part.view.places[cut]) for cut in own[1:-1]}
        inside = set(part.view.places[1:].tolist())
        assert {cut for cut in cuts if cut in inside} == expected


@pytest.mark.parametrize(
    "cell",
    [
        '"input": ["a\\n"], "outputs": [{"text": ["b\\n"]}], "source": ["c\\n"]',
        '"source": ["a\\n"], "outputs": [{"text": ["b\\n"]}], "source": ["c\\n"]',
        '"outputs": [{"text": ["a\\n", {"text": "b\\n"}, "c\\n"]}]',
    ],
)
def test_parts_of_a_notebook_are_in_order_where_one_text_is_inside_of_another(cell):
    found = list(parts(f'{{"cells": [{{"cell_type": "code", {cell}}}]}}'))
    assert [part.view.text for part in found if part.view] == ["a\n", "b\n", "c\n"]
    ends = [part.end for part in found]
    assert ends == sorted(set(ends))


def test_lines_of_a_notebook_end_behind_their_escapes():
    text = json.dumps({"cells": [{"cell_type": "code", "source": "a = '\\n'\nb\n"}]})
    opening = '{"cells": [{"cell_type": "code", "source": '
    assert segments("notebook", text) == [opening, "\"a = '\\\\n'\\n", 'b\\n"', "}]}"]
    text = json.dumps({"cells": [{"source": ["a = 1\n", "b. C"]}], "nbformat": 4}, indent=1)
    assert Mixed(format="notebook").cut(text).tolist() == Lines().cut(text).tolist()


def test_a_notebook_is_code_in_the_language_of_its_kernel():
    source = ["%%time\n", "f(1,\n", "  2)\n"]
    cell = {"cell_type": "code", "outputs": [{"text": ["One. Two\n", "3\n"]}], "source": source[1:]}
    document = {"cells": [cell], "metadata": {"language_info": {"name": "python"}}}
    for indent in (None, 1):
        text = json.dumps(document, indent=indent)
        found = segments("notebook", text, granularity="logical")
        assert any("f(1" in piece and "2)" in piece for piece in found)
        assert not any("Two" in piece and "3\\n" in piece for piece in found)
