"""Loggers record every step once, and none of them can end or delay a training."""

import json
import logging
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.processes import Popen
from tests.train.studies import back_to, curve, pretrain, same_weights
from tests.train.watching.wandb_files import wandb_id, wandb_records, wandb_steps
from train.cli import main
from train.errors import MissingPackage
from train.fit.runs import CONFIG
from train.fit.watching import loggers, tracking
from train.fit.watching.loggers import RunLogger, TensorBoard
from train.fit.watching.tracking import Tracking

KEY = "0123456789abcdef0123456789abcdef01234567"
OWN = "+logger.own._target_=tests.train.watching.own_loggers."


@pytest.fixture
def keyless(monkeypatch, tmp_path):
    """No key, no network, no home that could be written to."""
    for name in ("WANDB_API_KEY", "WANDB_MODE", "NETRC"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "no" / "home"))
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("WANDB_ERROR_REPORTING", "false")
    return monkeypatch


def files_holding(folder, text):
    return [p for p in folder.rglob("*") if p.is_file() and text.encode() in p.read_bytes()]


def told(caplog, label="logger.", level=logging.WARNING):
    found = [record.getMessage() for record in caplog.records if record.levelno >= level]
    return [text for text in found if text.startswith(label)]


def events(run):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    return EventAccumulator(str(run / "tensorboard")).Reload()


@pytest.mark.slow
def test_a_resumed_run_is_one_run_of_wandb_with_each_step_once(smoke, keyless, caplog):
    words = (*smoke, "logger=wandb", "steps=6", "log_every=1", "validate_every=2")
    with caplog.at_level(logging.INFO):
        run = pretrain(*words)
    assert "is kept offline; to send it: wandb sync" in "".join(told(caplog, level=logging.INFO))
    back_to(run, step=4)
    pretrain(*words, "if_exists=resume")
    begun = [r.run for r in wandb_records(run) if r.WhichOneof("record_type") == "run"]
    assert len(begun) == 2
    assert {each.run_id for each in begun} == {wandb_id(run)}
    sent = {item.key: item.value_json for item in begun[0].config.update}
    assert json.loads(sent["row_length"]) == 64
    assert {"commit", "changed", "torch", "python"} <= json.loads(sent["bipe"]).keys()
    assert wandb_steps(run) == [1, 2, 3, 4, 5, 6]
    assert list(run.glob("wandb/offline-run-*/files/media/images/figures/loss_*.png"))
    assert same_weights(run, pretrain(*smoke, "steps=6", "validate_every=2", "name=plain"))


@pytest.mark.slow
def test_trackio_has_each_step_once_in_one_run(smoke, tmp_path, caplog):
    pytest.importorskip("trackio")
    words = ("logger=trackio", f"logger.trackio.folder={tmp_path}/kept", "log_every=1", "steps=6")
    with caplog.at_level(logging.WARNING):
        run = pretrain(*smoke, *words)
        back_to(run, step=4)
        pretrain(*smoke, *words, "if_exists=resume")
    assert caplog.records == []
    with sqlite3.connect(tmp_path / "kept" / "bipe.db") as kept:
        trained = "FROM metrics WHERE CAST(metrics AS TEXT) LIKE '%train/loss%' ORDER BY step"
        found = kept.execute(f"SELECT run_name, step {trained}").fetchall()
    name = json.loads((run / "loggers" / "trackio.json").read_text())["name"]
    assert found == [(name, step) for step in range(1, 7)]


def test_tensorboard_has_the_steps_of_the_training(smoke, caplog):
    pytest.importorskip("tensorboard")
    words = (*smoke, "logger=tensorboard", "steps=6", "log_every=2", "validate_every=3")
    with caplog.at_level(logging.WARNING):
        run = pretrain(*words)
        back_to(run, step=4)
        pretrain(*words, "if_exists=resume")
    assert caplog.records == []
    found = events(run)
    rows = {row["step"]: row for row in curve(run)}
    assert [each.step for each in found.Scalars("train/loss")] == [2, 3, 4, 6]
    assert [each.step for each in found.Scalars("validation/loss")] == [3, 6]
    for each in found.Scalars("train/loss"):
        assert each.value == pytest.approx(rows[each.step]["loss"])
    assert found.Images("figures/loss")[0].step == 6
    assert "row_length" in found.Tensors("configuration")[0].tensor_proto.string_val[0].decode()


@pytest.mark.slow
def test_several_loggers_and_one_of_lightning_at_once(smoke, keyless, tmp_path):
    pytest.importorskip("tensorboard")
    lightnings = "+logger.csv._target_=lightning.pytorch.loggers.CSVLogger"
    run = pretrain(
        *smoke, "logger=[wandb, tensorboard]", lightnings, f"+logger.csv.save_dir={tmp_path}/csv",
        "steps=2",
    )  # fmt: skip
    assert wandb_steps(run) == [1, 2]
    assert [each.step for each in events(run).Scalars("train/loss")] == [1, 2]
    (written,) = tmp_path.glob("csv/**/metrics.csv")
    assert "train/loss" in written.read_text()


@pytest.mark.slow
def test_each_run_of_a_sweep_is_a_run_of_its_own(smoke, keyless, tmp_path):
    words = ("experiment=smoke", *smoke, "logger=wandb", "steps=1", "encoding=rope,alibi")
    assert main(["pretrain", "-m", *words]) == 0
    assert wandb_id(tmp_path / "rope") != wandb_id(tmp_path / "alibi")


@pytest.mark.slow
def test_no_secret_of_the_configuration_or_the_environment_is_stored(smoke, keyless, monkeypatch):
    keyless.setenv("WANDB_API_KEY", KEY)
    keyless.setenv("WANDB_MODE", "offline")
    keyless.setenv("HF_TOKEN", "hf_s3cret")
    monkeypatch.setattr("sys.argv", ["bipe", "corpus.sources.proofs.documents.token=hf_s3cret"])
    words = ("report.title='https://me:s3cret@host/x?token=hf_s3cret'",)
    run = pretrain(*smoke, *words, "logger=[wandb, tensorboard]", "steps=1")
    assert files_holding(run, KEY) == []
    assert files_holding(run, "s3cret") == []
    assert "https://...@host/x?token=..." in (run / CONFIG).read_text()


@pytest.mark.parametrize(
    ("fails", "reason"),
    [
        ("Begins", "failed: OSError: [Errno 28] No space left on device"),
        ("Records", "failed: OSError: [Errno 28] No space left on device"),
        ("Finishes", "failed: ConnectionResetError: Connection lost"),
        ("Exits", "ended with status 7"),
        ("Hangs", "did not finish within"),
        ("HangsAtTheStart", "did not finish within"),
    ],
)
def test_a_logger_that_fails_is_told_once_and_the_training_goes_on(
    smoke, caplog, monkeypatch, fails, reason
):
    monkeypatch.setattr(tracking.subprocess, "Popen", Popen)
    if fails.startswith("Hangs"):
        monkeypatch.setattr(tracking, "_END_S", 3.0)
    words = ("allowed_targets=[tests]", f"{OWN}{fails}", "steps=4", "log_every=1")
    with caplog.at_level(logging.WARNING):
        run = pretrain(*smoke, *words)
    (message,) = told(caplog)
    assert message.startswith(f"logger.own {reason}")
    assert message.endswith("training continues without it; metrics.csv has every number")
    assert [row["step"] for row in curve(run)] == [1, 2, 3, 4]


@pytest.mark.slow
@pytest.mark.parametrize("blow", [signal.SIGKILL, signal.SIGSTOP])
@pytest.mark.skipif(not Path("/proc").exists(), reason="finds wandb's process in /proc")
def test_wandb_killed_or_stopped_in_the_middle_is_told_once(
    tmp_path, keyless, caplog, monkeypatch, blow
):
    monkeypatch.setattr(tracking, "_END_S", 6.0)
    description = {"_target_": "train.fit.watching.loggers.Wandb", "offline": True}
    track = Tracking(
        loggers={"wandb": description}, folder=tmp_path, config={}, facts=dict, allowed=()
    )
    track.begin()
    track.send({"loss": 1.0}, 1)
    until(lambda: (tmp_path / "loggers" / "wandb.json").exists() and "step" in
          json.loads((tmp_path / "loggers" / "wandb.json").read_text()))  # fmt: skip
    (service,) = processes("wandb-core", below=track._processes[0]._process.pid)
    with caplog.at_level(logging.WARNING):
        os.kill(service, blow)
        for step in range(2, 500):
            track.send({"loss": 1.0}, step)
        begin = time.monotonic()
        track.end(failed=False)
    assert time.monotonic() - begin < 60
    assert len(told(caplog)) == 1
    if blow == signal.SIGSTOP:
        os.kill(service, signal.SIGCONT)
    until(lambda: not processes("wandb-core", below=service))


def until(condition, *, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def processes(name, *, below):
    """The processes of a name that a process started, or itself."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            number, rest = path.read_text().split(" (", 1)
            own, rest = rest.rsplit(") ", 1)
        except (OSError, ValueError):
            continue
        state, parent = rest.split()[:2]
        if own == name and below in (int(parent), int(number)) and state != "Z":
            found.append(int(number))
    return found


@pytest.mark.slow
def test_with_a_key_and_no_network_wandb_is_kept_offline(tmp_path, keyless, caplog):
    keyless.setenv("WANDB_API_KEY", KEY)
    keyless.setattr(loggers, "_INIT_S", 2)
    logger = loggers.Wandb()
    about = loggers.About(folder=tmp_path, name="x", config={}, facts={})
    assert "wandb cannot be reached" in logger.begin(about)
    logger.numbers({"loss": 1.0}, 1)
    assert logger.end(failed=False) == ""
    assert list(tmp_path.glob("wandb/offline-run-*"))
    assert files_holding(tmp_path, KEY) == []


@pytest.mark.parametrize(
    ("environment", "online"),
    [
        ({}, False),
        ({"WANDB_API_KEY": KEY}, True),
        ({"WANDB_API_KEY": KEY, "WANDB_MODE": "offline"}, False),
        ({"WANDB_API_KEY": KEY, "WANDB_MODE": "disabled"}, False),
        ({"WANDB_API_KEY": KEY, "WANDB_MODE": "online"}, True),
    ],
)
def test_the_key_decides(keyless, environment, online):
    for name, value in environment.items():
        keyless.setenv(name, value)
    assert loggers.has_wandb_key() is online


def test_a_key_in_a_netrc_file_counts(keyless, tmp_path):
    (tmp_path / "netrc").write_text("machine api.wandb.ai\n  login user\n  password x\n")
    keyless.setenv("NETRC", str(tmp_path / "netrc"))
    assert loggers.has_wandb_key()


def test_a_package_that_is_missing_is_told_before_anything_runs(refused, monkeypatch):
    monkeypatch.setattr(loggers, "find_spec", lambda name: None)
    assert "logger=tensorboard needs tensorboard: pip install" in refused(
        "pretrain", "logger=tensorboard"
    )
    with pytest.raises(MissingPackage):
        TensorBoard.require("logger=tensorboard")
    RunLogger.require("a logger that needs nothing")


def test_what_is_no_logger_is_refused(refused):
    assert "logger must be names, each with" in refused("pretrain", "+logger.offline=true")
    assert "logger.own must name a class" in refused("pretrain", "+logger.own.offline=true")
    assert "must name a subclass of" in refused(
        "pretrain", "+logger.own._target_=train.fit.module.LMModule"
    )
    assert "Wandb has no such key" in refused("pretrain", "logger=wandb", "+logger.wandb.x=1")


def test_the_process_of_a_logger_loads_no_torch():
    program = "import sys, train.fit.watching.recorder; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "False"
