"""Loggers never fail for want of a key, a network or a home, and keep no secret."""

import logging

import pytest

from tests.train.studies import pretrain, same_weights
from train.cli import main
from train.fit.runs import CONFIG
from train.fit.watching import loggers

KEY = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def keyless(monkeypatch, tmp_path):
    """No key, no network, no home that could be written to."""
    for name in ("WANDB_API_KEY", "WANDB_MODE", "NETRC"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "no" / "home"))
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("WANDB_ERROR_REPORTING", "false")
    monkeypatch.setattr(loggers, "_TIMEOUT_S", 2)
    return monkeypatch


def files_holding(folder, text):
    return [p for p in folder.rglob("*") if p.is_file() and text.encode() in p.read_bytes()]


@pytest.mark.slow
def test_without_a_key_wandb_is_kept_offline(smoke, keyless, tmp_path):
    run = pretrain(*smoke, "logger=wandb", "steps=2")
    (kept,) = (run / "wandb").glob("offline-run-*")
    (record,) = kept.glob("*.wandb")
    assert b"train/loss" in record.read_bytes()
    assert same_weights(run, pretrain(*smoke, "steps=2", "name=plain"))


@pytest.mark.slow
def test_each_run_of_a_sweep_is_a_run_of_its_own(smoke, keyless, tmp_path):
    words = ("experiment=smoke", *smoke, "logger=wandb", "steps=1")
    assert main(["pretrain", "-m", *words, "encoding=rope,alibi"]) == 0
    for name in ("rope", "alibi"):
        assert len(list((tmp_path / name / "wandb").glob("offline-run-*/*.wandb"))) == 1


@pytest.mark.slow
def test_with_a_key_and_no_network_wandb_is_kept_offline_too(smoke, keyless, caplog):
    keyless.setenv("WANDB_API_KEY", KEY)
    with caplog.at_level(logging.WARNING):
        run = pretrain(*smoke, "logger=wandb", "steps=1")
    assert "cannot be reached, the run is kept offline" in caplog.text
    assert list((run / "wandb").glob("offline-run-*"))
    assert files_holding(run, KEY) == []
    assert KEY not in caplog.text


@pytest.mark.slow
def test_no_secret_of_the_configuration_or_the_environment_is_stored(smoke, keyless, monkeypatch):
    keyless.setenv("WANDB_API_KEY", KEY)
    keyless.setenv("WANDB_MODE", "offline")
    keyless.setenv("HF_TOKEN", "hf_s3cret")
    monkeypatch.setattr("sys.argv", ["bipe", "corpus.sources.proofs.documents.token=hf_s3cret"])
    words = ("corpus.sources.proofs.documents.licence='https://me:s3cret@host/x?token=hf_s3cret'",)
    run = pretrain(*smoke, *words, "logger=wandb", "steps=1")
    assert files_holding(run, KEY) == []
    assert files_holding(run, "s3cret") == []
    assert "https://...@host/x?token=..." in (run / CONFIG).read_text()


def test_online_without_a_key_is_offline_with_a_word(keyless, tmp_path, caplog):
    logger = loggers.wandb(folder=tmp_path, name="x", offline=False)
    assert logger._offline
    assert "needs a key (wandb login)" in caplog.text


@pytest.mark.parametrize(
    ("environment", "offline"),
    [
        ({}, True),
        ({"WANDB_API_KEY": KEY}, False),
        ({"WANDB_API_KEY": KEY, "WANDB_MODE": "offline"}, True),
        ({"WANDB_API_KEY": KEY, "WANDB_MODE": "disabled"}, True),
        ({"WANDB_API_KEY": KEY, "WANDB_MODE": "online"}, False),
    ],
)
def test_the_key_decides(keyless, tmp_path, environment, offline):
    for name, value in environment.items():
        keyless.setenv(name, value)
    assert loggers.wandb(folder=tmp_path, name="x")._offline is offline
    assert loggers.wandb(folder=tmp_path, name="x", offline=True)._offline is True


def test_a_key_in_a_netrc_file_counts(keyless, tmp_path):
    (tmp_path / "netrc").write_text("machine api.wandb.ai\n  login user\n  password x\n")
    keyless.setenv("NETRC", str(tmp_path / "netrc"))
    assert loggers.wandb(folder=tmp_path, name="x")._offline is False


def test_tensorboard_writes_its_events(smoke):
    pytest.importorskip("tensorboard")
    run = pretrain(*smoke, "logger=tensorboard", "steps=2")
    (events,) = (run / "tensorboard").glob("events.out.tfevents.*")
    assert b"train/loss" in events.read_bytes()


def test_without_tensorboard_the_cure_is_told(keyless, tmp_path):
    def missing(**_):
        raise ModuleNotFoundError("No module named 'tensorboard'")

    keyless.setattr("lightning.pytorch.loggers.TensorBoardLogger", missing)
    with pytest.raises(ValueError, match=r"pip install -c .* -e '?.*\[tensorboard\]"):
        loggers.tensorboard(folder=tmp_path, name="x")
