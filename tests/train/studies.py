"""Small studies for the tests: the smoke experiment, composed and run in this process."""

import functools
import json
import re
import shutil
from contextlib import contextmanager
from pathlib import Path

import lightning
import numpy as np
import pytest
from safetensors.numpy import load_file

from bipe import Decoder
from train.config.decoders import decoder_of
from train.data.rows.datamodule import LMDataModule
from train.data.rows.loader import RowLoader
from train.disk.files import read_numbers
from train.fit import runs
from train.fit.module import LMModule
from train.launch import composition
from train.launch.commands import find
from train.launch.reader import read
from train.launch.run import run_command

EACH_STEP = (
    "steps=12",
    "checkpoint_every=1",
    "keep_checkpoints=20",
    "validate_every=4",
    "log_every=3",
)
TIMES = ("tokens_per_second", "mfu", "peak_memory_gib", "seconds")


FOLDER = re.compile(r"(data|out)=([\w./-]+)")


def composed(*words, experiment="smoke", command="pretrain"):
    """An experiment with overrides, as `bipe` would compose it.

    Composing takes half as long as a small training, so it is done once for all folders.
    """
    places = {found[1]: found[2] for word in words if (found := FOLDER.fullmatch(word))}
    others = [word for word in words if not FOLDER.fullmatch(word)]
    return _composed(*others, experiment=experiment, command=command).on(places)


@functools.cache
def _composed(*words, experiment, command):
    return composition.composed(typed(command, f"experiment={experiment}", *words))


def typed(*words):
    """What the command line reads of a command and its words."""
    command, rest = find(words)
    return read(command, rest)


def pretrain(*words):
    """Train in this process; returns the run's folder."""
    return run_command("pretrain", composed(*words))


def flip(path):
    """Change a bit in the middle of a file."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


class Crash(Exception):
    """What stops a run in these tests."""


@contextmanager
def crashing(*, at, error=Crash):
    """Have the training in the block crash when a step begins, which it must reach."""
    step = LMModule.training_step

    def stop(module, batch, batch_idx):
        if batch.step == at:
            raise error
        step(module, batch, batch_idx)

    with pytest.MonkeyPatch.context() as patch, pytest.raises(Crash):
        patch.setattr(LMModule, "training_step", stop)
        yield


def fresh(*words, step=0):
    """The study of the smoke experiment, its model before training, and the batch of a step."""
    study = composed(*words)
    sizes = {"row_length": study.row_length, "global_batch": 4, "micro_batch": 4}
    data = LMDataModule(folder=study.data, **sizes)
    model = Decoder(decoder_of(study, vocab_size=data.vocab_size), attention="eager")
    model.init_weights(seed=study.seed)
    loader = RowLoader(order=data.order(), micro_batch=4, global_batch=4, steps=step + 1)
    return study, model, list(loader.batches())[step]


def quiet_trainer(folder: Path, **options):
    """A trainer of Lightning's that prints and writes nothing."""
    silent = ("enable_checkpointing", "enable_progress_bar", "enable_model_summary", "logger")
    plain = dict.fromkeys(silent, False) | {"accelerator": "cpu", "devices": 1}
    return lightning.Trainer(**plain | {"default_root_dir": folder} | options)


def back_to(run: Path, *, step: int):
    """Leave of a finished run what a kill after its checkpoint of a step would have left."""
    shutil.rmtree(run / runs.MODEL)
    for path in (run / runs.CHECKPOINTS).glob("step=*"):
        if int(path.stem.partition("=")[2]) > step:
            path.unlink()


def curve(run: Path):
    """The lines of a run's metrics without what the clock says."""
    return [
        {name: value for name, value in row.items() if name not in TIMES}
        for row in read_numbers(run / runs.METRICS)
    ]


def losses(run: Path):
    return np.array([row["loss"] for row in curve(run)])


def weights(run: Path):
    return load_file(run / runs.MODEL / "model.safetensors")


def same_weights(one: Path, other: Path) -> bool:
    """Whether two trained models are the same bit for bit."""
    a, b = weights(one), weights(other)
    return a.keys() == b.keys() and all(np.array_equal(a[name], b[name]) for name in a)


def notes_of(run: Path):
    """What a trained model says of its training."""
    return json.loads((run / runs.MODEL / "config.json").read_text())["notes"]


def indices_seen(run: Path):
    return notes_of(run)["positions"]
