"""Every callback of Lightning's, under a Trainer and in a command: right, or refused."""

import re
import shutil
import sys
from pathlib import Path

import pytest
import torch
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch import callbacks
from lightning.pytorch.loggers import CSVLogger

from tests import processes
from tests.train.studies import curve, same_weights
from tests.train.test_own_trainer import module_of, rows_of, same, trainer_of
from train.errors import ConfigError
from train.fit.checkpoints import checkpoints
from train.fit.runs import CHECKPOINTS

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")
PAGE = (Path(__file__).parents[2] / "docs" / "loops.md").read_text(encoding="utf-8")
TABLE = {
    name: (mine, commands)
    for name, mine, commands in re.findall(r"^\| `(\w+)` \| (\w+) \| (\w+) \|", PAGE, re.MULTILINE)
}
ARGUMENTS = {
    "BasePredictionWriter": {"write_interval": "batch"},
    "EMAWeightAveraging": {"decay": 0.5},
    "EarlyStopping": {"monitor": "train/loss"},
    "GradientAccumulationScheduler": {"scheduling": {0: 2}},
    "ModelCheckpoint": {"every_n_train_steps": 2},
    "ModelPruning": {"pruning_fn": "l1_unstructured", "amount": 0.1},
    "OnExceptionCheckpoint": {"dirpath": "."},
    "StochasticWeightAveraging": {"swa_lrs": 0.1},
    "ThroughputMonitor": {"batch_size_fn": lambda batch: len(batch.tokens)},
    "Timer": {"duration": {"hours": 1}},
}
AVERAGES = ("EMAWeightAveraging", "WeightAveraging")  # their weights are others
WORDS = ("encoding=alibi", "steps=4", "rows.micro_batch=2", "rows.validation_rows=4",
         "validate_every=2", "log_every=1", "logger=csv")  # fmt: skip


class Own(callbacks.ProgressBar):
    """Whatever is abstract in a base of Lightning's."""

    def disable(self):
        pass


def test_the_table_has_all_callbacks():
    assert {*TABLE} == {*callbacks.__all__}
    assert {*TABLE.values()} <= {(a, b) for a in ("works", "refused") for b in ("works", "refused")}


def test_the_report_of_a_profiler_is_shown_once(data, tmp_path):
    words = ("experiment=smoke", f"data={data}", f"out={tmp_path}", "steps=1")
    command = [sys.executable, "-m", "train.cli", "pretrain", *words, "+trainer.profiler=simple"]
    done = processes.run(command, capture_output=True, text=True, check=True)
    assert done.stderr.count("FIT Profiler Report") == 1


@pytest.fixture(scope="module")
def reference(trained):
    """What is trained without a callback."""
    return trained(*WORDS)


@pytest.mark.parametrize("name", TABLE)
def test_under_a_trainer(name, reference, data, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    kind = Own if name == "ProgressBar" else getattr(callbacks, name)
    module, rows = module_of(reference), rows_of(data)
    trainer = trainer_of(
        tmp_path, callbacks=[kind(**ARGUMENTS.get(name, {}))], logger=CSVLogger(tmp_path),
        log_every_n_steps=1, max_steps=4, val_check_interval=2, check_val_every_n_epoch=None,
        enable_checkpointing=True, enable_progress_bar=name.endswith("Bar"),
    )  # fmt: skip
    if TABLE[name][0] == "refused":
        with pytest.raises((ConfigError, MisconfigurationException)) as refused:
            trainer.fit(module, rows)
        assert name in str(refused.value) and "\n" not in str(refused.value)
        return
    trainer.fit(module, rows)
    assert trainer.global_step == 4
    assert same(module, reference) != (name in AVERAGES)
    assert all(value.isfinite().all() for value in module.model.state_dict().values())


@pytest.mark.parametrize("name", TABLE)
def test_in_a_command(name, reference, bipe, tmp_path):
    given = {key: value for key, value in ARGUMENTS.get(name, {}).items() if not callable(value)}
    kind = (
        f"{Own.__module__}.Own" if name == "ProgressBar" else f"lightning.pytorch.callbacks.{name}"
    )
    words = [f"+callbacks.one._target_={kind}", "allowed_targets=[tests]"]
    for key, value in given.items():
        inside = value.items() if isinstance(value, dict) else ()
        plain = "{" + ",".join(f"{k}: {v}" for k, v in inside) + "}" if inside else value
        words.append(f"+callbacks.one.{key}={plain}")
    run = tmp_path / "alibi"
    status, _, err = bipe("pretrain", *WORDS, *words)
    if TABLE[name][1] == "refused":
        told = err.strip().splitlines()[-1]
        assert status == 2 and told.startswith("bipe: ") and "Traceback" not in err
        assert name in told
        assert not (run / "model").exists()
        return
    assert status == 0, err
    assert same_weights(run, reference) != (name in AVERAGES)
    assert [row["loss"] for row in curve(run)] == [row["loss"] for row in curve(reference)]
    assert len(checkpoints(run / CHECKPOINTS)) == 2
    if name in AVERAGES:  # also those that are written again from the checkpoint
        shutil.copytree(run / "model", tmp_path / "before" / "model")
        shutil.rmtree(run / "model")
        assert bipe("pretrain", *WORDS, *words)[0] == 0
        assert same_weights(run, tmp_path / "before")
    if name == "ModelCheckpoint":
        assert [path.name for path in (run / "lightning").glob("*.ckpt")] == ["epoch=0-step=4.ckpt"]
    assert torch.load(checkpoints(run / CHECKPOINTS)[-1], weights_only=True)["global_step"] == 4
