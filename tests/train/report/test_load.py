"""Loading: what is right arrives whole; what is wrong is named by file, key, rule and cure."""

import json
import math

import pytest

from tests.train.data.corpora import prepared
from train.data.reading.files import JSONL
from train.data.reading.split import Split
from train.errors import ReportError, UserError
from train.evals.rows import FILE
from train.report.load import load, load_growth


def test_every_row_of_a_run_is_in_the_table(make):
    one = make.run()
    held = make.results(one).table
    for row in one.rows:
        at = {"measure": row.measure, "source": row.source, "length": row.length,
              "depth": row.depth, "start": row.start}  # fmt: skip
        found = held
        for name, value in at.items():
            found = found[found[name].isna() if value is None else found[name] == value]
        assert found.value.tolist() == [row.value], at
    costs = {"parameters": 8, "training_tokens": 1_536_000, "training_steps": 188,
             "training_seconds": 30, "training_row_length": 512, "clamped_share": 0.1,
             "training_memory": 1.25}  # fmt: skip
    for measure, value in costs.items():
        assert held[held.measure == measure].value.tolist() == [pytest.approx(value)], measure
    assert held[held.measure == "training_loss"].stop.tolist() == [8192, 16384, 24576]


def test_runs_keep_their_order_and_come_once(make):
    folders = make.folders()
    names = [arm.label for arm in load(folders).arms]
    assert names == ["RoPE", "BiPE-RoPE", "ALiBi", "BiPE-ALiBi"]
    assert [arm.label for arm in load([*folders[::-1], folders[0]]).arms] == names[::-1]


def test_a_run_that_nobody_evaluated_is_shown_by_its_training(make):
    results = make.results(make.run(), make.Made(name="new", family="ALiBi"))
    assert results.unmeasured == ["ALiBi"] and len(results.arms) == 2


def test_what_nobody_noted_about_a_training_is_no_error(make):
    results = make.results(make.Made(name="bare", seed=None, notes={}, losses=()))
    assert set(results.table.measure) == {"parameters", "training_skipped_steps"}


@pytest.mark.parametrize(
    ("key", "value", "rule"),
    [
        ("length", 0, "a whole number of at least 1"),
        ("length", 1.5, "a whole number"),
        ("length", True, "a whole number"),
        ("value", "high", "a number"),
        ("value", 10**400, "a number"),
        ("source", 3, "a text"),
        ("start", -1, "a number of at least 0"),
    ],
)
def test_a_row_that_breaks_a_rule_is_named(make, key, value, rule):
    (folder,) = make.folders(make.run())
    lines = (folder / FILE).read_text().splitlines()
    lines[3] = json.dumps(json.loads(lines[3]) | {key: value})
    (folder / FILE).write_text("\n".join(lines) + "\n")
    with pytest.raises(ReportError) as caught:
        load([folder])
    for words in (str(folder / FILE), f"{key} of ", rule, "bipe evaluate again"):
        assert words in str(caught.value)


def test_what_is_no_run_or_no_row_is_named(make, tmp_path):
    with pytest.raises(UserError, match="nowhere"):
        load([tmp_path / "nowhere"])
    (folder,) = make.folders(make.run())
    (folder / FILE).write_text("{}\n[1]\n")
    with pytest.raises(UserError, match="line 1 is not a measurement"):
        load([folder])


@pytest.mark.parametrize(
    ("key", "value", "rule"),
    [
        ("segment_edges", [], "at least one whole number"),
        ("sources.code", 3, "a mapping"),
        ("sources.code.sample.cuts", [0, 18, 34, 42], "offsets from 0 to 41"),
        ("sources.code.sample.cuts", [0, 34, 18, 41], "offsets from 0 to 41"),
        ("sources.code.tokens_per_segment.mean", "long", "a number"),
        ("sources.code.by_document_length.0.documents", -1, "a whole number of at least 0"),
        ("sources.code.by_document_length.1.histogram", [1], "a list of 4 counts"),
        ("sources.code.by_document_length.2.documents", 10**400, "a whole number"),
    ],
)
def test_statistics_that_break_a_rule_are_named_by_file_and_key(make, key, value, rule):
    content = make.statistics()
    *parents, last = key.split(".")
    place = content["statistics"]
    for name in parents:
        place = place[int(name) if name.isdigit() else name]
    place[last] = value
    folder = make.data(content)
    with pytest.raises(ReportError) as caught:
        load(make.folders(make.run()), data=folder)
    for words in (str(folder / "statistics.json"), key, rule, "prepare"):
        assert words in str(caught.value), words


@pytest.mark.parametrize("content", [None, b"{", b"\xff\xfe", b"[]", b"[" * 100_000])
def test_a_file_that_is_no_json_mapping_is_named_with_its_cure(tmp_path, content):
    file = tmp_path / "segment_statistics.json"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ReportError, match=r"segment_statistics\.json: .*bipe evaluate statistics"):
        load_growth(file)


def test_a_missing_key_is_named_with_those_that_are_there(make):
    content = make.statistics()
    del content["statistics"]["sources"]["code"]["sample"]
    with pytest.raises(ReportError, match=r"code\.sample is missing; .*tokens_per_segment, by_doc"):
        load(make.folders(make.run()), data=make.data(content))


def test_what_preparation_writes_can_be_read(make, tmp_path):
    corpus = tmp_path / "corpus.jsonl"
    lines = [" ".join(["word"] * number) + "\n" for number in range(1, 40)]
    rows = [{"id": f"doc{n}", "text": "".join(lines[:n])} for n in range(1, 40)]
    corpus.write_text("".join(json.dumps(row) + "\n" for row in rows))
    reader, split = JSONL(path=corpus, id_key="id"), Split(validation=0.2, test=0.3)
    prepared({"tiny": reader}, tmp_path / "prepared", corpus={"split": split})
    results = load(make.folders(make.run()), data=tmp_path / "prepared")
    held, rows = results.sources["tiny"], results.table[results.table.label == ""]
    whole = rows[rows.length.isna()].set_index("measure").value
    assert whole["documents"] == held["documents"] == 39
    assert whole["segments_of_length"].sum() == whole["segments"]
    assert rows[rows.length.notna() & (rows.measure == "documents")].value.sum() == 39
    assert rows.stop.max() == math.inf and len(held["sample"]["cuts"]) > 2
