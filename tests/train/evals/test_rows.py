"""Rows on disk: what is appended is read back, whatever a kill or another attempt leaves there."""

import json
import math
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from train.errors import DataError
from train.evals.rows import FILE, Journal, Row, key_of


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


def test_rows_of_other_weights_are_not_kept(tmp_path):
    journal = Journal(tmp_path / FILE)
    for weights, value in (("old", 1.0), ("new", 2.0), ("", 3.0)):
        journal.append(f"of {weights}", [row(value, length=int(value))], weights=weights)
    journal.forget_others("new")
    assert Journal(tmp_path / FILE).rows() == journal.rows()
    assert [one.value for one in journal.rows()] == [2.0, 3.0]
