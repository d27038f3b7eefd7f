"""What people reported of other splitters (docs/reports.md), with texts of our own."""

import pytest

from segmenters import Sentences
from tests.segmenters.texts import pieces

SENTENCES = """
Two tasks remain. |1) The lamp is broken. |2) The door creaks.
Il prit le reste .. |Ensuite il partit .... |Puis rien.
The curve rises, see Fig. ?? |Then it falls.
Meyer et al. [1998] measured the tide. |It was low.
He put it down, "That is all." |He left the room.
We need approx. 200 chairs. |And tables.
Robert Sr. walks to the shop. |Robert Jr. stays.
Net sales incl. TV were EUR 3.4 b. with a margin of 5.1%
Dear Ann,\\n\\n|It was good for two reasons:\\n |- it was short\\n |- cheap\\n\\n|Bye\\nBob
It was late. |nobody came. |we left.
This is a\\n short remark. |This is another.\\n|And a third
Ask for his name?|What may go wrong.
\u4ed6\u6765\\n\u4e86\u3002|\u6211\u4eec \u8d70\\n\u5427\uff01|\u597d\u3002
They said, "The leg is fine (e.g., no X-ray)." |Later the nurse left.
"Well, he . . . he left." |The clerk . . . nodded. |Fine.
Yahoo! is not liable for it. |You are a yahoo! |I hate you!
"""
CODE = [
    ("c", "void t () {\n|/* \U00010437 \u03ff */\n|int i = f(0,\n 1);\n|return;\n|}\n"),
    (
        "javascript",
        "function a() {\n|  g(\n|}\n|\n|function b() {\n|  let c = 1,\n d;\n|}\n",
    ),
    ("python", "def foo():\n|foo()\n|b = (1,\n 2)\n"),
    ("python", 'foo.\n|"""a\nb\n"""\n|x = 1\n'),
]


@pytest.mark.parametrize(
    ("segmenter", "marked"),
    [*((Sentences(), line.replace("\\n", "\n")) for line in SENTENCES.strip().splitlines()), *CODE],
)
def test_segments_are_those_that_were_missed(segmenter, marked):
    expected = [piece for piece in marked.split("|") if piece]
    assert pieces("".join(expected), segmenter) == expected
