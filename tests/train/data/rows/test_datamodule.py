"""The data module in a trainer: resume is exact, another order is refused; what a run will read."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from segmenters import Newline
from tests.train.data.corpora import prepared, write_words
from tests.train.data.streams import Stream
from train.data.preparing.source import Source
from train.data.reading.files import TextFiles
from train.data.reading.split import Split
from train.data.rows.choices import PACKINGS, Mixture, Packing
from train.data.rows.datamodule import LMDataModule, row_statistics, table
from train.data.rows.order import RowOrder
from train.data.rows.packing import Rows
from train.errors import DataError


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("data")
    write_words(root, files=6, words=120)
    splits = {
        "prose": Split(
            ids={"train": list(names(0, 4)), "validation": ["4.txt"], "test": ["5.txt"]}
        ),
        "code": Split(ids={"train": list(names(0, 6))}),
    }
    sources = {
        name: Source(documents=TextFiles(path=root / name), segmenter=Newline(), split=split)
        for name, split in splits.items()
    }
    return prepared(sources, root / "out", vocab_size=300).folder


def names(first, last):
    return (f"{number}.txt" for number in range(first, last))


def module(folder, **options):
    return LMDataModule(
        **({"folder": folder, "row_length": 16, "global_batch": 4, "micro_batch": 2} | options)
    )


def test_a_changed_order_is_refused_on_resume(folder):
    state = module(folder).state_dict()
    assert state["rows"] == 0
    module(folder, micro_batch=4).load_state_dict(state | {"rows": 8})
    for key, value in (("seed", 1), ("row_length", 8), ("global_batch", 8)):
        was = state[key]
        with pytest.raises(DataError, match=f"{key} is {value}, but was {was} in the run"):
            module(folder, **{key: value}).load_state_dict(state)
    with pytest.raises(DataError, match=r"sources is .* but was"):
        module(folder, mixture=Mixture(sources={"prose": 1})).load_state_dict(state)
    with pytest.raises(DataError, match="data is"):
        module(folder).load_state_dict(state | {"data": "other"})


def test_an_empty_split_is_named_with_the_cure(folder):
    with pytest.raises(DataError, match=r"source code, split test: has no documents.*share"):
        module(folder).rows("test")


def test_a_loader_needs_a_trainer(folder):
    with pytest.raises(DataError, match="needs a trainer"):
        module(folder).train_dataloader()
    assert module(folder, validation_rows=0).val_dataloader() == []
    assert module(folder).vocab_size <= 300
    assert module(folder, mixture=Mixture(sources={"prose": 1, "code": 0})).source_names == [
        "prose"
    ]


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
