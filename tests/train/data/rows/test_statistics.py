"""What a run will read of its sources, counted without reading."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.train.data.streams import Stream
from train.data.rows.choices import PACKINGS, Packing
from train.data.rows.datamodule import row_statistics, table
from train.data.rows.order import RowOrder
from train.data.rows.packing import Rows


@pytest.mark.parametrize("packing", PACKINGS)
@given(lengths=st.lists(st.integers(1, 60), min_size=1, max_size=20), row_length=st.integers(1, 40))
def test_they_are_what_reading_counts(packing, lengths, row_length):
    rows = Rows(data=Stream(lengths), row_length=row_length, packing=Packing(strategy=packing))
    (found,) = row_statistics(RowOrder(rows={"x": rows}), rows=3 * len(rows))
    padding = targets = documents = long = 0
    ends = np.cumsum(lengths)
    for number in range(len(rows)):
        row = rows.row(number)
        inputs = min(row_length, row_length + 1 - row.padding)
        padding += row_length - inputs
        documents += int((row.marks[:inputs] & 1).sum())
        targets += int(rows.targets(number))
        of = np.searchsorted(ends, row.tokens[:inputs], side="right")  # a stream of 0, 1, 2 ...
        long += int((np.array(lengths)[of] >= row_length).sum())
        assert rows.long_share(number + 1) == pytest.approx(
            long / ((number + 1) * row_length - padding)
        )
    places = len(rows) * row_length
    assert found.padding == pytest.approx(padding / places)
    assert found.targets == pytest.approx(targets / places)
    if packing in ("concat", "long_first"):
        assert found.documents_per_row == pytest.approx(documents / len(rows))
    assert found.long_documents == rows.long_share(len(rows))
    assert (found.rows, found.read, found.epochs) == (len(rows), 3 * len(rows), 3.0)
    assert (found.documents, found.tokens) == (len(lengths), sum(lengths))


def test_the_table_has_a_line_a_source():
    rows = {name: Rows(data=Stream([50] * 9), row_length=10) for name in ("prose", "code")}
    mixture = RowOrder(rows=rows, weights={"prose": 3, "code": 1})
    found = row_statistics(mixture, rows=180)
    assert [each.read for each in found] == [135, 45]
    head, *lines = table(found)
    assert [line.split()[0] for line in lines] == ["prose", "code"]
    assert [line.split()[3] for line in lines] == ["3.000", "1.000"]
    assert len({len(line) for line in (head, *lines)}) == 1
    assert np.isclose(found[0].documents_per_row, 1.0)
