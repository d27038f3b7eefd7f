"""Haskell by its layout rule, and against the grammar of tree-sitter on the same text."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segmenters import Lines
from segmenters.code import parsed
from segmenters.code.haskell_lines import item_ends
from tests.segmenters.snippets_other import SNIPPETS
from tests.segmenters.texts import any_text

_PARTS = [
    *"(){}[],;\"'\\\n\r\t `#|=",
    *("where", "let ", "do\n", "of\n  ", "in ", "\\case", "module A where\n", "{-", "-}", "--"),
    *("-- |", "\n  ", "\n    ", "a", "b' ", "1", "->", "<-", "then ", "else ", "#if\n", '"\\'),
    *("'a'", "'"),
]
haskell_soup = st.lists(st.sampled_from(_PARTS), max_size=60).map("".join)


def pieces(text):
    cuts = Lines(granularity="logical", language="haskell").cut(text)
    return [text[start:end] for start, end in pairwise(cuts)]


@given(text=st.one_of(haskell_soup, any_text))
def test_items_end_where_physical_lines_end(text):
    ends = item_ends(text).tolist()
    assert ends == sorted(set(ends))
    assert set(ends) <= set(Lines().cut(text).tolist()) | {len(text)}


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
    assert pieces("".join(expected)) == expected


def test_the_grammar_agrees_where_it_can_parse():
    text = SNIPPETS["haskell"].replace("@=|\n", "\n").replace("@|\n", "\n")
    assert item_ends(text).tolist() == parsed.logical_ends(text, "haskell").tolist()


@pytest.mark.parametrize(
    "unit", ["{-", "(", "do ", "a {\n", '"\\', "\\ ", "where\n", "let\n a", "'"]
)
def test_long_runs_of_openings_are_tiled(unit):
    text = unit * 5_000
    assert pieces(text) and "".join(pieces(text)) == text
