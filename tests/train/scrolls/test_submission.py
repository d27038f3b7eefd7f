"""Submissions come back as they were written, and every fault of one is found."""

import json

import pandas
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.train.scrolls.archives import archive, row
from train.cli import main
from train.errors import DataError
from train.tasks.scrolls.archives import TASKS
from train.tasks.scrolls.submission import (
    check_submission,
    refuse_faults,
    write_predictions,
    write_submission,
)

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)
TRAPS = ["NA", "None", 'a "quote"', "a, b", "one\ntwo", "cr\rlf\r\n", "", "caf\u00e9", "\u2028"]


def submission(**changed):
    return {task: {"i1": "an answer", "i2": "two"} for task in TASKS} | changed


@given(predictions=st.dictionaries(TEXT, TEXT, min_size=1))
def test_what_is_written_is_read_as_it_was(tmp_path_factory, predictions):
    folder = tmp_path_factory.mktemp("x")
    write_predictions(folder / "qmsum.json", predictions)
    assert json.loads((folder / "qmsum.json").read_text(encoding="utf-8")) == predictions
    whole = submission(qasper=predictions)
    write_submission(folder / "all.csv", whole)
    for path in ("qmsum.json", "all.csv"):
        ids = {"qmsum": predictions} if path == "qmsum.json" else whole
        checked = check_submission(folder / path, ids=ids)
        assert checked.faults == ()
        assert checked.predictions == {task: len(found) for task, found in ids.items()}
        blank = tuple(id for id, text in predictions.items() if not text.strip())
        assert [*checked.empty.values()] == ([blank] if blank else [])


def test_a_submission_reads_in_pandas_as_the_official_scorer_reads_it(tmp_path):
    texts = {f"i{n}": text for n, text in enumerate(TRAPS)}
    write_submission(tmp_path / "all.csv", submission(qmsum=texts))
    table = pandas.read_csv(tmp_path / "all.csv", keep_default_na=False, dtype=str)
    assert list(table.columns) == ["Task", "ID", "Prediction"]
    assert list(dict.fromkeys(table.Task)) == [*TASKS]
    read = table[table.Task == "qmsum"].set_index("ID").Prediction.to_dict()
    assert read == texts


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[]", "must be a JSON object from id to prediction, was: list"),
        ('{"a": 1, "b": "x"}', "task qmsum: 'a' has a prediction that is not text"),
        ('{"a": "x"}', "task qmsum: 'b' has no prediction"),
        ('{"a": "x", "b": "y", "c": "z"}', "task qmsum: 'c' has a prediction but no example"),
        ('{"a": "x", "a": "y", "b": "z"}', "task qmsum: 'a' has more than once"),
        ('{"a": "\\ud800", "b": "x"}', "task qmsum: 'a' has characters that cannot be written"),
        ('{"a": "\udcff"}', "byte 7 is not UTF-8 (invalid start byte)"),
        ('{"a": ', "must be JSON"),
        ("{}", "task qmsum: 'a', 'b' have no prediction"),
    ],
)
def test_a_fault_of_a_file_of_predictions_is_found(tmp_path, text, told):
    path = tmp_path / "x.json"
    path.write_text(text, errors="surrogateescape")
    checked = check_submission(path, ids={"qmsum": ["a", "b"]}, task="qmsum")
    assert told in "\n".join(checked.faults)
    with pytest.raises(DataError, match=r"x\.json"):
        refuse_faults(path, checked.faults)
    with pytest.raises(DataError, match="cannot be read"):
        check_submission(tmp_path / "none.json")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda text: text.replace("Task", "task", 1), "row 1: must name the columns"),
        (lambda text: text.replace('"i1",', "", 1), "row 2: must have 3 cells, had: 2"),
        (
            lambda text: text.replace("qasper", "qaspr"),
            "no predictions of the test split for qasper",
        ),
        (lambda text: text.replace("qasper", "qaspr"), "there is no task 'qaspr'"),
        (lambda text: text + '"qmsum","i1","x"\n', "task qmsum: 'i1' has more than once"),
        (lambda text: text + '"qmsum","i3', "must be CSV"),
        (lambda text: "", "row 1: must name the columns"),
    ],
)
def test_a_fault_of_a_submission_is_found(tmp_path, change, told):
    path = tmp_path / "all.csv"
    write_submission(path, submission())
    path.write_text(change(path.read_text()))
    assert told in "\n".join(check_submission(path).faults)


@pytest.mark.parametrize("predictions", [{}, {"a": None}, {"a": "\ud800"}, {1: "x"}])
def test_what_would_be_refused_is_not_written(tmp_path, predictions):
    with pytest.raises(DataError):
        write_predictions(tmp_path / "qmsum.json", predictions)
    with pytest.raises(DataError):
        write_submission(tmp_path / "all.csv", submission(qmsum=predictions))
    with pytest.raises(DataError, match="no predictions of the test split for gov_report"):
        write_submission(tmp_path / "all.csv", {"qmsum": {"a": "x"}})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("folder", "words", "split"),
    [("validation", (), "validation"), ("validation", ("split=test",), "test"), ("x", (), "test")],
)
def test_predictions_are_compared_with_the_split_of_their_folder(
    tmp_path, capsys, folder, words, split
):
    rows = {"validation": [row(0)], "test": [row(1)]}
    zipped = archive(tmp_path / "qmsum.zip", train=[row(2)], **rows)
    (path := tmp_path / folder / "qmsum.json").parent.mkdir()
    path.write_text(json.dumps({rows[split][0]["id"]: "Yes."}))
    assert main(["scrolls", f"validate={path}", "task=qmsum", f"path={zipped}", *words]) == 0
    assert f"no fault; compared with split={split}\n" in capsys.readouterr().out
