"""What is only recorded of a machine costs no run: its sources are taken away, one and all."""

import json
import sys
import time
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from unittest import mock

import pytest
import torch

from bipe import __version__
from segmenters import SegmenterError
from segmenters.code.lines import Lines
from tests.train.studies import notes_of, pretrain, same_weights
from train import errors
from train.cli import main
from train.data.reading import corpora
from train.disk.files import read_lines
from train.errors import install_command
from train.fit import machine, runs
from train.fit.watching import watch

FAULTS = (PackageNotFoundError("bipe"), PermissionError("denied"), RuntimeError("x"), KeyError("x"))
NOTHING = {"commit": None, "changed": None}


def broken(fault):
    return mock.Mock(side_effect=fault)


@pytest.mark.parametrize("fault", FAULTS)
def test_the_environment_has_every_key_whatever_cannot_be_found_out(fault, monkeypatch):
    keys = machine.environment().keys()
    places = (machine.platform, "platform"), (machine.subprocess, "run"), (machine, "version")
    for owner, name in (*places, (machine, "_cpu_name"), (torch.cuda, "is_available")):
        monkeypatch.setattr(owner, name, broken(fault))
    found = json.loads(json.dumps(machine.environment()))
    assert found.keys() == keys
    known = {name for name, value in found.items() if value is not None}
    assert known == {"bipe", "python", "cores", "threads", "created"}


COMMIT = "a" * 40
GITS = {
    "missing": (None, NOTHING),
    "hangs": ("exec sleep 60", NOTHING),
    "says nothing": ("exit 0", NOTHING),
    "junk": (r"printf '\377\376 or so'", NOTHING),
    "hangs later": (f"case $* in *status*) exec sleep 60;; esac; echo {COMMIT}",
                    {"commit": COMMIT, "changed": None}),
    "works": (f"case $* in *status*) ;; *) echo {COMMIT};; esac",
              {"commit": COMMIT, "changed": False}),
}  # fmt: skip


@pytest.mark.parametrize("kind", GITS)
def test_git_that_is_missing_hangs_or_prints_junk_is_no_commit(kind, tmp_path, monkeypatch):
    script, expected = GITS[kind]
    if script is not None:
        (tmp_path / "git").write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin" if script else str(tmp_path))
    monkeypatch.setattr(machine, "_GIT_S", 0.5)
    begin = time.monotonic()
    assert machine.revision() == expected
    assert time.monotonic() - begin < 20


def test_without_proc_the_processor_has_the_name_that_python_knows(monkeypatch):
    monkeypatch.setattr(Path, "read_text", broken(PermissionError("denied")))
    assert machine._cpu_name() == machine.platform.processor()


@pytest.fixture
def nothing_known(monkeypatch):
    """As in a copy of the files that nobody installed, without git, home or /proc/cpuinfo."""
    monkeypatch.setattr(machine, "version", broken(PackageNotFoundError("bipe")))
    monkeypatch.setattr(machine.subprocess, "run", broken(FileNotFoundError("git")))
    monkeypatch.setattr(machine, "_cpu_name", broken(PermissionError("denied")))
    monkeypatch.setattr(machine.platform, "platform", broken(OSError("junk")))
    monkeypatch.setenv("XDG_STATE_HOME", "/dev/null/state")
    machine._tell.cache_clear()
    for name in ("version", "metadata", "requires", "distribution"):
        monkeypatch.setattr(f"importlib.metadata.{name}", broken(PackageNotFoundError("bipe")))


def test_a_run_is_trained_and_evaluated_where_nothing_is_known_of_the_machine(
    smoke, bipe, finished, nothing_known, caplog, monkeypatch
):
    caplog.set_level("INFO", "bipe")
    monkeypatch.setattr("train.fit.handover.card", broken(KeyError("card")))
    run = pretrain(*smoke)
    assert "has no card: 'card'" in caplog.text and not (run / runs.MODEL / "README.md").exists()
    assert notes_of(run)["versions"] == {"bipe": __version__, "torch": None}
    assert same_weights(run, finished("bipe_rope"))
    runs.remember_allowed(run, ["tests"])
    assert runs.allowed_of(run) == []
    (run / runs.ENVIRONMENT).mkdir()  # nor can it be written
    words = ("evaluate.probes=[]", "evaluate.lengths=[1]", "evaluate.documents=1")
    assert bipe("evaluate", *words)[0] == 0
    assert [row["measure"] for row in read_lines(run / runs.EVALUATION)].count("perplexity") == 1
    assert f"{run / runs.ENVIRONMENT} is not written" in caplog.text
    for told in ("the commit is not recorded", "found out: torch, platform, cpu"):
        assert caplog.text.count(told) == 1


def test_the_machine_is_examined_without_metadata(nothing_known, monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(errors, "_CHECKOUT", tmp_path)
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"bipe {__version__}\n"
    assert main(["doctor", "--json"]) == 0
    found = {each["name"]: each for each in json.loads(capsys.readouterr().out)}
    assert f"bipe {__version__}, " in found["versions"]["text"]
    assert "torch unknown" in found["versions"]["text"]
    assert install_command("ray").endswith("the extra ray, listed in bipe's pyproject.toml")
    assert (corpora._version("numpy"), corpora._licence("numpy")) == (
        "unknown",
        "not stated (numpy)",
    )


def test_a_version_on_which_cuts_depend_is_asked_for_in_one_line(nothing_known):
    with pytest.raises(SegmenterError, match="the version of tree-sitter, which has no package"):
        Lines(language="rust", granularity="logical").fingerprint()
    assert Lines(language="rust", granularity="physical").fingerprint()


def test_a_log_on_a_full_disk_ends_no_training(monkeypatch):
    monkeypatch.setattr(sys, "stderr", mock.Mock(write=broken(OSError(28, "No space left"))))
    watch._show(["step 1/2"])
