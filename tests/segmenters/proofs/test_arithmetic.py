"""Steps of arithmetic derivations."""

from itertools import pairwise

import pytest

from segmenters import ArithmeticSteps


def pieces(text):
    cuts = ArithmeticSteps().cut(text)
    return [text[start:end] for start, end in pairwise(cuts)]


def test_an_equals_sign_ends_the_step_before_it():
    assert pieces("(1+2)*3 = 3*3 = 9") == ["(1+2)*3 =", " 3*3 =", " 9"]


def test_chains_end_with_their_line():
    assert pieces("1+1=2\n2*2=4\n") == ["1+1=", "2\n", "2*2=", "4\n"]


@pytest.mark.parametrize("sign", ["==", "<=", ">=", "!=", ":=", "==="])
def test_comparisons_and_assignments_end_nothing(sign):
    assert pieces(f"a {sign} b") == [f"a {sign} b"]
