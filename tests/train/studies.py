"""Small studies for the tests: the smoke experiment, composed and run in this process."""

import functools
import json
import shutil
from pathlib import Path

import numpy as np
from hydra import compose, initialize_config_module
from hydra.core.global_hydra import GlobalHydra
from safetensors.numpy import load_file

from train.fit import runs
from train.fit.watching.metrics import read_metrics
from train.launch.composition import opened, register_resolvers, resolved, run_command

TIMES = ("tokens_per_second", "mfu", "peak_memory_gib", "seconds")


@functools.cache
def composed(*words):
    """The smoke experiment with overrides, as `bipe` would compose it."""
    GlobalHydra.instance().clear()
    register_resolvers()
    with initialize_config_module("conf", version_base="1.3"):
        config = compose("config", overrides=["experiment=smoke", *map(opened, words)])
    return resolved("pretrain", config)


def pretrain(*words):
    """Train in this process; returns the run's folder."""
    return run_command("pretrain", composed(*words))


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
        for row in read_metrics(run / runs.METRICS)
    ]


def losses(run: Path):
    return np.array([row["loss"] for row in curve(run)])


def weights(run: Path):
    return load_file(run / runs.MODEL / "model.safetensors")


def same_weights(one: Path, other: Path) -> bool:
    """Whether two trained models are the same bit for bit."""
    a, b = weights(one), weights(other)
    return a.keys() == b.keys() and all(np.array_equal(a[name], b[name]) for name in a)


def indices_seen(run: Path):
    """What the notes of a trained model tell of the indices in training."""
    return json.loads((run / runs.MODEL / "config.json").read_text())["notes"]["positions"]
