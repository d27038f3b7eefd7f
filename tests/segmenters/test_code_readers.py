"""Logical lines of Python, by a reader of their own, against `tokenize`."""

import io
import random
import re
import sysconfig
import tokenize
from pathlib import Path

import pytest

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
