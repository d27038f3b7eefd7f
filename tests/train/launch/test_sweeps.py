"""Sweeps: nothing starts before all is checked; what fails is named, whoever runs the trials."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.train.studies import curve

ROOT = Path(__file__).parents[3]
LAUNCHERS = {
    "basic": (),
    "basic, two ranks": (
        *("trainer=ddp", "trainer.devices=2", "trainer.accelerator=cpu", "rows.micro_batch=2"),
        "trainer.precision=32-true",
    ),
    "joblib": ("hydra/launcher=joblib", "hydra.launcher.n_jobs=2"),
    "submitit_local": ("hydra/launcher=submitit_local", "hydra.launcher.timeout_min=5"),
}


@pytest.fixture
def folders(tmp_path):
    def found():
        hidden = (".submitit", "here")
        return {path.name for path in tmp_path.iterdir() if path.name not in hidden}

    return found


def test_a_sweep_makes_a_run_of_each_combination(bipe, folders):
    swept = ("-m", "encoding=rope,alibi", "seed=0,1", "optimizer.lr=1e-3,1e-2", "steps=1")
    assert bipe("pretrain", *swept)[0] == 0
    expected = {
        f"{e}_lr{r}_seed{s}" for e in ("rope", "alibi") for r in (0.001, 0.01) for s in "01"
    }
    assert folders() == expected


def test_a_sweep_is_checked_whole_before_its_first_run(bipe, folders):
    for swept, told in (
        ("optimizer.lr=1e-3,-1", "optimizer.lr=-1: optimizer.lr must be above 0, was: -1"),
        ("steps=1,x", "bipe: steps=x: 2 faults:"),
        ("row_length=64,10000000", "row_length=10000000: row_length must be at most"),
        ("seed=1,1", "would be the run of 2 trials"),
    ):
        status, _, err = bipe("pretrain", "-m", swept)
        assert (status, folders()) == (2, set())
        assert told in err


def test_a_folder_that_is_taken_ends_a_sweep_before_it_starts(bipe, folders):
    assert bipe("pretrain", "-m", "seed=1,2", "steps=1")[0] == 0
    status, _, err = bipe("pretrain", "-m", "seed=0,1", "steps=1", "if_exists=refuse")
    assert status == 2
    assert "seed=1: " in err and "bipe_rope_seed1 holds a run already" in err
    status, _, err = bipe("pretrain", "-m", "seed=0,1", "steps=2")
    assert status == 2
    assert "seed=1: " in err and "steps was 1, is 2" in err
    assert folders() == {"bipe_rope_seed1", "bipe_rope_seed2"}


def test_a_sweep_goes_on_where_it_was(bipe, folders, tmp_path):
    assert bipe("pretrain", "-m", "seed=0,1", "steps=2")[0] == 0
    before = curve(tmp_path / "bipe_rope_seed0")
    assert bipe("pretrain", "-m", "seed=0,1,2", "steps=2")[0] == 0
    assert folders() == {f"bipe_rope_seed{seed}" for seed in range(3)}
    assert curve(tmp_path / "bipe_rope_seed0") == before


def start(*words, data, out, **environ):
    """Run a sweep as a user starts it; its exit status and what it said."""
    environ = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)} | environ
    study = ("experiment=smoke", f"data={data}", f"out={out}")
    command = [sys.executable, "-m", "train.cli", "pretrain", "-m", *study, *words]
    done = subprocess.run(
        command, capture_output=True, text=True, env=environ, cwd=out, timeout=280
    )
    return done.returncode, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_a_trial_that_fails_is_named_and_the_others_are_trained(launcher, data, tmp_path):
    """Its loss diverges, which is not known before it runs."""
    swept = ("optimizer.lr=1e30,1e-3", "steps=3", "patience=1", "clip=null")
    status, err = start(*LAUNCHERS[launcher], *swept, data=data, out=tmp_path)
    assert status == 2, err
    assert "bipe: optimizer.lr=1e+30: " in err
    assert "loss or gradient was not finite for 1 steps" in err
    assert "bipe: 1 of 2 trials failed" in err
    assert "Traceback" not in err
    assert (tmp_path / "bipe_rope_lr0.001" / "model").exists()
    assert not (tmp_path / "bipe_rope_lr1e+30" / "model").exists()


@pytest.mark.slow
@pytest.mark.parametrize("launcher", ["joblib", "submitit_local"])
def test_a_trial_whose_process_is_killed_fails_the_sweep(launcher, data, tmp_path):
    """As the out-of-memory killer does it. A test optimizer kills every process but the first."""
    killed = ("optimizer._target_=tests.train.launch.killed.AdamW", "allowed_targets=[tests.]")
    words = (*LAUNCHERS[launcher], *killed, "seed=0,1", "steps=1")
    status, err = start(*words, data=data, out=tmp_path, TYPED_BY=str(os.getpid()))
    assert status == 1, err
    assert "bipe: seed=1: " in err
