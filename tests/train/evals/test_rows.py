"""Rows on disk: what is appended is read back, whatever a kill or another attempt leaves there."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from train.errors import DataError
from train.evals.rows import FILE, Journal, Row, key_of


def row(value, **told):
    return Row(run="rope", measure="perplexity", unit="", value=value, **told)


def test_rows_come_back_as_they_were(tmp_path):
    rows = [row(1.5, length=64, low=1.0, high=2.0, note="windows"), row(2.5, length=128, seed=0)]
    Journal(tmp_path / FILE).append(key_of(["a", 1]), rows)
    journal = Journal(tmp_path / FILE)
    assert journal.rows() == rows
    assert key_of(["a", 1]) in journal and key_of(["a", 2]) not in journal


@given(data=st.data(), sizes=st.lists(st.integers(1, 4), min_size=1, max_size=4))
def test_a_kill_at_any_byte_costs_one_cell_at_most(tmp_path_factory, data, sizes):
    path = tmp_path_factory.mktemp("kill") / FILE
    journal = Journal(path)
    for cell, size in enumerate(sizes):
        journal.append(
            str(cell), [row(float(n), number=n, depth=cell, note="{}") for n in range(size)]
        )
    whole = path.read_bytes()
    path.write_bytes(whole[: data.draw(st.integers(0, len(whole)))])
    again = Journal(path)
    left = [str(cell) in again for cell in range(len(sizes))]
    assert left == sorted(left, reverse=True)  # the first ones are there
    for cell, size in enumerate(sizes):
        if str(cell) not in again:
            again.append(
                str(cell), [row(float(n), number=n, depth=cell, note="{}") for n in range(size)]
            )
    found = Journal(path)
    assert found.rows() == again.rows()
    assert len(found.rows()) == sum(sizes)


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


def test_rows_of_other_weights_are_not_kept(tmp_path):
    journal = Journal(tmp_path / FILE)
    for weights, value in (("old", 1.0), ("new", 2.0), ("", 3.0)):
        journal.append(f"of {weights}", [row(value, length=int(value))], weights=weights)
    journal.forget_others("new")
    assert Journal(tmp_path / FILE).rows() == journal.rows()
    assert [one.value for one in journal.rows()] == [2.0, 3.0]


def test_of_two_rows_at_one_place_the_last_counts(tmp_path):
    journal = Journal(tmp_path / FILE)
    journal.append("few documents", [row(1.0, length=64)])
    journal.append("many documents", [row(2.0, length=64)])
    assert [one.value for one in Journal(tmp_path / FILE).rows()] == [2.0]


def test_a_line_that_is_no_row_is_named(tmp_path):
    path = tmp_path / FILE
    Journal(path).append("x", [row(1.0)])
    path.write_text(path.read_text() + '{"cell": "y"}\n')
    with pytest.raises(DataError, match="line 2 is not a measurement"):
        Journal(path)
