"""`bipe doctor`, and what a study needs: said before work, with the cure."""

import importlib.util
import json

import pytest

from tests.test_conf import EXPERIMENTS
from tests.train.studies import composed, typed
from tests.train.test_plan import command_of
from train.cli import main
from train.commands.before import doctor, needs
from train.errors import MissingPackage
from train.launch import composition
from train.launch.run import run_command


@pytest.fixture
def diagnosis(tmp_path, monkeypatch, capsys):
    """The findings of `bipe doctor` by name, and its exit status."""
    monkeypatch.chdir(tmp_path)

    def run(*words):
        status = main(["doctor", "--json", *words])
        found = json.loads(capsys.readouterr().out)
        assert all({"name", "status", "text", "cure"} == each.keys() for each in found)
        assert all(each["cure"] for each in found if each["status"] != "ok")
        assert status == any(each["status"] == "fail" for each in found)
        return status, {each["name"]: each for each in found}

    return run


@pytest.fixture
def without(monkeypatch):
    """Make modules or programs look as if they were not installed."""

    def hide(*names):
        def hiding(real):
            return lambda name, *_, **__: None if name in names else real(name)

        for module in (needs, doctor):
            monkeypatch.setattr(module, "find_spec", hiding(importlib.util.find_spec))
        monkeypatch.setattr(needs.shutil, "which", hiding(needs.shutil.which))

    return hide


def test_a_machine_is_examined_and_nothing_is_left_behind(diagnosis, tmp_path):
    status, found = diagnosis()
    names = {"versions", "devices", "threads", "precision", "compiler", "out", "TMPDIR"}
    assert names | {"grammars", "scrolls", "ray"} <= found.keys()
    assert status == 0
    assert "GB free" in found["out"]["text"] and "MB/s" in found["out"]["text"]
    assert "GFLOP/s in float32" in found["precision"]["text"]
    assert list(tmp_path.iterdir()) == []


def test_it_reads_as_one_line_per_check(monkeypatch, tmp_path, capsys, without):
    monkeypatch.chdir(tmp_path)
    without("rouge_score")
    assert main(["doctor"]) == 0
    lines = capsys.readouterr().out.splitlines()
    at = next(i for i, line in enumerate(lines) if " scrolls " in line)
    assert lines[at].startswith("ok   scrolls") and "rouge_score is not installed" in lines[at]
    assert lines[at + 1].strip().startswith("-> pip install -c ")


@pytest.mark.parametrize("experiment", {command_of(each): each for each in EXPERIMENTS}.values())
def test_an_experiment_of_each_command_can_be_examined(experiment):
    command = command_of(experiment)
    words = [f"experiment={experiment}", *(["task=qmsum"] if command == "scrolls" else [])]
    config = composition.composed(typed("doctor", command, *words))
    found = needs.needs(config, command=command)
    missing = {each.name for each in found if each.status == "fail"}
    assert missing <= {"data", "checkpoint"}
    assert missing


@pytest.mark.parametrize(
    ("words", "hidden", "name"),
    [
        (("scrolls", "task=qmsum"), "rouge_score", "rouge_score"),
        (("prepare", "engine=slurm"), "sbatch", "sbatch"),
        (("pretrain", "logger=tensorboard"), "tensorboard", "tensorboard"),
        (("pretrain", "compile=true"), "g++", "compiler"),
        (("prepare", "corpus=demo"), "sympy", "sympy"),
    ],
)
def test_what_a_study_lacks_fails_with_its_cure(words, hidden, name, diagnosis, without):
    without(hidden)
    status, found = diagnosis(*words)
    assert status == 1
    assert found[name]["status"] == "fail" and found[name]["cure"]


def test_what_a_study_does_not_use_it_does_not_need(diagnosis, without):
    without("rouge_score", "ray", "sbatch", "tensorboard")
    _, found = diagnosis("scrolls", "task=qmsum", "scrolls.split=test")
    assert found.get("rouge_score") is None
    _, found = diagnosis("prepare", "corpus=smoke")
    assert {each["status"] for each in found.values()} <= {"ok", "warn"}


def test_files_of_a_study_are_looked_for(diagnosis, data):
    _, found = diagnosis("pretrain", "experiment=smoke")
    assert found["data"]["status"] == "fail" and "bipe prepare, with" in found["data"]["cure"]
    _, found = diagnosis("pretrain", "experiment=smoke", f"data={data}")
    assert found["data"]["status"] == "ok"
    _, found = diagnosis("scrolls", "task=qmsum", "path=nowhere.zip")
    assert found["task.path"]["status"] == "fail"


def test_code_without_a_grammar_is_warned_of_and_before_work_too(diagnosis, monkeypatch, caplog):
    monkeypatch.setattr("segmenters.code.advice.find_spec", lambda name: None)
    found = diagnosis()[1]["grammars"]
    assert found["status"] == "warn" and "[code]" in found["cure"]
    assert "cut at physical lines" in found["text"]
    segmenter = "{_target_: segmenters.Auto, granularity: logical}"
    config = composed(f"corpus.sources.proofs.segmenter={segmenter}", command="prepare")
    needs.require(config, command="prepare")
    assert "granularity=logical: files in bash, c," in caplog.text


def test_a_folder_that_cannot_be_written_fails(monkeypatch, tmp_path):
    def full(**_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(doctor.tempfile, "NamedTemporaryFile", full)
    found = doctor.disk("out", tmp_path / "not" / "there")
    assert found.status == "fail" and "No space left on device" in found.text


def test_a_missing_package_stops_a_study_before_it_works(without, tmp_path, data):
    without("tensorboard")
    with pytest.raises(MissingPackage, match=r"needs tensorboard.*pip install"):
        run_command(
            "pretrain", composed("logger=tensorboard", f"data={data}", f"out={tmp_path}/out")
        )
    assert list(tmp_path.iterdir()) == []
