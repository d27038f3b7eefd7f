"""Physical lines of code."""

from itertools import pairwise

import pytest

from segmenters import Lines


def pieces(text):
    cuts = Lines().cut(text)
    return [text[start:end] for start, end in pairwise(cuts)]


def test_a_line_keeps_its_end_and_its_indentation():
    assert pieces("if a:\n    b\n\nc") == ["if a:\n", "    b\n", "\n", "c"]


def test_all_three_line_ends_count_once():
    assert pieces("a\r\nb\rc\n\rd") == ["a\r\n", "b\r", "c\n", "\r", "d"]


@pytest.mark.parametrize("char", list("\f\v\x1c\x1d\x1e\x85\u2028\u2029"))
def test_nothing_else_ends_a_line(char):
    assert pieces(f"a{char}b\n") == [f"a{char}b\n"]


def test_an_unknown_granularity_is_named():
    with pytest.raises(ValueError, match="granularity must be one of physical, was: 'token'"):
        Lines(granularity="token")
