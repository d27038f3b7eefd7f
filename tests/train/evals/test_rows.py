"""Rows on disk: what is appended is read back, whatever a kill or another attempt leaves there."""

import json
import math
import random
import re
from itertools import chain
from statistics import fmean

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from train.errors import DataError
from train.evals.rows import FILE, Journal, Row, half_width, key_of, over_documents, wilson


def row(value, **told):
    return Row(run="rope", measure="perplexity", unit="", value=value, **told)


@given(data=st.data(), sizes=st.lists(st.integers(1, 4), min_size=1, max_size=4))
def test_a_kill_at_any_byte_costs_one_cell_at_most(tmp_path_factory, data, sizes):
    path = tmp_path_factory.mktemp("kill") / FILE
    cells = {
        key_of(["cell", cell]): [row(n / 2, number=n, depth=cell, note="{}") for n in range(size)]
        for cell, size in enumerate(sizes)
    }
    journal = Journal(path)
    for key, rows in cells.items():
        journal.append(key, rows)
    assert Journal(path).rows() == journal.rows() == [*chain(*cells.values())]
    whole = path.read_bytes()
    path.write_bytes(whole[: data.draw(st.integers(0, len(whole)))])
    again = Journal(path)
    left = [key in again for key in cells]
    assert left == sorted(left, reverse=True)  # the first ones are there
    for key, rows in cells.items():
        if key not in again:
            again.append(key, rows)
    found = Journal(path)
    assert found.rows() == again.rows() == journal.rows()


def test_a_flipped_bit_costs_a_cell_or_is_refused_but_changes_no_number(tmp_path):
    path, draw = tmp_path / FILE, random.Random(1)
    journal = Journal(path)
    for cell in range(2):
        rows = [row(n / 3, number=n, depth=cell, note="windows") for n in range(2)]
        journal.append(key_of(cell), rows, name=f"prose {cell}", weights="0a")
    whole, refused = path.read_bytes(), 0
    names = {at for each in re.finditer(b"digest", whole) for at in range(*each.span())}
    for at in {*range(len(whole))} - names:  # without its name, it is a line of older versions
        bad = bytearray(whole)
        bad[at] ^= 1 << draw.randrange(8)
        path.write_bytes(bytes(bad))
        try:
            assert all(each in journal.rows() for each in Journal(path).rows()), at
        except DataError as error:
            assert str(path) in str(error)
            refused += 1
    assert refused > len(whole) / 3
    old = [json.loads(line) for line in whole.decode().splitlines()]
    for line in old:
        line.pop("digest", None)  # as older versions wrote it
    path.write_text("".join(f"{json.dumps(line)}\n" for line in old))
    assert Journal(path).rows() == journal.rows()


def test_what_is_not_finite_is_null_and_noted(tmp_path):
    Journal(tmp_path / FILE).append(
        "x", [row(math.inf, note="windows", low=1.0, high=math.inf), row(math.nan, length=1)]
    )
    lines = [json.loads(line) for line in (tmp_path / FILE).read_text().splitlines()]
    assert [line["value"] for line in lines] == [None, None]
    assert lines[0]["low"] == 1.0 and "high" not in lines[0]
    assert lines[0]["note"] == "windows (not finite: inf)"
    assert Journal(tmp_path / FILE).rows()[1].value is None


def test_a_cell_takes_the_place_of_another_of_its_name_and_gives_it_back(tmp_path):
    journal = Journal(tmp_path / FILE)
    many = [row(1.0, number=n) for n in range(3)]
    journal.append("many documents", many, name="prose")
    journal.append("few documents", [row(2.0, number=0)], name="prose")
    assert Journal(tmp_path / FILE).rows() == [row(2.0, number=0)]
    journal.renew("many documents")
    size = (tmp_path / FILE).stat().st_size
    journal.renew("many documents")  # it counts already
    assert (tmp_path / FILE).stat().st_size == size
    assert Journal(tmp_path / FILE).rows() == journal.rows() == many
    journal.append("another", [row(5.0, number=2)])  # of two rows at one place the last counts
    assert Journal(tmp_path / FILE).rows() == [*many[:2], row(5.0, number=2)]
    (tmp_path / FILE).write_text((tmp_path / FILE).read_text() + '{"cell": "y"}\n')
    with pytest.raises(DataError, match="line 9 is not a measurement"):
        Journal(tmp_path / FILE)


def test_the_interval_holds_the_mean_as_often_as_it_says():
    random.seed(5)
    held = 0
    for _ in range(2000):
        values = [random.gauss(1.0, 0.3) for _ in range(3)]
        held += abs(fmean(values) - 1.0) <= half_width(values)
    assert 0.93 < held / 2000 < 0.97
    assert half_width([1.0]) == math.inf and math.isnan(half_width([1.0, math.nan]))


def test_one_document_has_no_interval():
    for sums, tokens in (([3.0], [2]), ([3.0, 0.0], [2, 0]), ([3.0, math.inf], [2, 1])):
        assert np.isnan(over_documents(np.array(sums), np.array(tokens))).all()


@pytest.mark.parametrize(
    ("right", "total", "low", "high"),  # Newcombe, Statistics in Medicine 17 (1998), table I
    [(81, 263, 0.2553, 0.3662), (0, 20, 0, 0.1611)],
)
def test_intervals_of_wilson_are_those_of_newcombe(right, total, low, high):
    assert wilson(right, total) == pytest.approx((low, high), abs=6e-5)


@given(st.integers(1, 500), st.data())
def test_intervals_hold_their_share_and_mirror(total, data):
    right = data.draw(st.integers(0, total))
    low, high = wilson(right, total)
    assert 0 <= low <= right / total <= high <= 1
    assert wilson(total - right, total) == pytest.approx((1 - high, 1 - low))


@given(st.integers(2, 400), st.integers(1, 50))
def test_the_interval_over_documents_is_that_of_the_normal_law_where_there_are_many(size, tokens):
    means = np.random.default_rng(size).normal(3.0, 0.5, size)
    sums, counts = means * tokens, np.full(size, tokens)
    low, high = over_documents(sums, counts)
    assert min(means) - 1e-9 <= low <= high <= max(means) + 1e-9
    assert over_documents(sums, counts) == (low, high)
    if size > 60:
        error = means.std() / size**0.5
        ends = (means.mean() - 1.96 * error, means.mean() + 1.96 * error)
        assert (low, high) == pytest.approx(ends, abs=0.4 * error)
