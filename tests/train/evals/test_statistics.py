"""Segments against length: counts equal a plain loop, distances and lines have their laws."""

import itertools
from collections import Counter
from types import SimpleNamespace

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from hypothesis.extra.numpy import arrays

from segmenters import ArithmeticSteps, Newline
from train.data.preparing.statistics import Lengths
from train.data.tokenizing.vocabulary import LoadTokenizer
from train.evals.probes.trials import Texts
from train.evals.statistics import Counted, Separators, by_chance, growth, histograms, js_distance


def made(documents):
    """A data set of documents, each the lengths of its segments."""
    ends = np.cumsum([sum(lengths) for lengths in documents])
    marks = np.zeros(int(ends[-1]), np.uint8)
    place = 0
    for lengths in documents:
        marks[place] |= 1
        for length in lengths:
            marks[place] |= 2
            place += length
    return SimpleNamespace(
        tokens=np.zeros(len(marks)), document_ends=ends, marks=lambda a, b: marks[a:b]
    )


lengths = st.lists(st.integers(1, 40), min_size=1, max_size=60)


@given(documents=st.lists(lengths, min_size=1, max_size=8), piece=st.integers(1, 500))
def test_counts_are_those_of_a_plain_loop(documents, piece):
    counted, slow = Counted(), Lengths()
    data = made(documents)
    counted.add_split(data, piece=piece)
    start = 0
    for stop in data.document_ends.tolist():
        slow.add(data.marks(start, stop), np.array([stop - start]))
        start = stop
    assert counted.summary() == slow.summary()
    assert counted.tokens.tolist() == [sum(each) for each in documents]
    assert counted.segments.tolist() == [len(each) for each in documents]


histogram = arrays(np.int64, 6, elements=st.integers(0, 50)).filter(lambda x: x.sum() > 0)


@given(p=histogram, q=histogram, r=histogram)
def test_the_distance_is_a_metric_from_0_to_1(p, q, r):
    assert js_distance(p, 3 * p) == pytest.approx(0, abs=1e-7)
    assert 0 <= js_distance(p, q) <= 1 + 1e-9
    assert js_distance(p, q) == pytest.approx(js_distance(q, p))
    assert js_distance(p, r) <= js_distance(p, q) + js_distance(q, r) + 1e-9
    assert js_distance(np.append(p, 0 * q), np.append(0 * p, q)) == pytest.approx(1)


def test_chance_explains_samples_of_one_distribution_and_no_others():
    generator = np.random.Generator(np.random.PCG64(1))
    share = np.array([0.4, 0.3, 0.2, 0.1])
    one, two = generator.multinomial(500, share), generator.multinomial(2000, share)
    other = generator.multinomial(2000, share[::-1])
    assert js_distance(one, two) < 2 * by_chance(one, two)
    assert js_distance(one, other) > 5 * by_chance(one, other)
    assert by_chance(one, two) == by_chance(one, two)
    rows = histograms([Counter({3: 2, 7: 1}), Counter({1: 4, 3: 1})])
    assert rows.tolist() == [[0, 2, 1], [4, 1, 0]]


@given(
    slope=st.floats(0.01, 2),
    intercept=st.floats(-5, 50),
    tokens=arrays(np.int64, 9, elements=st.integers(100, 10**6), unique=True),
)
def test_a_line_is_found_again(slope, intercept, tokens):
    found = growth(tokens, slope * tokens + intercept)
    assert found["slope"] == pytest.approx(slope, rel=1e-6)
    assert found["intercept"] == pytest.approx(intercept, abs=1e-3)
    assert found["r2"] == pytest.approx(1, abs=1e-6)
    tokens = np.array([10, 1000, 10**5])
    assert growth(tokens, tokens // 10)["exponent"] == pytest.approx(1)
    assert growth(tokens[:1], tokens[:1])["slope"] is None
    alike = growth(tokens, np.array([60, 60, 60]))
    assert alike["slope"] == 0 and alike["r2"] is None


@pytest.fixture(scope="module")
def tokenizer(data):
    return LoadTokenizer(path=data).build()


def separated(text, segmenter, tokenizer, *, piece=1 << 20, limit=None):
    texts = Texts(tokenizer=tokenizer, segmenter=segmenter)
    (ids,) = texts.encode([text])
    marks = texts.marks(ids)
    separators = Separators(texts.pieces)
    data = SimpleNamespace(tokens=ids, marks=lambda a, b: marks[a:b])
    separators.add(data, limit=limit, piece=piece)
    return separators.summary()


@pytest.mark.parametrize("piece", [1, 7, 10**6])
def test_separators_are_those_of_the_text(tokenizer, piece):
    text = "1+2=3\n(4+5)=9=9\n\n7=7"
    found = separated(text, ArithmeticSteps(), tokenizer, piece=piece)
    cuts = ArithmeticSteps().cut(text)
    segments = [text[a:b] for a, b in itertools.pairwise(cuts)]
    ends = Counter(each.rstrip()[-1] for each in segments if each.strip())
    assert {row["character"]: row["ends"] for row in found["characters"]} == ends
    for row in found["characters"]:
        assert row["appearances"] == text.count(row["character"])
        assert row["hit_rate"] == row["ends"] / row["appearances"]
    assert found["segments"] == len(segments)
    assert found["line_end"] == {"ends": 2, "share": 2 / len(segments), "appearances": 2,
                                 "hit_rate": 1.0}  # fmt: skip
    assert {row["name"] for row in found["characters"]} >= {"EQUALS SIGN"}
    blank = separated("1\n\n2\n", Newline(), tokenizer, piece=piece)
    assert blank["blank_share"] > 0 and sum(row["ends"] for row in blank["characters"]) == 2
    part = separated("1+2=3\n" * 50, Newline(), tokenizer, limit=100)
    assert 0 < part["tokens"] <= 100 and part["segments"] < 50
