"""Hostile text takes linear time and memory: each segmenter's own units, and a share of others.

`BIPE_FUZZ=1 pytest tests/segmenters/test_linear.py` reads all; `benchmarks.hostile` measures them.
"""

import os
import tracemalloc

import pytest

from benchmarks.hostile_texts import UNITS, repeated, samples
from segmenters import Levels, Newline, Sentences, Stride
from segmenters.code.pieces import Seams
from tests.segmenters.texts import grows_too_fast

# Those of languages with a grammar: see test_code_trees.py.
_READERS = ("lines", "lines python", "lines haskell")
SEGMENTERS = {
    **{name: s for name, (s, _) in samples().items() if name in _READERS or "lines" not in name},
    "sentences by lines": Sentences(line_ends="auto"),
    "levels": Levels(of=Newline(), longest=7),
    "levels of one": Levels(of=Stride(length=10**9), longest=100),
}
_SENTENCES = (". [1", "- 1. ", "1) ", "1) 2) ", "; ", ". . ", "a\n", "a b\n\n", "=\n", "I\n\n")
_PROOFS = ("$$ x", "\n\n%", "2:", "$$" + " " * 40 + "$$ A", "@[x]\n", "-- \n", "{*", "x'", "\u2039")
OWN = {
    **dict.fromkeys(("rules", "next word", "sentences by lines"), _SENTENCES),
    **dict.fromkeys(("coq", "lean", "agda", "isabelle", "latex", "hol", "mizar"), _PROOFS),
    **dict.fromkeys(("turns", "transcript"), ("A\uff1aab",)),
    "levels": ("e\u0301", "a" + "\u0301" * 99, "\U0001f1e9"),
    "mixed": (
        *("`" * 50 + "\n", "~~~ `", "# \n", "- a\n", "---\n", "a:\n", '<a "', "<p>", "</pre>"),
        *("<script>a", "<b>. ", "\\documentclass", "\\begin{document}\n", "</b>. ", ">\n"),
        *("From a 1999\n\n", "--- a\n+++ b\n", "::\n\n a\n", '{"cells":[{"source":["', "$$\n"),
        *("- ```\n", "a|b\n-|-\n", "<!--\n", "``a", "From: a\n", "A" * 70 + "\n", "a\n---\n"),
    ),
}
SHARE = 1 if os.environ.get("BIPE_FUZZ") else 5


@pytest.mark.parametrize("name", SEGMENTERS)
def test_hostile_text_takes_linear_time(name):
    """Twice the text, 2.5 times the time at most; times of a few milliseconds are noise."""
    own = OWN.get(name, OWN.get(name.partition(" ")[0], ()))
    cut = SEGMENTERS[name].levels
    for unit in (*UNITS[[*SEGMENTERS].index(name) % SHARE :: SHARE], *own):
        texts = (repeated(unit, size) for size in (8_000, 16_000))
        assert not grows_too_fast(cut, *texts, most=2.5, slack=0.04), unit


@pytest.mark.parametrize("name", ["coq", "lean", "isabelle", "chain of thought", "metamath"])
def test_a_long_line_without_ends_is_one_step(name):
    assert SEGMENTERS[name].cut("x" * 200_000).tolist() == [0, 200_000]


# Bytes; 50 million characters may take 0.3 GB.
_PER_CHARACTER = 6


def peak(segmenter, text):
    tracemalloc.start()
    try:
        segmenter.levels(text)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", ["lists", "chain of thought", "mixed html", "mixed notebook"])
def test_the_levels_of_a_text_take_a_few_bytes_per_character(name):
    segmenter, unit = samples()[name]
    segmenter.levels(unit)
    small, large = (peak(segmenter, repeated(unit, size)) for size in (50_000, 100_000))
    assert (large - small) / 50_000 < _PER_CHARACTER


def test_a_text_that_was_parsed_is_not_kept():
    """The binding of tree-sitter never frees what its callbacks return."""
    segmenter, unit = samples()["lines java"]
    text = repeated(unit, 20_000)
    segmenter.levels(text)
    tracemalloc.start()
    try:
        for _ in range(3):
            segmenter.levels(text)
        assert tracemalloc.get_traced_memory()[0] < len(text) / 2
    finally:
        tracemalloc.stop()


def test_a_place_to_cut_long_code_is_found_without_a_look_at_all_its_lines():
    data = b"a = b(c);\n" * 100_000
    seams = Seams(data)
    tracemalloc.start()
    try:
        assert seams.within(500_000, 502_000) == 502_000
        assert tracemalloc.get_traced_memory()[1] < len(data) / 5
    finally:
        tracemalloc.stop()
