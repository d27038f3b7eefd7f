"""Samples in files of this folder, with signs where segments begin.

A line "%%% FORMAT" begins one; U+00A6, U+00B6 and U+00A7 stand where a segment of one, two and
three levels begins, and U+240D for a carriage return; snippets.txt has signs of its own.
"""

import re
from pathlib import Path

import numpy as np

MARKS = "\u00a6\u00b6\u00a7"


def marked_in(name):
    """Pairs of a format and a marked sample, in order."""
    rows = Path(__file__).with_name(name).read_text(encoding="utf-8").split("%%% ")[1:]
    return [tuple(row.replace("\u240d", "\r")[:-1].split("\n", 1)) for row in rows]


def typed(marked):
    """A marked text from one with "@@" and "@#" for the signs of one and two levels."""
    return marked.replace("@@", MARKS[0]).replace("@#", MARKS[1])


def plain(marked):
    return re.sub(f"[{MARKS}]", "", marked)


def with_marks(text, levels):
    """The text with the signs of the cuts of its levels, finest first; none at the start."""
    ranks = np.zeros(len(text), dtype=int)
    for cuts in levels:
        ranks[cuts[1:-1]] += 1
    return "".join(MARKS[:rank][-1:] + sign for rank, sign in zip(ranks, text, strict=True))


# Of languages: "@|" ends a segment at a line end, "@=|" a block too.
SNIPPETS = dict(marked_in("snippets.txt"))
