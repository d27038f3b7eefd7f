"""`bipe evaluate` with probes, and its statistics: from the command line to the page."""

import json

import pytest

from tests.train.studies import composed, pretrain
from train.cli import main, run_stage


@pytest.fixture(scope="module")
def run(data, tmp_path_factory):
    out = tmp_path_factory.mktemp("probed")
    return pretrain(f"data={data}", f"out={out}", "encoding=bipe_rope", "steps=2")


def probed(data, run, *words):
    given = (f"data={data}", f"out={run.parent}", "encoding=bipe_rope", *words)
    return run_stage("evaluate", composed(*given))


def test_probes_stand_in_the_evaluation_and_on_the_page(data, run):
    lengths = "evaluate.probing.lengths=[128,320]"
    (file,) = probed(
        data, run, "evaluate.probes=[passkey,copy,positions]", "evaluate.probing.trials=2", lengths,
        "evaluate.probing.scoring=[rank,write]", "evaluate.probing.depths=[0.0,1.0]",
    )  # fmt: skip
    held = json.loads(file.read_text())["probes"]
    assert list(held) == ["passkey", "copy", "positions"]
    assert held["copy"]["lengths"] == [128, 320] and held["passkey"]["source"] == "proofs"
    results = held["passkey"]["results"]
    assert all(0 <= share <= 1 for share in results["written"])
    # Steps of arithmetic are shorter than statements: both distances tell something of their own.
    assert max(results["distance_segments"]) < max(results["distance_tokens"]) <= 320
    report = run_stage("report", composed(f"data={data}", f"out={run.parent}"))
    assert 'id="probes"' in report.html.read_text()


@pytest.mark.parametrize(("word", "told"), [
    ("evaluate.probes=[pass_key]", "evaluate.probes: 'pass_key' is no probe; .*passkey"),
    ("evaluate.probing.source=prose", "evaluate.probing.source: 'prose' is no source"),
    ("evaluate.probing.depths=[2.0]", "evaluate.probing.depths must be shares from 0 to 1"),
    ("evaluate.probing.scoring=[spell]", "evaluate.probing.scoring must be some of rank, write"),
])  # fmt: skip
def test_what_cannot_be_probed_is_refused_by_its_key(word, told, data, run):
    with pytest.raises(ValueError, match=told):
        probed(data, run, word)


def test_statistics_of_two_folders_side_by_side(data, tmp_path, capsys):
    folders = f"data={{one: {data}, two: {data}}}"
    status = main(["evaluate", "statistics", "experiment=smoke", folders, f"out={tmp_path}"])
    assert status == 0
    shown = capsys.readouterr().out
    assert "one/proofs" in shown and "ArithmeticSteps" in shown
    found = json.loads((tmp_path / "segment_statistics.json").read_text())["sources"]
    assert list(found) == ["one/proofs", "two/proofs"]
    told = json.loads((data / "statistics.json").read_text())["sources"]["proofs"]
    assert found["one/proofs"]["tokens_per_segment"] == told["tokens_per_segment"]
    ends = {
        row["character"]: row["share"] for row in found["one/proofs"]["separators"]["characters"]
    }
    assert max(ends, key=ends.__getitem__) == "="
    page = (tmp_path / "segment_statistics.html").read_text()
    assert "two/proofs" in page and "<script" not in page


@pytest.mark.parametrize(("word", "told"), [
    ("statistics.splits=[tests]", "statistics.splits: 'tests' is none"),
    ("statistics.sources=[prose]", "statistics.sources: 'prose' is no source"),
    ("statistics.documents=0", "statistics.documents must be at least 1"),
])  # fmt: skip
def test_statistics_of_what_is_not_there_are_refused(word, told, data, tmp_path, capsys):
    words = ["experiment=smoke", f"data={data}", f"out={tmp_path}", word]
    assert main(["evaluate", "statistics", *words]) == 2
    assert told in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
