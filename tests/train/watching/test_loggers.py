"""Loggers get every step once, over resumes, and none of them can end a training."""

import json
import logging
import struct
import sys
import time
from types import SimpleNamespace

import pytest
import wandb
from lightning import Callback

from tests.processes import PIPE, Popen
from tests.train.studies import back_to, crashing, curve, pretrain, same_weights
from tests.train.watching.own_loggers import PLACES
from train.cli import main
from train.disk.files import read_lines, read_numbers
from train.fit.runs import CONFIG
from train.fit.watching import loggers

KEY = "0123456789abcdef0123456789abcdef01234567"
OWN = "tests.train.watching.own_loggers."
RECORDING = (f"+logger.good._target_={OWN}Recording", "+logger.good._partial_=true")
FAILING = tuple(
    word
    for place in PLACES
    for word in (
        f"+logger.{place}._target_={OWN}Failing",
        f"+logger.{place}._partial_=true",
        f"+logger.{place}.where={place}",
    )
)
ALLOWED = "allowed_targets=[tests]"
EACH = ("steps=4", "log_every=1", "validate_every=2")


@pytest.fixture
def offline(monkeypatch, tmp_path):
    """No key, no network, no home that could be written to; no run of wandb stays."""
    for name in ("WANDB_API_KEY", "NETRC"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("HOME", str(tmp_path / "no" / "home"))
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("WANDB_ERROR_REPORTING", "false")
    yield monkeypatch
    assert wandb.run is None
    wandb.teardown()


def wandb_records(folder):
    """What the offline runs of a folder hold, in the order of their starts."""
    from wandb.proto.wandb_internal_pb2 import Record

    for file in sorted(folder.glob("wandb/offline-run-*/*.wandb")):
        yield from map(Record.FromString, _journal(file.read_bytes()))


def _journal(data):
    """The records of a file in LevelDB's log format, after wandb's header of 7 bytes."""
    place, record = 7, b""
    while place + 7 <= len(data):
        if (left := 32768 - place % 32768) < 7:
            place += left
            continue
        _, size, kind = struct.unpack("<IHB", data[place : place + 7])
        record += data[place + 7 : place + 7 + size]
        place += 7 + size
        if kind in (1, 4):
            yield record
            record = b""


def wandb_runs(folder):
    return [r.run for r in wandb_records(folder) if r.WhichOneof("record_type") == "run"]


def wandb_steps(folder):
    """The steps of the lines with a training loss; wandb's own process may write them late."""
    limit = time.monotonic() + 30
    while not (steps := _wandb_steps(folder)) and time.monotonic() < limit:
        time.sleep(0.2)
    return steps


def _wandb_steps(folder):
    lines = [r.history for r in wandb_records(folder) if r.WhichOneof("record_type") == "history"]
    values = [
        {item.key or "/".join(item.nested_key): item.value_json for item in line.item}
        for line in lines
    ]
    return [int(line["trainer/global_step"]) for line in values if "train/loss" in line]


def ids(run):
    return json.loads((run / loggers.IDS).read_text())


def files_holding(folder, text):
    return [p for p in folder.rglob("*") if p.is_file() and text.encode() in p.read_bytes()]


def warnings(caplog):
    messages = [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]
    return [text for text in messages if text.startswith("logger.")]


def events(run):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    return EventAccumulator(str(run / "tensorboard")).Reload()


def recorded(run, name):
    lines = read_lines(run / "recorded.jsonl")
    return [(line["step"], line[name]) for line in lines if name in line]


def assert_reported_once(messages):
    assert len(messages) == len(PLACES)
    for message, place in zip(sorted(messages), sorted(PLACES), strict=True):
        assert message.startswith(f"logger.{place} failed: ConnectionResetError: lost at {place};")
        assert "second line" not in message and message.endswith("metrics.csv has every number")


def test_loggers_that_fail_are_reported_once_each_and_change_nothing(smoke, caplog):
    with caplog.at_level(logging.WARNING):
        run = pretrain(*smoke, *EACH, ALLOWED, *RECORDING, *FAILING)
    assert_reported_once(warnings(caplog))
    rows = curve(run)
    assert [row["step"] for row in rows] == [1, 2, 3, 4]
    assert recorded(run, "train/loss") == [(row["step"], row["loss"]) for row in rows]
    validations = [(row["step"], row["validation_loss"]) for row in rows]
    assert recorded(run, "validation/loss") == [pair for pair in validations if pair[1]]
    assert same_weights(run, pretrain(*smoke, *EACH, "name=plain"))


class Mine(Callback):
    def on_train_batch_end(self, trainer, module, *_):
        module.log("mine", float(trainer.global_step))


def test_numbers_of_a_callback_stand_at_their_steps_among_ours(smoke):
    mine = (f"+callbacks.mine._target_={__name__}.Mine",)
    run = pretrain(*smoke, *EACH, ALLOWED, *RECORDING, *mine)
    assert recorded(run, "mine") == [(1, 1.0), (2, 2.0), (3, 3.0), (4, 4.0)]
    assert [step for step, _ in recorded(run, "train/loss")] == [1, 2, 3, 4]
    assert [step for step, _ in recorded(run, "validation/loss")] == [2, 4]


def test_in_a_sweep_loggers_that_fail_do_so_in_each_run(smoke, tmp_path, caplog):
    words = ("experiment=smoke", *smoke[:2], *EACH, ALLOWED, *RECORDING, *FAILING)
    with caplog.at_level(logging.WARNING):
        assert main(["pretrain", "-m", *words, "encoding=rope,alibi"]) == 0
    messages = warnings(caplog)
    assert_reported_once(messages[: len(PLACES)])
    assert_reported_once(messages[len(PLACES) :])
    for name in ("rope", "alibi"):
        assert [step for step, _ in recorded(tmp_path / name, "train/loss")] == [1, 2, 3, 4]


@pytest.mark.slow
def test_on_two_ranks_one_of_them_logs_and_reports(smoke, tmp_path):
    words = ("experiment=smoke", *smoke, *EACH, ALLOWED, *RECORDING, *FAILING)
    two = ("trainer=ddp", "trainer.accelerator=cpu", "trainer.devices=2", "rows.micro_batch=2")
    command = [sys.executable, "-m", "train.cli", "pretrain", *words, *two]
    process = Popen(command, stdout=PIPE, stderr=PIPE, text=True)
    _, err = process.communicate(timeout=400)
    assert process.returncode == 0, err
    lines = [line for line in err.splitlines() if "logger." in line]
    assert_reported_once([line[line.index("logger.") :] for line in lines])
    assert [step for step, _ in recorded(tmp_path / "bipe_rope", "train/loss")] == [1, 2, 3, 4]


@pytest.mark.parametrize("crash", [2, 3, 5])
def test_whatever_the_kill_each_step_is_given_once_and_metrics_are_those_of_a_whole_run(
    smoke, finished, crash
):
    words = (*smoke, "log_every=1", "validate_every=2", "checkpoint_every=2", ALLOWED, *RECORDING)
    whole = pretrain(*words, "name=whole")
    with crashing(at=crash):
        pretrain(*words)
    run = pretrain(*words)
    assert curve(run) == curve(whole)
    for name in ("train/loss", "validation/loss"):
        assert recorded(run, name) == recorded(whole, name)
    statuses = [line["status"] for line in read_lines(run / "recorded.jsonl") if "status" in line]
    assert statuses[0] == "failed" and statuses[-1] == "success"


@pytest.mark.slow
def test_a_resumed_run_is_one_run_of_wandb_with_each_step_once(smoke, offline):
    words = (*smoke, "logger=wandb", "steps=6", "log_every=1", "validate_every=2")
    run = pretrain(*words)
    back_to(run, step=4)
    pretrain(*words, "if_exists=resume")
    begun = wandb_runs(run)
    assert len(list(run.glob("wandb/offline-run-*"))) == 2
    assert {each.run_id for each in begun} == {ids(run)["wandb"]}
    assert (begun[0].project, begun[0].display_name) == ("bipe", "bipe_rope")
    sent = {item.key: item.value_json for each in begun for item in each.config.update}
    sent |= {
        item.key: item.value_json
        for record in wandb_records(run)
        if record.WhichOneof("record_type") == "config"
        for item in record.config.update
    }
    assert json.loads(sent["row_length"]) == 64
    assert {"commit", "changed", "torch", "python"} <= json.loads(sent["bipe"]).keys()
    assert wandb_steps(run) == [1, 2, 3, 4, 5, 6]
    assert list(run.glob("wandb/offline-run-*/files/media/images/figures/loss_*.png"))
    assert same_weights(run, pretrain(*smoke, "steps=6", "validate_every=2", "name=plain"))


@pytest.mark.parametrize(
    "variables", [{"WANDB_MODE": "disabled"}, {"WANDB_DISABLED": "true", "WANDB_API_KEY": KEY}]
)
def test_wandb_that_is_switched_off_writes_nothing(smoke, offline, variables):
    offline.delenv("WANDB_MODE")
    for name, value in variables.items():
        offline.setenv(name, value)
    run = pretrain(*smoke, "logger=wandb", "steps=2")
    assert not (run / "wandb").exists() and not (run / loggers.IDS).exists()


@pytest.mark.slow
def test_variables_of_wandb_decide_and_the_id_is_that_of_its_run(smoke, offline, tmp_path):
    variables = {"TAGS": "a,b", "NAME": "mine", "PROJECT": "ours", "RUN_ID": "r-1", "NOTES": "n"}
    variables |= {"SWEEP_ID": "s1", "ENTITY": "us", "RUN_GROUP": "g", "DIR": str(tmp_path / "w")}
    for name, value in variables.items():
        offline.setenv(f"WANDB_{name}", value)
    words = (*smoke, "logger=wandb", "steps=2", "log_every=1")
    run = pretrain(*words)
    back_to(run, step=0)
    # An agent starts it again as another run: an id of ours does not count.
    offline.setenv("WANDB_RUN_ID", "r-2")
    wandb.teardown()
    pretrain(*words, "if_exists=resume")
    first, second = wandb_runs(tmp_path / "w")[0], wandb_runs(tmp_path / "w")[-1]
    assert (first.run_id, second.run_id, ids(run)["wandb"]) == ("r-1", "r-2", "r-2")
    assert (first.project, first.display_name, first.entity) == ("ours", "mine", "us")
    assert ([*first.tags], first.run_group, first.notes) == (["a", "b"], "g", "n")
    assert first.sweep_id == "s1"


@pytest.mark.slow
def test_without_a_key_or_a_server_wandb_is_kept_offline(smoke, offline, caplog):
    offline.delenv("WANDB_MODE")
    offline.setenv("WANDB_INIT_TIMEOUT", "2")
    offline.setattr("sys.stdin", None)
    for key, reason in ((None, "No API key"), (KEY, "")):
        caplog.clear()
        if key:
            offline.setenv("WANDB_API_KEY", key)
        run = pretrain(*smoke, "logger=wandb", "steps=2", "log_every=1", f"name=run{bool(key)}")
        (message,) = warnings(caplog)
        assert message.startswith("logger.wandb is offline, to be sent by wandb sync: ")
        assert reason in message
        assert wandb_steps(run) == [1, 2]
        assert files_holding(run, KEY) == []


@pytest.mark.slow
def test_a_run_of_wandb_that_was_there_before_is_used_and_stays(smoke, offline, tmp_path):
    with wandb.init(dir=tmp_path, project="theirs") as theirs, pytest.warns(UserWarning):
        run = pretrain(*smoke, "logger=wandb", "steps=2", "log_every=1")
        assert wandb.run is theirs
    assert ids(run)["wandb"] == theirs.id
    assert wandb_steps(tmp_path) == [1, 2]


def test_tensorboard_has_the_steps_of_the_training(smoke, caplog):
    pytest.importorskip("tensorboard")
    words = (*smoke, "logger=[tensorboard,csv]", "steps=6", "log_every=2", "validate_every=3")
    with caplog.at_level(logging.WARNING):
        run = pretrain(*words)
        back_to(run, step=4)
        pretrain(*words, "if_exists=resume")
    assert caplog.records == []
    written = events(run)
    rows = {row["step"]: row for row in curve(run)}
    assert [event.step for event in written.Scalars("train/loss")] == [2, 3, 4, 6]
    assert [event.step for event in written.Scalars("validation/loss")] == [3, 6]
    for event in written.Scalars("train/loss"):
        assert event.value == pytest.approx(rows[event.step]["loss"])
    assert written.Images("figures/loss")[0].step == 6
    assert "row_length: 64" in (run / "tensorboard" / "hparams.yaml").read_text()
    of_csv = read_numbers(run / "csv" / "version_0" / "metrics.csv")
    losses = {row["step"]: row["train/loss"] for row in of_csv if row.get("train/loss")}
    assert losses == {step: row["loss"] for step, row in rows.items()}


@pytest.mark.slow
def test_a_sweep_has_loggers_each_a_run_of_its_own_and_no_secret(smoke, offline, tmp_path):
    pytest.importorskip("tensorboard")
    offline.setenv("WANDB_API_KEY", KEY)
    offline.setenv("HF_TOKEN", "hf_s3cret")
    offline.setattr("sys.argv", ["bipe", "corpus.sources.proofs.documents.token=hf_s3cret"])
    words = ("experiment=smoke", *smoke, "logger=[wandb,tensorboard]", "steps=2", "log_every=1")
    words += (ALLOWED, *RECORDING, "encoding=rope,alibi")
    words += ("report.title='https://me:s3cret@host/x?token=hf_s3cret'",)
    assert main(["pretrain", "-m", *words]) == 0
    assert ids(tmp_path / "rope") != ids(tmp_path / "alibi")
    for run in (tmp_path / "rope", tmp_path / "alibi"):
        assert wandb_steps(run) == [1, 2]
        assert [event.step for event in events(run).Scalars("train/loss")] == [1, 2]
        assert files_holding(run, KEY) == files_holding(run, "s3cret") == []
        assert "https://...@host/x?token=..." in (run / CONFIG).read_text()
        lines = [x["params"] for x in read_lines(run / "recorded.jsonl") if "params" in x]
        parameters = next(line for line in lines if "report" in line)  # Lightning tells its own
        assert parameters["report"]["title"] == "https://...@host/x?token=..."


def test_trackio_continues_its_run(smoke, monkeypatch, tmp_path):
    """By a stand-in with the interface of trackio, which is not installed here."""
    runs = []

    class Run:
        def __init__(self, **how):
            self.how, self.lines, self.finished = how, [], False
            runs.append(self)

        def log(self, values, step=None):
            self.lines.append((step, values))

        def finish(self):
            self.finished = True

    monkeypatch.setitem(sys.modules, "trackio", SimpleNamespace(init=Run, Image=lambda x: x.shape))
    monkeypatch.setattr("train.commands.before.needs.find_spec", lambda name: name)
    monkeypatch.delenv("TRACKIO_DIR", raising=False)
    words = (*smoke, "logger=trackio", "steps=2", "log_every=1")
    run = pretrain(*words)
    back_to(run, step=0)
    pretrain(*words, "if_exists=resume")
    assert {each.how["name"] for each in runs} == {ids(run)["trackio"]}
    assert {(each.how["project"], each.how["resume"]) for each in runs} == {("bipe", "allow")}
    assert all(each.finished and each.how["config"]["row_length"] == 64 for each in runs)
    lines = [line for each in runs for line in each.lines]
    assert [step for step, values in lines if "train/loss" in values] == [1, 2]
    assert [values for step, values in lines if "figures/loss" in values]


def test_a_logger_may_not_replace_the_metrics_of_the_run(smoke, caplog):
    run = pretrain(*smoke, "logger=csv", "logger.csv.name=null", "logger.csv.version=''")
    (message,) = warnings(caplog)
    assert "logger.csv.name=csv" in message
    assert len(curve(run)) == 6
