"""Paragraphs and sections of documents: '@p' begins a paragraph, '@s' a section."""

import json
import re

import pytest

from segmenters import Auto, Mixed
from segmenters.documents.mixed import FORMATS

SECTION, PARAGRAPH = "@s", "@p"
LEVELS = {
    "markdown": [
        """@s# A

@pOne. Two
three.

@pFour.

@sB
---

@p- a. B
@p- c

@p```c
x;

y;
```

@p| a |
| - |
| b. C |

@p> d. E
> f
>
@p> # g

@p[^1]: A note. Long
as it is.

@s# C
""",
        """---
a: b
---
@pOne.

@pTwo.

@sThree
=====
@pFour. Five
""",
    ],
    "rst": [
        """@s====
A. B
====

@pOne. Two.

@p.. code:: c
   :a:

   x

@sB
---

@p- a. B
@p- c

@p+---+
| a |
+---+

@pEnd::

@p   a
""",
    ],
    "html": [
        """@s<h1>A. B</h1>
@p<p>One. <b>Two</b>

three.</p>@p<ul>
<li>a@p<li>b</ul>@s<div><h2>C</h2></div>@p<pre>
a
b
</pre>
@p<p>d. E</p>""",
    ],
    "latex": [
        r"""@s\documentclass{a}
@p\begin{document}
@s\section{A}
@pOne. Two
\[ a \]
three.

@pFour. Five
@s\section{B}
@pSix
\end{document}
""",
    ],
    "email": [
        """@sFrom: a
Subject: b

@pOne. Two.

@pThree.
@p> Four. Five
>
@p> six

@pSeven.
""",
    ],
    "diff": [
        """Why. So

@sdiff --git a b
--- a
+++ b
@p@@ -1 +1 @@
-a
+b
@p@@ -9 +9 @@
 c
@sdiff --git c d
--- c
+++ d
@p@@ -1 +1 @@
-a
""",
    ],
    "asciidoc": [
        """@s= A
@p:b: c

@pOne. Two.

@pThree

@s== D

@p* a. B
@p* c
""",
    ],
    "mediawiki": [
        """@pOne. Two.

@pThree

@s== D ==
@pFour
@p* a. B
@p* c
""",
    ],
    "org": [
        """@s* A
@pOne. Two.

@pThree
@s** D
@pFour
@p- a. B
@p- c
""",
    ],
    "typst": [
        """@s= A
@pOne. Two.

@pThree
@s== D
@pFour
@p- a. B
@p- c
""",
    ],
    "man": [
        """@p.TH A 1
@s.SH A
@pOne. Two.
@p.PP
Three
.B four
@s.SH D
@pFive
""",
    ],
}


@pytest.mark.parametrize(
    ("format", "marked"), [(format, marked) for format, row in LEVELS.items() for marked in row]
)
def test_paragraphs_and_sections_begin_where_the_format_says(format, marked):
    text = re.sub(f"{SECTION}|{PARAGRAPH}", "", marked)
    segments, paragraphs, sections = (set(cuts) for cuts in Mixed(format=format).levels(text))
    shown = []
    for place, sign in enumerate(text + " "):
        if place in sections and place < len(text):
            shown.append(SECTION)
        elif place in paragraphs and place < len(text):
            shown.append(PARAGRAPH)
        shown.append(sign)
    first = marked[:2] if marked[:2] in (SECTION, PARAGRAPH) else ""
    assert first + "".join(shown[1:]).removesuffix(" ") == marked
    assert segments >= paragraphs >= sections


def test_a_cell_of_a_notebook_is_a_section():
    cells = [
        {"cell_type": "markdown", "source": ["# A\n", "\n", "One. Two\n", "\n", "Three"]},
        {"cell_type": "code", "source": ["a\n", "b"], "outputs": [{"text": ["c\n", "d"]}]},
    ]
    text = json.dumps({"cells": cells}, indent=1)
    _, paragraphs, sections = (cuts.tolist() for cuts in Mixed(format="notebook").levels(text))
    begins = [text[cut:].strip()[:6].split("\\n")[0] for cut in sections[1:-1]]
    assert begins == ['"# A', '"a']
    assert len(paragraphs) == 1 + len(sections) + 3  # One, Three, the output


@pytest.mark.parametrize("format", FORMATS)
def test_the_finest_level_is_the_cut(format):
    text = "".join(row for rows in LEVELS.values() for row in rows)
    for reader in (Mixed(format=format), Auto()):
        levels = reader.levels(text)
        assert levels[0].tolist() == reader.cut(text).tolist()
        assert len(levels) == len(reader.level_names) == 3
