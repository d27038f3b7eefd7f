"""The fields of rows reach the segmenter that chooses by them, and nothing else is kept."""

import json

import pyarrow as arrow
import pyarrow.parquet as parquet
import pytest

from segmenters import Auto, Coq, Given, Lines, Mixed, Sentences
from tests.train.data.corpora import write_rows
from train.data.reading.fields import columns_of, fields_of
from train.data.reading.files import JSONL, Parquet
from train.data.reading.hub import HuggingFace

ROWS = [
    {"text": "x = 1. Y\n", "meta": {"pile_set_name": "Github", "blob": "b" * 9000}, "n": 1},
    {"text": "A. B\n", "meta": {"pile_set_name": "StackExchange", "blob": ""}, "n": 2},
    {"text": "Proof. Qed.\n", "meta": {"pile_set_name": "PubMed Abstracts", "blob": ""}, "n": 3},
]
EXPECTED = [Lines(fallback=True), Mixed(format="markdown"), Sentences(backend="rules")]


def chosen(documents):
    auto = Auto()
    return [
        auto.choose(text=one.text, kind=one.kind, name=one.id, meta=one.meta) for one in documents
    ]


@pytest.fixture(params=[JSONL, Parquet, HuggingFace, "json in parquet"])
def reader(request, tmp_path):
    rows = ROWS
    if request.param == "json in parquet":
        name = "pile_set_name"
        rows = [row | {"meta": json.dumps({name: row["meta"][name]})} for row in ROWS]
    parquet.write_table(arrow.Table.from_pylist(rows), tmp_path / "a.parquet")
    path = write_rows(tmp_path / "a.jsonl", ROWS)
    if request.param is HuggingFace:
        return HuggingFace(path="json", data_files=str(path))
    return (JSONL if request.param is JSONL else Parquet)(path=tmp_path)


def test_every_reader_tells_the_set_that_a_document_comes_from(reader):
    documents = list(reader)
    assert chosen(documents) == EXPECTED
    assert documents[0].meta == {"meta": {"pile_set_name": "Github"}}


def test_fields_beside_the_text_name_files_and_languages(tmp_path):
    rows = [
        {"content": "a", "max_stars_repo_path": "b/A.v", "lang": "Coq", "stars": 3},
        {"content": "b", "max_stars_repo_path": "b/x", "lang": "C", "stars": None},
    ]
    parquet.write_table(arrow.Table.from_pylist(rows), tmp_path / "a.parquet")
    documents = list(Parquet(path=tmp_path, text_key="content"))
    assert chosen(documents) == [Coq(), Lines(fallback=True)]
    assert documents[1].meta == {"max_stars_repo_path": "b/x", "lang": "C"}
    asked = list(Parquet(path=tmp_path, text_key="content", meta_keys=["lang"]))
    assert asked[0].meta == {"lang": "Coq"}


@pytest.mark.parametrize("kind", [JSONL, Parquet])
def test_a_list_of_texts_is_one_text_with_given_boundaries(tmp_path, kind):
    rows = [{"steps": ["1 + 1", "= 2."]}, {"steps": []}]
    parquet.write_table(arrow.Table.from_pylist(rows), tmp_path / "a.parquet")
    steps = [{"text": "1 + 1", "rating": 1}, {"text": "= 2."}]
    write_rows(tmp_path / "a.jsonl", [{"steps": steps}, {"steps": []}])
    first, second = kind(path=tmp_path, text_key="steps", meta_keys=["steps"])
    assert (first.text, second.text) == ("1 + 1\n= 2.", "")
    given = Given(field="steps").choose(text=first.text, meta=first.meta)
    assert given.cut(first.text).tolist() == [0, 6, 10]


def test_only_the_columns_of_known_fields_are_read():
    meta = {"source": "", "blob": "", "language": [{"name": "C"}]}
    row = {"text": "", "blob": "", "lang": "", "meta": meta}
    schema = arrow.Table.from_pylist([row]).schema
    assert sorted(columns_of(schema)) == ["lang", "meta.language", "meta.source"]
    assert columns_of(schema, ["blob"]) == ["blob", "meta.blob"]


def test_what_is_too_long_for_a_name_is_not_kept():
    row = {"text": "", "path": "p" * 5000, "source": "c4", "language": [{"name": "C", "bytes": 3}]}
    assert fields_of(row, "text") == {"source": "c4", "language": [{"name": "C", "bytes": 3}]}
    assert fields_of({"source": "a"}, "source") == {}
