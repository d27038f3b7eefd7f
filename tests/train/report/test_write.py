"""Writing: three files or none, and nothing half-written."""

import json

import pytest

from train.errors import ReportError
from train.report import write, write_report


def test_the_report_is_three_files_of_one_name(make, tmp_path):
    out = tmp_path / "deep" / "page.html"
    files = write_report(runs=make.runs(), data=make.data(), out=out, title="T")
    assert files.html == out
    assert sorted(p.name for p in out.parent.iterdir()) == ["page.csv", "page.html", "page.json"]
    assert files.html.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert json.loads(files.json.read_text(encoding="utf-8"))["title"] == "T"
    assert files.csv.read_text(encoding="utf-8").startswith("model,seed,source,measure")


def test_a_folder_gets_the_usual_name(make, tmp_path):
    files = write_report(runs=make.runs(), data=None, out=tmp_path / "out", title="T")
    assert files.html == tmp_path / "out" / "report.html"


def test_writing_twice_gives_the_same_bytes(make, tmp_path):
    runs, data = make.runs(), make.data()
    both = [write_report(runs=runs, data=data, out=tmp_path / n, title="T") for n in ("a", "b")]
    first, second = ([f.read_bytes() for f in (r.html, r.csv, r.json)] for r in both)
    assert first == second


def test_a_bad_input_writes_nothing(make, tmp_path):
    folders = [*make.runs(), tmp_path / "nowhere"]
    with pytest.raises(ReportError, match="nowhere"):
        write_report(runs=folders, data=None, out=tmp_path / "out", title="T")
    assert not (tmp_path / "out").exists()


def test_a_failed_write_leaves_the_old_report_and_no_litter(make, tmp_path, monkeypatch):
    runs = make.runs()
    files = write_report(runs=runs, data=None, out=tmp_path / "out", title="old")
    before = files.html.read_bytes()

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(write.os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_report(runs=runs, data=None, out=tmp_path / "out", title="new")
    assert files.html.read_bytes() == before
    assert len(list(files.html.parent.iterdir())) == 3
