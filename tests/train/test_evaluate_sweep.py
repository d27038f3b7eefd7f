"""`bipe evaluate sweep=stretch` on small runs: every cell once, resumed, and shown."""

import json
import math

import pytest

from tests.train.studies import composed, pretrain
from train.cli import run_stage
from train.commands.evaluate_clock import Clock
from train.commands.evaluate_sweep import FOLDER
from train.fit import runs
from train.report import load_runs
from train.report.numbers import rows
from train.report.page import page
from train.report.terminal_stretch import stretch_table

METHODS = "evaluate.sweep.methods=[none,linear,yarn,dynamic_ntk]"


@pytest.fixture(scope="module")
def study(data, tmp_path_factory):
    """Two runs; words that evaluate them."""
    out = tmp_path_factory.mktemp("sweep")
    for encoding in ("bipe_rope", "alibi"):
        pretrain(f"data={data}", f"out={out}", f"encoding={encoding}", "steps=1")
    return out, (f"data={data}", f"out={out}", "sweep=stretch", METHODS)


def evaluated(study, *more):
    out, words = study
    run_stage("evaluate", composed(*words, *more))
    return {name: json.loads((out / name / runs.EVALUATION).read_text()) for name in NAMES}


NAMES = ("alibi", "bipe_rope")


@pytest.fixture(scope="module")
def found(study):
    return evaluated(study)


def test_every_method_unit_and_length_is_there(found):
    lines = found["bipe_rope"]["stretch"]["lines"]
    assert [(line["method"], line["unit"]) for line in lines] == [
        ("none", None),
        ("linear", None),
        ("yarn", "tokens"),
        ("yarn", "segments"),
        ("dynamic_ntk", "tokens"),
        ("dynamic_ntk", "segments"),
    ]
    for line in lines:
        assert line["lengths"] == [64, 128, 256]
        assert line["factors"] == [1.0, 2.0, 4.0]
        for cell in line["cells"]:
            held = cell["sources"]["proofs"]
            assert math.isfinite(held["perplexity"])
            assert held["tokens_scored"] > 0
            assert 0 <= cell["passkey"]["accuracy"] <= 1
    alibi = found["alibi"]["stretch"]
    assert [line["method"] for line in alibi["lines"]] == ["none"]
    assert set(alibi["left_out"]) >= {"yarn, tokens", "linear, tokens"}


def test_none_is_what_the_plain_evaluation_measured(found):
    for evaluation in found.values():
        plain = evaluation["perplexity"]["sources"]["proofs"]
        none = evaluation["stretch"]["lines"][0]["cells"]
        swept = [cell["sources"]["proofs"]["perplexity"] for cell in none]
        assert swept == pytest.approx(plain["perplexity"], rel=1e-6)
        retrieved = [cell["passkey"]["accuracy"] for cell in none]
        assert retrieved == [sum(row) / len(row) for row in evaluation["passkey"]["accuracy"]]


def test_at_the_training_length_all_methods_are_one_measurement(study, found):
    lines = found["bipe_rope"]["stretch"]["lines"]
    assert all(line["cells"][0] == lines[0]["cells"][0] for line in lines)
    files = list((study[0] / "bipe_rope" / FOLDER).glob("*.json"))
    # One at 64, and at 128 and 256: none, linear, yarn twice, dynamic twice.
    assert len(files) == 1 + 2 * 6


def test_a_stopped_sweep_measures_only_what_is_missing(study, found, capsys):
    files = sorted((study[0] / "bipe_rope" / FOLDER).glob("*.json"))
    before = {path: (path.stat().st_mtime_ns, path.read_text()) for path in files}
    for path in files[:3]:
        path.unlink()
    capsys.readouterr()
    assert evaluated(study) == found
    told = capsys.readouterr().err
    assert "3 of 3 measured" in told
    assert all(path.read_text() == text for path, (_, text) in before.items())
    untouched = files[3:]
    assert all(path.stat().st_mtime_ns == before[path][0] for path in untouched)


def test_another_protocol_is_another_measurement(study, found):
    other = evaluated(study, "evaluate.protocol=last_k", "evaluate.last=8")
    (source,) = other["bipe_rope"]["stretch"]["lines"][0]["cells"][1]["sources"].values()
    assert source["protocol"].startswith("last_k: The last 128 + 1 tokens")
    assert source["tokens_scored"] == 8 * 2
    assert evaluated(study) == found


def test_a_plain_evaluation_keeps_the_sweep_of_the_same_weights(study, found):
    out, words = study
    run_stage("evaluate", composed(*words[:2]))
    for name in NAMES:
        path = out / name / runs.EVALUATION
        assert json.loads(path.read_text())["stretch"] == found[name]["stretch"]


def test_the_report_shows_every_line(study, found):
    loaded = load_runs([study[0] / name for name in NAMES])
    html = page(runs=loaded, statistics={}, title="t")
    assert 'id="stretch"' in html
    assert html.count("yarn (segments)") >= 2
    numbers = [row for row in rows(loaded, {}) if row.measure == "stretched_perplexity"]
    cells = sum(len(line["lengths"]) for name in NAMES for line in found[name]["stretch"]["lines"])
    assert len(numbers) == cells
    table = stretch_table(loaded)
    assert [column.header for column in table.columns][1:] == ["64", "128", "256"]
    # A heading and its lines, for perplexity and for retrieval of each run.
    assert table.row_count == 2 * (1 + 6) + 2 * (1 + 1)


@pytest.mark.parametrize(
    ("word", "rule"),
    [
        ("evaluate.sweep.methods=[none,yarm]", "there is no method 'yarm'"),
        ("evaluate.sweep.methods=[]", "must be at least one, each once"),
        ("evaluate.sweep.units=[tokens,tokens]", "each once"),
        ("evaluate.sweep.factor=0.5", "must be at least 1"),
    ],
)
def test_a_sweep_that_means_nothing_is_refused(study, word, rule):
    with pytest.raises(ValueError, match=rule):
        evaluated(study, word)


def test_the_clock_knows_what_cells_of_a_length_take():
    clock = Clock(lengths=[64, 64, 128, 128])
    assert clock.done(64, 1.0) == pytest.approx(3.0)  # the others as long as this one
    assert clock.done(128, 4.0) == pytest.approx(5.0)
    assert clock.done(64, 3.0) == pytest.approx(4.0)
    assert str(clock) == "3 of 4"
    assert clock.done(128, 4.0) == 0.0
