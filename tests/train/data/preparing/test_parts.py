"""The parts of every reader hold each of its documents once."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.train.data.corpora import write_rows
from train.data.reading import documents as parts
from train.data.reading.corpora import PackageCode
from train.data.reading.documents import Part, grouped, part_size
from train.data.reading.fields import keeps
from train.data.reading.files import JSONL, Parquet
from train.data.reading.hub import HuggingFace
from train.errors import DataError
from train.tasks.arithmetic.chains import ArithmeticChains


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    monkeypatch.setattr(parts, "SMALLEST", 300)


def in_parts(reader):
    """As workers read them: a part travels as JSON."""
    found = []
    for part in reader.division():
        where = json.loads(json.dumps(dict(part.where)))
        found += reader.take(Part(where=where, size=part.size))
    return found


@given(st.lists(st.integers(0, 50)), st.integers(1, 60))
def test_groups_keep_the_order_and_are_large_enough(sizes, size):
    groups = list(grouped(enumerate(sizes), size=size))
    assert [item for group, _ in groups for item in group] == list(range(len(sizes)))
    assert [sum(sizes[item] for item in group) for group, _ in groups] == [h for _, h in groups]
    assert all(held >= size for _, held in groups[:-1])


def test_the_size_of_a_part_is_bounded():
    assert part_size(0) == part_size(10) == 300
    assert part_size(10**15) == parts.LARGEST
    assert 300 < part_size(10**6) < parts.LARGEST


@pytest.mark.parametrize(
    "reader",
    [
        ArithmeticChains(documents=11, chains=4),
        PackageCode(packages=["numpy"], min_characters=3000, max_characters=6000),
    ],
)
def test_generated_and_installed_documents(reader, monkeypatch):
    whole = list(reader)
    assert len(reader.parts()) > 1
    assert in_parts(reader) == whole
    monkeypatch.setattr(parts, "SMALLEST", 10**9)
    assert in_parts(reader) == whole


@pytest.fixture
def folder(tmp_path):
    for file in range(3):
        rows = [{"text": f"{file}-{row}", "n": 10 * file + row} for row in range(40)]
        write_rows(tmp_path / f"{file}.jsonl", rows)
    return tmp_path


@pytest.mark.parametrize("streaming", [True, False])
def test_data_sets_of_the_hub(folder, streaming):
    options = {"path": "json", "data_files": str(folder / "*.jsonl"), "streaming": streaming}
    reader = HuggingFace(**options)
    whole = list(reader)
    assert len(whole) == len({document.id for document in whole}) == 120
    assert len(reader.parts()) > 2
    assert in_parts(reader) == whole
    assert in_parts(HuggingFace(**options, limit=50)) == whole[:50]


@pytest.mark.parametrize("kind", [JSONL, Parquet, HuggingFace])
def test_rows_are_filtered_alike(folder, kind):
    import pyarrow.json
    import pyarrow.parquet

    pyarrow.parquet.write_table(pyarrow.json.read_json(folder / "1.jsonl"), folder / "1.parquet")
    path = {"path": "json", "data_files": str(folder / "1.jsonl")}
    given = path if kind is HuggingFace else {"path": folder / f"1.{kind.__name__.lower()}"}
    conditions = {"n": {"at_least": 12, "at_most": 30, "not": [20]}, "text": {"matches": "-[2-9]"}}
    found = [document.text for document in in_parts(kind(**given, filter=conditions))]
    # 1-2 to 1-20, those whose number begins with 2 to 9, and of them not 1-10.
    assert found == [f"1-{n}" for n in range(2, 21) if str(n)[0] in "23456789"]
    for key, condition in ("a", {"at_least": 0}), ("a", {"matches": "."}), ("b.c", {"at_least": 3}):
        assert not keeps({"a": None, "b": {"c": 2.5}}, {key: condition}, where="")
    with pytest.raises(DataError, match=r"filter=no is not a field"):
        in_parts(kind(**given, filter={"no": [1]}))
