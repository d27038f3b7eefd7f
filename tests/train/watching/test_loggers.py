"""Loggers record every step once, and none of them can end or delay a training."""

import json
import logging
import struct
import subprocess
import sys

import pytest

from tests.processes import Popen
from tests.train.studies import back_to, curve, pretrain, same_weights
from train.cli import main
from train.fit.runs import CONFIG
from train.fit.watching import loggers, watch

KEY = "0123456789abcdef0123456789abcdef01234567"
OWN = "tests.train.watching.own_loggers."


@pytest.fixture
def keyless(monkeypatch, tmp_path):
    """No key, no network, no home that could be written to."""
    for name in ("WANDB_API_KEY", "WANDB_MODE", "NETRC"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "no" / "home"))
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("WANDB_ERROR_REPORTING", "false")
    return monkeypatch


def wandb_records(folder):
    """What the offline runs of a folder hold, in the order of their starts."""
    from wandb.proto.wandb_internal_pb2 import Record

    for file in sorted(folder.glob("wandb/offline-run-*/*.wandb")):
        yield from map(Record.FromString, _journal(file.read_bytes()))


def wandb_id(run):
    return json.loads((run / "loggers" / "wandb.json").read_text())["id"]


def _journal(data):
    """The records of a file in LevelDB's log format, after wandb's header of 7 bytes."""
    place, held = 7, b""
    while place + 7 <= len(data):
        if (left := 32768 - place % 32768) < 7:
            place += left
            continue
        _, size, kind = struct.unpack("<IHB", data[place : place + 7])
        held += data[place + 7 : place + 7 + size]
        place += 7 + size
        if kind in (1, 4):
            yield held
            held = b""


def wandb_steps(folder):
    found = [r.history for r in wandb_records(folder) if r.WhichOneof("record_type") == "history"]
    names = [[item.key or "/".join(item.nested_key) for item in each.item] for each in found]
    return [each.step.num for each, own in zip(found, names, strict=True) if "train/loss" in own]


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
def test_a_sweep_has_loggers_each_a_run_of_its_own_and_no_secret(smoke, keyless, tmp_path):
    pytest.importorskip("tensorboard")
    keyless.setenv("WANDB_API_KEY", KEY)
    keyless.setenv("WANDB_MODE", "offline")
    keyless.setenv("HF_TOKEN", "hf_s3cret")
    keyless.setattr("sys.argv", ["bipe", "corpus.sources.proofs.documents.token=hf_s3cret"])
    csv = "+logger.csv._target_=lightning.pytorch.loggers.CSVLogger"
    words = ("experiment=smoke", *smoke, "logger=[wandb, tensorboard]", "steps=2", csv)
    words += (f"+logger.csv.save_dir={tmp_path}/csv", "encoding=rope,alibi")
    words += ("report.title='https://me:s3cret@host/x?token=hf_s3cret'",)
    assert main(["pretrain", "-m", *words]) == 0
    assert wandb_id(tmp_path / "rope") != wandb_id(tmp_path / "alibi")
    for run in (tmp_path / "rope", tmp_path / "alibi"):
        assert wandb_steps(run) == [1, 2]
        assert [each.step for each in events(run).Scalars("train/loss")] == [1, 2]
        assert files_holding(run, KEY) == files_holding(run, "s3cret") == []
        assert "https://...@host/x?token=..." in (run / CONFIG).read_text()
    written = [*tmp_path.glob("csv/**/metrics.csv")]
    assert len(written) == 2 and all("train/loss" in each.read_text() for each in written)


FULL = "failed: OSError: [Errno 28] No space left on device"
FAILURES = {
    "Begins": FULL,
    "Records": FULL,
    "Finishes": "failed: ConnectionResetError: Connection lost",
    "OfLightning": "failed: ConnectionResetError: Connection lost",
    "Exits": "ended with status 7",
    "Hangs": "did not finish within",
}


def test_loggers_that_fail_are_told_once_each_and_the_training_goes_on(smoke, caplog, monkeypatch):
    monkeypatch.setattr(watch.subprocess, "Popen", Popen)
    monkeypatch.setattr(watch, "_END_S", 4.0)
    own = [f"+logger.{each}._target_={OWN}{each}" for each in FAILURES]
    with caplog.at_level(logging.WARNING):
        run = pretrain(*smoke, "allowed_targets=[tests]", *own, "steps=4", "log_every=1")
    messages = sorted(told(caplog))
    assert len(messages) == len(FAILURES)
    for message, (name, reason) in zip(messages, sorted(FAILURES.items()), strict=True):
        assert message.startswith(f"logger.{name} {reason}")
        assert message.endswith("training continues without it; metrics.csv has every number")
    assert [row["step"] for row in curve(run)] == [1, 2, 3, 4]


@pytest.mark.parametrize(
    "fault", [PermissionError("denied"), ValueError("null"), RuntimeError("x")]
)
@pytest.mark.parametrize("place", ["subprocess.Popen", "threading.Thread.start"])
def test_a_logger_that_cannot_start_costs_no_training(place, fault, monkeypatch, caplog, tmp_path):
    def broken(*_, **__):
        raise fault

    monkeypatch.setattr(f"train.fit.watching.watch.{place}", broken)
    given = {"folder": tmp_path, "config": {}, "facts": dict, "allowed": ()}
    one = watch.Tracking(loggers={"own": {"_target_": f"{OWN}Finishes"}}, **given)
    one.begin()
    one.send({"step": 1, "loss": 2.0}, 1)
    one.end(failed=False)
    (message,) = told(caplog)
    assert message.startswith(f"logger.own cannot be started ({fault})")


def test_numbers_that_cannot_be_written_down_end_a_logger_alone(monkeypatch, caplog, tmp_path):
    class Odd:
        def __str__(self):
            raise RuntimeError("odd")

    monkeypatch.setattr(watch.subprocess, "Popen", Popen)
    given = {"folder": tmp_path, "config": {"x": Odd()}, "facts": dict, "allowed": ()}
    monkeypatch.setattr(watch, "redacted", lambda config: config)
    one = watch.Tracking(loggers={"own": {"_target_": f"{OWN}Finishes"}}, **given)
    one.begin()
    one.end(failed=False)
    assert told(caplog)[0].startswith("logger.own cannot be told of begin (odd)")


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
    ("mode", "online"), [(None, True), ("offline", False), ("disabled", False), ("online", True)]
)
def test_the_key_decides(keyless, tmp_path, mode, online):
    assert not loggers.has_wandb_key()
    if mode:
        keyless.setenv("WANDB_MODE", mode)
    keyless.setenv("WANDB_API_KEY", KEY)
    assert loggers.has_wandb_key() is online
    keyless.delenv("WANDB_API_KEY")
    (tmp_path / "netrc").write_text("machine api.wandb.ai\n  login user\n  password x\n")
    keyless.setenv("NETRC", str(tmp_path / "netrc"))
    assert loggers.has_wandb_key() is online


def test_the_process_of_a_logger_loads_no_torch():
    program = "import sys, train.fit.watching.recorder; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "False"
