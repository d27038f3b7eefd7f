"""Documents inside of documents, and what stands in them. '@@' stands where a segment ends."""

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segmenters import Lines, Mixed
from segmenters.documents.notebook import parts
from tests.segmenters.texts import any_text

MARKDOWN = [
    *("> One. @@Two\n> goes on.\n\n@@After.",),
    *("> Say:\n>\n@@> ```c\n@@> a;\n@@> b;\n@@> ```\n\n@@Text. @@More",),
    *("> Lazy. @@Goes\non. @@Yes.\n\n@@End", ">> Deep. @@Two\n>\n@@> One."),
    *("- a\n\n@@  ```\n@@  x\n@@not closed. @@Text.", "1. ```sh\n@@   ls. A\n@@   ```\n@@2. Two"),
    *("Say `a. B` now. @@Then ``c. `D`` too. @@End",),
    *("It costs $5. @@Then $6. @@But $x. Y$ holds.", "So\n$$\n= a. B\n- c.\n$$\n@@Where d."),
    *("So\n$$\n= a. B\n- c\n$$\nwhere d.", "a | b. C\n@@--|--\n@@1 | 2. D\n\n@@Text. @@End"),
    *("<!-- One. Two\n\n# Three. -->\n\n@@Text.",),
    *("<p>One. @@Two\n# no</p>\n\n@@# Heading. One\n@@Text.",),
    *("+++\n@@a = 1\n@@+++\n\n@@Text. @@End", "One.\n\n@@* * *\n\n@@Two."),
    *("[a]: http://b.c/D. E\n@@[b]: F\n@@Text.", "```coq\n@@Lemma a:\n  b. @@Proof.\n@@```\n"),
    *("\n\n# One\n@@Two",),
]
RST = [
    "Title. One\n==========\n\n@@Text. @@More::\n\n@@    x = 1. Y\n@@    z\n@@\n@@After. @@End",
    "====\n A. B\n====\n@@Text",
    ".. code-block:: python\n@@   :linenos:\n\n@@   a = 1. B\n@@\n@@   c\n@@\n@@Text. @@End",
    ".. note:: One. Two\n\n@@   Three. @@Four.\n",
    ">>> a. B\n@@1\n@@\n@@Text. @@End",
    ":param a: One. @@Two.\n@@:returns: Three.",
    "- one. @@Two.\n@@- ``a. B`` c.\n@@.. _label: A. B\n\n@@Text",
    "Text::\n\n@@not indented. @@So prose.",
]
EMAIL = [
    "From: a. B\n@@Subject: One. Two\n  more. Three\n\n@@Hello. @@You wrote:\n"
    "@@> One. @@Two\n> three.\n@@> > Deep. @@Four.\n\n@@No. @@Yes.\n@@-- \n@@A. B.",
    "From x@y Mon Jan 1 00:00:00 1999\n@@To: a\n@@Subject: b\n\n@@One. @@Two.\n\n"
    "@@From z@y Mon Jan 1 00:00:00 1999\n@@To: c\n\n@@Three. @@Four.",
    "Metadata-Version: 2.1\n"
    "@@Description-Content-Type: text/markdown\n\n@@# A. B\n@@```\n@@c\n@@```\n",
    "No headers. @@Text.",
]
DIFF = [
    "Fix it. @@Now.\n\n@@diff --git a/b b/b\n@@--- a/b\n@@+++ b/b\n@@@ -1 +1 @\n@@-a. B\n@@+c\n",
    "--- a\n@@+++ b\n@@ c. D\n",
    "From: a\n@@Subject: b\n\n@@One. @@Two.\n@@---\n@@diff --git a b\n@@+c. D\n",
]
HTML = [
    "<p>One.&nbsp;@@Two &amp; three.&quot; @@Four</p>",
    "<p>A</p>\n<!-- <pre> -->@@<p>Bee. @@Cee</p>",
    '<pre class="language-c"><b>int</b> a;\n@@<i>b</i>. C;</pre>\n@@Text. @@End',
]
LATEX = [
    "One. @@Two\n"
    "@@\\begin{lstlisting}[language=C]\n@@a. B\n@@c\n@@\\end{lstlisting}\n@@Text. @@End",
    "\\begin{verbatim}\n@@a. B\n@@not closed",
]
LIGHT = {
    "asciidoc": [
        """= Title. One
@@:toc: left

@@== Part

@@One. @@Two
goes on.

@@* item. @@More
@@* two

@@[source,c]
@@----
@@a. B
@@c
@@----

@@Text. @@End""",
        """Title
=====

@@image::a.png[B. C]

@@|===
@@| a. B
@@|===
@@----
not closed. @@Text""",
        """ literal. Text
@@ more
@@
@@term:: One. @@Two""",
    ],
    "mediawiki": [
        """== A. B ==
@@One [[bee]] more. @@Two.

@@* item. @@Two
@@** deep
@@{|
@@! a. B
@@|-
@@| c
@@|}
@@Text. @@End""",
        """<syntaxhighlight lang="c">
@@a. B
@@c
@@</syntaxhighlight>
@@Text. @@{{a|b}} end.""",
    ],
    "org": [
        """#+TITLE: A. B
@@* TODO One. Two
@@:PROPERTIES:
@@:ID: a
@@:END:
@@Text. @@More
@@- item. @@Two
@@#+begin_src c
@@a. B
@@c
@@#+END_SRC

@@| a | b. C |
@@Text. @@End""",
    ],
    "typst": [
        """#import "a.typ": b
@@#let f(x) = {
@@  a. B
@@}
@@
@@= One. Two
@@It is $a. B$. @@Two.
@@- item. @@Two
@@```c
@@a. B
@@```
@@Text. @@End""",
    ],
    "man": [
        r""".\" A. B
@@.TH A 1
@@.SH NAME
@@ab \- it is. @@Two
.B cut
here. @@End
@@.PP
More. @@Text
@@.nf
@@a. B
@@c
@@.fi
@@End.""",
    ],
}


def segments(format, text, **options):
    cuts = Mixed(format=format, **options).cut(text).tolist()
    return [text[start:end] for start, end in pairwise(cuts)]


@pytest.mark.parametrize(
    ("format", "marked"),
    [
        (format, marked)
        for format, row in {
            "diff": DIFF,
            "email": EMAIL,
            "html": HTML,
            "latex": LATEX[:1],
            "markdown": MARKDOWN,
            "rst": RST,
            **LIGHT,
        }.items()
        for marked in row
    ],
)
def test_each_part_is_cut_as_what_it_is(format, marked):
    pieces = [piece for piece in marked.split("@@") if piece]
    assert segments(format, "".join(pieces)) == pieces


def test_a_display_of_a_quotation_keeps_its_place_in_the_document():
    text = "> ```python\n> f(1,\n>   2)\n> x = 3\n> ```\n"
    assert segments("markdown", text, granularity="logical") == [
        "> ```python\n",
        "> f(1,\n>   2)\n",
        "> x = 3\n",
        "> ```\n",
    ]


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
    ],
)
def test_code_in_documents_has_logical_lines_in_its_language(format, text):
    found = segments(format, text, granularity="logical")
    assert any("f(" in segment and "2" in segment for segment in found)


TRUNCATED = {
    "markdown": "\n\n".join(row.replace("@@", "") for row in MARKDOWN),
    "rst": "\n\n".join(row.replace("@@", "") for row in RST),
    "email": "\n\n".join(row.replace("@@", "") for row in EMAIL),
    "diff": "\n".join(row.replace("@@", "") for row in DIFF),
    "html": "\n".join(row.replace("@@", "") for row in HTML),
    "latex": "\n".join(row.replace("@@", "") for row in LATEX),
    "notebook": json.dumps(
        {"cells": [{"cell_type": "markdown", "source": ["# A. B\n", '\U0001f600 \\ "c". D']}]},
        indent=1,
    ),
}


@pytest.mark.parametrize("format", TRUNCATED)
@given(data=st.data())
def test_segments_tile_what_is_left_of_a_document(format, data):
    text = TRUNCATED[format]
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    inserted = data.draw(any_text)
    text = text[:start] + inserted + text[end:]
    assert "".join(segments(format, text)) == text


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
    assert [part.view.text for part in views] == [clean(source, ascii) for _, source in wanted]
    cuts = set(Mixed(format="notebook").cut(text).tolist())
    for part, (kind, _) in zip(views, wanted, strict=True):
        shown = part.view.text
        own = Mixed().cut(shown) if kind == "markdown" else Lines().cut(shown)
        expected = {int(part.view.places[cut]) for cut in own[1:-1]}
        inside = set(part.view.places[1:].tolist())
        assert {cut for cut in cuts if cut in inside} == expected


def clean(source, ascii=True):
    """Two halves of a pair that JSON spells beside each other are one character."""
    return json.loads(json.dumps(source, ensure_ascii=ascii))


def test_lines_of_a_notebook_end_behind_their_escapes():
    source = ["a = '\\n'\n", "b\n"]
    text = json.dumps({"cells": [{"cell_type": "code", "source": "".join(source)}]})
    found = segments("notebook", text)
    assert found == [
        '{"cells": [{"cell_type": "code", "source": ',
        "\"a = '\\\\n'\\n",
        'b\\n"',
        "}]}",
    ]


def test_a_notebook_is_code_in_the_language_of_its_kernel():
    source = ["%%time\n", "f(1,\n", "  2)\n"]
    cell = {"cell_type": "code", "outputs": [{"text": ["One. Two\n", "3\n"]}], "source": source[1:]}
    document = {"cells": [cell], "metadata": {"language_info": {"name": "python"}}}
    for indent in (None, 1):
        text = json.dumps(document, indent=indent)
        found = segments("notebook", text, granularity="logical")
        assert any("f(1" in piece and "2)" in piece for piece in found)
        assert not any("Two" in piece and "3\\n" in piece for piece in found)
