"""Logical lines of Python and of Haskell, by readers of their own, which need no grammar.

Python against `tokenize`, Haskell against tree-sitter.
"""

import io
import random
import re
import sysconfig
import tokenize
from pathlib import Path

import pytest

from segmenters.code import parsed
from segmenters.code.haskell_lines import item_ends
from tests.segmenters.samples import SNIPPETS
from tests.segmenters.texts import logical, pieces

LOGICAL = logical("python")


_NO_STATEMENT = {
    *(tokenize.NL, tokenize.COMMENT, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
}


def tokenized(text):
    """Ends of logical lines by the standard library, end of the text left out."""
    lines = re.findall(r"[^\n]*\n|[^\n]+\Z", text)
    ends = [0]
    for line in lines:
        ends.append(ends[-1] + len(line))
    found, inside = set(), False
    for token in tokenize.generate_tokens(io.StringIO(text, newline="").readline):
        if token.type == tokenize.NEWLINE or (token.type == tokenize.NL and not inside):
            found.add(ends[min(token.start[0], len(lines))])
            inside = False
        elif token.type not in _NO_STATEMENT:
            inside = True
    return [0, *sorted(found - {0, len(text)}), *([len(text)] if text else [])]


@pytest.mark.parametrize(
    "expected",
    [
        ["f(1,\n\n  # c\n  2)\n", "x = '''a\nb'''\n", "y = 1 + \\\n  2\n", "z\n"],
        ["# (a\n", "\n", "  # 'b\n", "if x:  # ]\n", "    pass\n"],
        # An open bracket is forgotten behind a line that can only be a statement.
        ["x = (1,\ndef f():\n", "    return define\n"],
        ["x = (1,\ndefine,\n    classes)\n"],
        # An open string ends with its line.
        ["x = 'a\n", 'y = "b\n', "z)\n"],
    ],
)
def test_statements_comments_and_blank_lines_are_segments(expected):
    assert pieces("".join(expected), "python") == expected


def test_installed_files_are_cut_as_tokenize_does():
    files = sorted(Path(sysconfig.get_paths()["stdlib"]).rglob("*.py"))
    files = [file for file in files if file.stat().st_size < 60_000]
    count = 0
    for file in random.Random(5).sample(files, 40):
        text = file.read_bytes().decode("utf-8", "replace")
        try:
            expected = tokenized(text)
        except (tokenize.TokenError, IndentationError):
            continue
        if "\r" in text.replace("\r\n", ""):
            continue
        count += 1
        assert LOGICAL.cut(text).tolist() == expected, file
    assert count > 10


@pytest.mark.parametrize(
    "expected",
    [
        ["f = g (\n  1)\n", "h = 2\n"],
        ["f x\n  | x > 1\n  , y = 2\n  | otherwise = 3\n", "  where y = 1\n", "g = 1\n"],
        ["f = do\n", "    if a\n    then b\n    else c\n", "    d\n"],
        ["f = let a = 1\n", "        b = 2\n    in a\n       + b\n", "g = 1\n"],
        ["f = forM_ a (\\b -> do\n", "  c\n", "  d)\n    e\n", "g = 1\n"],
        ["f = \\case\n", "  A -> 1\n", "  B ->\n    2\n"],
        ["data A = A {\n  b :: Int,\n  c :: Int\n}\n", "g = 1\n"],
        ["f = do { a;\n b }\n", "g = 1\n"],
        ['f = "a\\\n  \\ where"\n', "g = 'd' where\n", "  h' = '\\''\n"],
        ["f = 1 {- a\n {- do -} -} + 2\n", "-- a\n", "#if B\n", "g = 1\n", "#endif\n"],
        ["f = 1\n  -- not do\n  + 2\n", "\n", "-- |\n", "-- a\n", "g = 1\n"],
        ["f = do\n", "\ta\n", "        b\n"],
        ["f = (1\n", "g = 2)\n", "h = {\n", "i = 2\n"],
        ["main = do\n", "  a\n", "  where\n", "  b = 1\n", "c = 2\n"],
        ["{- a\n", "f = 1\n"],
    ],
)
def test_layout_says_where_items_begin(expected):
    assert pieces("".join(expected), "haskell") == expected


def test_the_grammar_agrees_where_it_can_parse():
    text = SNIPPETS["haskell"].replace("@=|\n", "\n").replace("@|\n", "\n")
    assert item_ends(text).tolist() == parsed.logical_ends(text, "haskell").tolist()
