"""The official tasks: their format, how rows become examples, and every fault with its place."""

import json
import re
import zipfile
from pathlib import Path

import pandas
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.train.scrolls.examples import archive, row
from train.cli import main
from train.errors import DataError
from train.tasks.scrolls.archives import TASKS, find_task, rows, split_input
from train.tasks.scrolls.encoding import Truncation
from train.tasks.scrolls.submission import check_submission, write_predictions, write_submission

WORDS = st.text(alphabet="abc DE.\n(", min_size=1).filter(lambda text: text.strip())


@pytest.mark.parametrize("name", TASKS)
def test_every_official_task_is_built_with_the_recipe_of_the_paper(name):
    task = find_task(name)
    output, last, first = (1000, 7, 7184) if task.metric == "rouge" else (200, 0, 7991)
    assert (task.name, task.output_tokens, task.last_tokens) == (name, output, last)
    assert Truncation(row_length=8192, output=output, last=last).first == first


def test_train_has_an_example_a_row_and_validation_one_an_id(tmp_path):
    rows = [row(0, output="a"), row(1), row(0, output="b", pid="i0_1")]
    path = archive(tmp_path / "qmsum.zip", train=rows, validation=rows)
    task = find_task("qmsum", path=str(path))
    train, validation = task.examples("train"), task.examples("validation")
    assert [one.id for one in train] == ["i0", "i1", "i0"]
    assert [one.references for one in train] == [("a",), ("An answer",), ("b",)]
    assert [one.id for one in validation] == ["i0", "i1"]
    assert validation[0].references == ("a", "b")
    assert [one.id for one in validation[1:]] == ["i1"]
    hidden = [row(0, output=None), {k: v for k, v in row(1).items() if k != "output"}]
    task = find_task("qmsum", path=str(archive(tmp_path / "t.zip", test=hidden)))
    assert [one.references for one in task.examples("test")] == [(), ()]


def test_an_address_is_fetched_once_by_datasets(tmp_path, monkeypatch):
    import datasets

    path, asked = archive(tmp_path / "x.zip", train=[row(0)]), []
    monkeypatch.setattr(
        datasets.DownloadManager, "download", lambda self, address: asked.append(address) or path
    )
    assert len(find_task("qmsum", path="hf://datasets/tau/scrolls").examples("train")) == 1
    assert len(find_task("qmsum", path="https://host/q.zip?token=1").examples("train")) == 1
    assert asked == ["hf://datasets/tau/scrolls/qmsum.zip", "https://host/q.zip?token=1"]
    monkeypatch.setattr(datasets.DownloadManager, "download", lambda self, address: 1 / 0)
    with pytest.raises(DataError, match=r"ZeroDivisionError: .* local zip") as told:
        find_task("qmsum", path="https://host/q.zip?token=sesame").examples("train")
    assert "sesame" not in str(told.value)


def test_the_parts_of_a_prompt_are_the_question_the_document_and_the_wording(tmp_path):
    path = archive(tmp_path / "qmsum.zip", train=[row(0, input="Why?\n\nOne.\n\nTwo.")])
    task = find_task("qmsum", path=str(path), instruction="Read on.")
    (example,) = task.examples("train")
    assert [(part.kind, part.text) for part in example.parts] == [
        ("instruction", "Read on.\n\n"),
        ("question", "Why?\n\n"),
        ("document", "One.\n\nTwo.\n\n"),
        ("text", "Summary:"),
    ]
    assert example.prompt == "Read on.\n\nWhy?\n\nOne.\n\nTwo.\n\nSummary:"


@given(question=WORDS, document=WORDS)
def test_a_question_ends_at_the_first_blank_line(question, document):
    question, document = re.sub(r"\n\n+", "\n", question).strip("\n"), document.lstrip("\n")
    options = f"{question}\n\n (A) one\n (B) two\n (C) three\n (D) four"
    for layout, asked in (("query", question), ("choices", options)):
        found = split_input(f"{asked}\n\n{document}", layout=layout, where="x")
        assert found == (asked, document)


@pytest.mark.parametrize("blank", ["\n\n", "\n\n\n", "\r\n\r\n", "\r\n\r\n\r\n"])
def test_line_ends_of_windows_and_a_byte_order_mark_are_read(tmp_path, blank):
    asked, document = "Who won?\r\nWhy?", "He ran.\r\nShe won."
    (tmp_path / "qmsum").mkdir()
    line = json.dumps(row(0, input=f"{asked}{blank}{document}"))
    (tmp_path / "qmsum/validation.jsonl").write_bytes(f"\ufeff{line}\r\n".encode())
    ((_, read),) = rows(str(tmp_path), task="qmsum", split="validation")
    assert split_input(read["input"], layout="query", where="x") == (asked, document)


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ([row(0), row(1, output="  ")], "row 2: output must not be empty"),
        ([row(0), row(1, output=None)], "row 2: output must be text, was: NoneType"),
        ([row(0, input="no blank line")], "row 1: input must be a question, a blank line"),
        ([row(0, input="\n\nno question")], "row 1: input must be a question"),
        ([{"id": "a", "pid": "b"}], r"row 1: input must be text, was: missing \(there is: id, pid"),
        ([row(0), row(0)], r"row 2: pid must be unique, was: 'i0_0', also in .*row 1"),
        ([row(0), row(0, pid="p", input="O?\n\nX")], "row 2: .* the same id must have the same"),
        (b"[" * 99_999, "row 1: must be a JSON object in UTF-8: maximum recursion"),
        (b'{"id": "a", "id": "b"}', "row 1: each field must occur once, twice were: id"),
        (b"[1]\n", "row 1: must be a JSON object, was: list"),
        (b'{"id": "\xff"}\n', "row 1: must be a JSON object in UTF-8"),
        (b"", "split validation of task qmsum has no rows"),
        (None, r"split validation is missing.*only qmsum/train\.jsonl"),
    ],
)
def test_a_fault_is_told_with_file_row_and_field(tmp_path, rows, told):
    splits = {"train": []} if rows is None else {"validation": rows}
    path = archive(tmp_path / "qmsum.zip", **splits)
    with pytest.raises(DataError, match=told) as fault:
        find_task("qmsum", path=str(path)).examples("validation")
    assert str(path) in str(fault.value)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({}, "row 2: all rows of a split or none must have an output, 1 of 3"),
        ({"split": "dev"}, "split must be one of train, validation, test"),
        ({"path": "no.zip"}, "there is no such file"),
        ({"path": "bad.zip"}, "cannot be read"),
        ({"promt": "x"}, "did you mean 'prompt'"),
        ({"name": "qmsumm"}, "did you mean 'qmsum'"),
        ({"instruction": "Sum", "prompt": "{question}{document}"}, r"name .* \{instruction\} once"),
        ({"prompt": "{question}"}, r"task qmsum: prompt must name the field \{document\} once"),
        ({"prompt": "{question} {document} {title}"}, r"no field but \{document\}.*, was: .*title"),
        ({"prompt": "{question} {document!r}"}, r"no field but \{document\}.*, was: .*document!r"),
        ({"prompt": "{question} {document"}, "is not a valid template"),
    ],
)
def test_what_is_no_archive_split_task_or_template_is_told(tmp_path, monkeypatch, settings, told):
    monkeypatch.chdir(tmp_path)
    archive(tmp_path / "good.zip", test=[row(0), row(1, output=None), row(2)])
    (tmp_path / "bad.zip").write_text("no zip")
    options = {"name": "qmsum", "split": "test", "path": "good.zip"} | settings
    name, split = options.pop("name"), options.pop("split")
    with pytest.raises(DataError, match=told):
        find_task(name, **options).examples(split)


@pytest.mark.parametrize("place", [0.2, 0.9])
def test_a_damaged_archive_is_a_fault_and_never_a_shorter_split(tmp_path, place):
    rows = [row(n, input=f"Q{n}?\n\n{n * 7919}") for n in range(400)]
    path = archive(tmp_path / "qmsum.zip", train=rows)
    data = bytearray(path.read_bytes())
    at = int(len(data) * place * 0.8)
    data[at : at + 4] = bytes(255 - byte for byte in data[at : at + 4])
    path.write_bytes(data)
    with pytest.raises(DataError, match=r"train\.jsonl"):
        find_task("qmsum", path=str(path)).examples("train")


@pytest.mark.parametrize("kind", ["zip", "folder of zips", "folder"])
def test_what_the_page_describes_is_read(tmp_path, kind):
    page = (Path(__file__).parents[3] / "docs" / "scrolls.md").read_text(encoding="utf-8")
    shape = re.search(r'`(\{"id".*?\})`', page, re.DOTALL)[1].replace("\n", " ")
    row = json.loads(shape.replace("...", '"1"').replace('""1""', '"1"'))
    (tmp_path / "qmsum").mkdir()
    (tmp_path / "qmsum" / "validation.jsonl").write_text(json.dumps(row) + "\n")
    place = tmp_path
    if kind != "folder":
        place = tmp_path / "qmsum.zip" if kind == "zip" else tmp_path / "zips"
        (tmp_path / "zips").mkdir()
        file = place if kind == "zip" else place / "qmsum.zip"
        with zipfile.ZipFile(file, "w") as made:
            made.write(tmp_path / "qmsum" / "validation.jsonl", "qmsum/validation.jsonl")
    assert [each for _, each in rows(str(place), task="qmsum", split="validation")] == [row]


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
        assert check_submission(folder / path, ids=ids) == (ids, [])


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
    _, faults = check_submission(path, ids={"qmsum": ["a", "b"]}, task="qmsum")
    assert told in "\n".join(faults)
    with pytest.raises(DataError, match="cannot be read"):
        check_submission(tmp_path / "none.json")


def test_a_file_of_another_task_than_that_of_the_ids_is_not_taken_for_right(tmp_path):
    (path := tmp_path / "preds.json").write_text('{"a": "x"}')
    _, faults = check_submission(path, ids={"qmsum": ["a"]})
    assert faults == ["task preds: no ids to compare with, only of qmsum; set task"]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda text: text.replace("Task", "task", 1), "row 1: must name the columns"),
        (lambda text: text.replace('"i1",', "", 1), "row 2: must have 3 cells, had: 2"),
        (lambda text: text.replace("qasper", "qaspr"), "no predictions of the test split for qas"),
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
    assert told in "\n".join(check_submission(path)[1])


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
def test_predictions_are_compared_with_their_split(tmp_path, capsys, folder, words, split):
    rows = {"validation": [row(0)], "test": [row(1)]}
    zipped = archive(tmp_path / "qmsum.zip", train=[row(2)], **rows)
    (path := tmp_path / folder / "qmsum.json").parent.mkdir()
    path.write_text(json.dumps({rows[split][0]["id"]: "Yes."}))
    assert main(["scrolls", f"validate={path}", "task=qmsum", f"path={zipped}", *words]) == 0
    assert f"no fault; qmsum compared with split={split}\n" in capsys.readouterr().out
