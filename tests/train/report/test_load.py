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


def test_runs_keep_their_order_come_once_and_need_no_evaluation(make):
    folders = make.folders(make.run(), make.run("ALiBi"), make.Made(name="new", family="NoPE"))
    names = ["RoPE", "ALiBi", "NoPE"]
    assert [arm.label for arm in load(folders).arms] == names
    results = load([*folders[::-1], folders[0]])
    assert [arm.label for arm in results.arms] == names[::-1] and results.unmeasured == ["NoPE"]
    with pytest.raises(UserError, match="nowhere"):
        load([folders[0].with_name("nowhere")])
    bare = load(make.folders(make.Made(name="bare", seed=None, notes={}, losses=())))
    assert set(bare.table.measure) == {"parameters", "training_skipped_steps"}


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"length": 0}, "length of .* a whole number of at least 1"),
        ({"length": 1.5}, "length of .* a whole number"),
        ({"length": True}, "length of .* a whole number"),
        ({"value": "high"}, "value of .* a number"),
        ({"value": 10**400}, "value of .* a number"),
        ({"source": 3}, "source of .* a text"),
        ({"start": -1}, "start of .* a number of at least 0"),
        ({"cell": None, "of": "x"}, "line 4 is not a measurement"),
    ],
)
def test_a_row_that_breaks_a_rule_is_named(make, change, rule):
    (folder,) = make.folders(make.run())
    lines = (folder / FILE).read_text().splitlines()
    lines[3] = json.dumps(json.loads(lines[3]) | change)
    (folder / FILE).write_text("\n".join(lines) + "\n")
    with pytest.raises(UserError, match=f"{FILE}: {rule}.* run bipe evaluate again"):
        load([folder])


@pytest.mark.parametrize(
    ("key", "value", "rule"),
    [
        ("segment_edges", [], "must be a list of at least one whole number"),
        ("sources.code", 3, "must be a mapping"),
        ("sources.code.sample", {"text": ""}, r"\.cuts is missing; the keys here are: text"),
        ("sources.code.sample.cuts", [0, 18, 34, 42], "must be offsets from 0 to 41"),
        ("sources.code.sample.cuts", [0, 34, 18, 41], "must be offsets from 0 to 41"),
        ("sources.code.tokens_per_segment.mean", "long", "must be a number"),
        ("sources.code.by_document_length.0.documents", -1, "must be a whole number of at least 0"),
        ("sources.code.by_document_length.1.histogram", [1], "must be a list of 4 counts"),
        ("sources.code.by_document_length.2.documents", 10**400, "must be a whole number"),
    ],
)
def test_statistics_that_break_a_rule_are_named_by_file_and_key(make, key, value, rule):
    content = make.statistics()
    *parents, last = key.split(".")
    place = content["statistics"]
    for name in parents:
        place = place[int(name) if name.isdigit() else name]
    place[last] = value
    with pytest.raises(ReportError, match=rf"data/statistics.json: {key} ?{rule}.*prepare"):
        load(make.folders(make.run()), data=make.data(content))


@pytest.mark.parametrize("content", [None, b"{", b"\xff\xfe", b"[]", b"[" * 100_000])
def test_a_file_that_is_no_json_mapping_is_named_with_its_cure(tmp_path, content):
    file = tmp_path / "segment_statistics.json"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ReportError, match=r"segment_statistics\.json: .*bipe evaluate statistics"):
        load_growth(file)


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
