"""Probes and statistics on the page: every grid, every curve, and nothing where there is none."""

import json

import pytest

from train.errors import ReportError
from train.report.load import load_runs
from train.report.load_growth import FORMAT, load_growth
from train.report.page import page
from train.report.palette import styles
from train.report.probes import mean_probe
from train.report.sections import growth, probes


def probed():
    deep = {
        "protocol": "A number <hidden>.", "lengths": [256, 1024], "depths": [0.0, 1.0],
        "trials": 2, "accuracy": [[0.25, 0.5], [0.75, 1.0]], "written": [[None, None]] * 2,
        "distance_tokens": [[200.0, 20.0]] * 2, "distance_segments": [[9.0, 1.0]] * 2,
        "chance": 0.1,
    }  # fmt: skip
    copied = {
        "protocol": "Twice.", "lengths": [256], "depths": None, "trials": 2, "accuracy": [[0.125]],
        "first": [[9.5]], "second": [[1.25]], "distance_tokens": [[128.0]],
        "distance_segments": [[4.0]], "chance": None,
    }  # fmt: skip
    curve = {"edges": [0, 1, 2, 4], "nll": [None, 5.0, 4.5], "tokens": [0, 4, 8]}
    curves = {"protocol": "Loss.", "length": 4, "curves": {"token": curve, "inter": curve}}
    left_out = deep | {"lengths": [], "accuracy": [], "written": [], "chance": None}
    left_out |= {"distance_tokens": [], "distance_segments": []}
    return {"passkey": deep, "induction": copied, "positions": curves, "variables": left_out}


def test_every_probe_has_its_map_its_means_and_its_curves(make):
    (run,) = load_runs(make.runs(make.evaluation() | {"probes": probed()}))
    shown = str(probes([run], styles([run])))
    assert "A number &lt;hidden&gt;." in shown
    for told in (">25<", ">100<", "38%", "88%", "Guessing finds 10%", ">any<", "9.50, 1.25"):
        assert told in shown, told
    assert "No length had room for it." in shown
    assert shown.count("Loss by") >= 2
    assert shown in page(runs=[run], statistics={}, title="x")


def test_runs_without_probes_have_no_section(make):
    runs = make.loaded()
    assert str(probes(runs, styles(runs))) == ""
    assert 'href="#probes"' not in page(runs=runs, statistics={}, title="x")


def test_several_seeds_are_averaged(make):
    held = [make.evaluation(seed=seed) | {"probes": probed()} for seed in (0, 1)]
    held[1]["probes"] = json.loads(json.dumps(held[1]["probes"]).replace("0.25", "0.75"))
    one, two = (run.probes["passkey"] for run in load_runs(make.runs(*held)))
    assert mean_probe([one, two]).grids["accuracy"] == ((0.5, 0.5), (0.75, 1.0))


def test_a_grid_of_another_shape_is_refused_with_its_key(make):
    held = make.evaluation() | {"probes": probed()}
    held["probes"]["passkey"]["accuracy"] = [[0.1, 0.2]]
    with pytest.raises(ReportError, match=r"probes.passkey.accuracy must be a list of 2 rows"):
        load_runs(make.runs(held))


def counted():
    bucket = {
        "from": 256, "to": 512, "documents": 9, "segments_per_document": 20.0, "segments": 180,
        "mean": 16.0, "percentiles": {"50": 15}, "max": 60, "share_of_length_1": 0.01,
        "histogram": [1, 79, 100],
    }  # fmt: skip
    later = bucket | {"from": 512, "to": None}
    line = {"documents": 18, "slope": 0.0625, "intercept": 0.5, "r2": 0.987, "exponent": 1.01}
    pair = {"bins": [256, 512], "distance": 0.0234, "by_chance": 0.0211}
    rate = {"ends": 90, "share": 0.5, "appearances": 120, "hit_rate": 0.75}
    source = {
        "segmenter": {"segmenter": "segmenters.Newline"}, "documents": 18, "tokens": 5760,
        "segments": 360, "tokens_per_segment": bucket, "by_document_length": [bucket, later],
        "growth": line,
        "distance": {"least_documents": 5, "bins": [256, 512], "pairs": [pair], "mean": 0.0234,
                     "largest": 0.0234},
        "separators": {"segments": 360, "tokens": 5760, "blank_share": 0.0, "line_end": rate,
                       "characters": [rate | {"character": "<", "name": "LESS-THAN SIGN"}]},
    }  # fmt: skip
    return {"format": FORMAT, "segment_edges": [1, 8, 16], "sources": {"prose": source}}


def test_the_claim_of_figure_1_is_on_the_page_in_numbers(make, tmp_path):
    file = tmp_path / "segment_statistics.json"
    file.write_text(json.dumps(counted()))
    shown = str(growth(load_growth(file)))
    for told in (
        "62.5",
        "0.987",
        "0.023",
        "0.021",
        "75.0%",
        "&lt; (less-than sign)",
        "512 and more",
    ):
        assert told in shown, told
    assert shown in page(runs=make.loaded(), statistics={}, title="x", growth=load_growth(file))
    assert "without a model" in str(growth(None))


def test_a_file_of_another_kind_is_refused(tmp_path):
    file = tmp_path / "segment_statistics.json"
    file.write_text(json.dumps(counted() | {"format": "x"}))
    with pytest.raises(ReportError, match="format must be"):
        load_growth(file)
