"""The prepared data of the smoke experiment, once for all tests of this room."""

import functools
import json
import os
import shutil
from pathlib import Path

import pytest

from tests.train.studies import EACH_STEP, back_to, composed, pretrain
from train.cli import main
from train.launch.run import run_command


@pytest.fixture(scope="session", autouse=True)
def no_home_and_no_fsync(tmp_path_factory):
    """The caches of the hub belong to the tests; `datasets` reads this when it is first used.

    Thousands of files are written, and nobody pulls the plug; tests of fsync set their own.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        patch.setenv("HF_HOME", str(tmp_path_factory.mktemp("hub")))
        patch.setenv("HF_HUB_OFFLINE", "1")
        yield


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    """The folder that `bipe prepare experiment=smoke` writes."""
    folder = tmp_path_factory.mktemp("smoke") / "data"
    run_command("prepare", composed(f"data={folder}", command="prepare"))
    return folder


@pytest.fixture(scope="session")
def finished(data, tmp_path_factory):
    """The finished run of an encoding, trained when it is first asked for; to be read or copied."""
    words = (f"data={data}", f"out={tmp_path_factory.mktemp('finished')}")
    return functools.cache(lambda encoding: pretrain(*words, f"encoding={encoding}"))


@pytest.fixture(scope="module")
def trained(data, tmp_path_factory):
    """Train on it into a folder of its own; the run."""

    def train(*words):
        return pretrain(f"data={data}", f"out={tmp_path_factory.mktemp('trained')}", *words)

    return train


@pytest.fixture(scope="session")
def stepwise(data, tmp_path_factory):
    """A run of BiPE-RoPE of 12 steps, with a checkpoint of each; to be copied."""
    out = tmp_path_factory.mktemp("stepwise")
    return pretrain(f"data={data}", f"out={out}", "encoding=bipe_rope", *EACH_STEP)


@pytest.fixture
def stopped(stepwise, tmp_path):
    """Return a copy of that run as a kill after a step would have left it."""

    def at(step):
        run = Path(shutil.copytree(stepwise, tmp_path / "bipe_rope"))
        back_to(run, step=step)
        return run

    return at


@pytest.fixture
def smoke(data, tmp_path):
    """Overrides that train on it, into a folder of this test."""
    return (f"data={data}", f"out={tmp_path}", "encoding=bipe_rope")


@pytest.fixture
def bipe(smoke, tmp_path, monkeypatch, capsys):
    """Run a command on the smoke experiment in an empty folder; status, stdout, stderr."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")

    def run(command, *words, study=True):
        options = ["experiment=smoke", *smoke] if study else []
        status = main([command, *options, *words])
        return status, *capsys.readouterr()

    return run


@pytest.fixture
def refused(bipe, tmp_path):
    """Run a command that must be refused: its message, after the laws of refusals are checked."""

    def run(command, *words, **options):
        before = sorted(tmp_path.rglob("*"))
        status, out, err = bipe(command, *words, **options)
        assert status == 2
        assert out == ""
        assert err.startswith("bipe: ")
        assert "Traceback" not in err
        assert sorted(tmp_path.rglob("*")) == before
        return err.removeprefix("bipe: ").strip()

    return run


@pytest.fixture
def file(tmp_path):
    """A text of two paragraphs."""
    path = tmp_path / "a.txt"
    path.write_text("Dr. Brown came. He left!\n\nOne\n", encoding="utf-8")
    return path


@pytest.fixture
def segment(capfd):
    """Run `bipe segment`: the standard output and what is said beside it."""

    def run(*words, status=0):
        assert main(["segment", *map(str, words)]) == status
        return capfd.readouterr()

    return run


@pytest.fixture
def facts(segment):
    """What --json tells of each document."""
    return lambda *words: [*map(json.loads, segment(*words, "--json").out.splitlines())]
