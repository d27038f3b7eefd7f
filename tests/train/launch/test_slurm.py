"""launch=slurm: the script that is submitted, and jobs on a Slurm that is this machine."""

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests import processes
from tests.train.studies import curve, losses, pretrain, same_weights
from train.disk.files import read_numbers
from train.fit import runs
from train.launch.slurm import Slurm, _wait
from train.launch.sweeps.trials import Trial

ROOT = Path(__file__).parents[3]
PROGRAM = Path(__file__).with_name("standin_slurm.py")
LIMIT_S = 500


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    """The folder of the stand-in's jobs; its programs are on the PATH."""
    programs, jobs = tmp_path / "bin", tmp_path / "jobs"
    programs.mkdir()
    jobs.mkdir()
    for name in ("sbatch", "srun", "squeue", "scontrol", "scancel"):
        (programs / name).write_text(f"#!{sys.executable}\n{PROGRAM.read_text()}")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv(processes.VARIABLE, processes.server())
    monkeypatch.setenv("STANDIN_SLURM", str(jobs))
    with socket.socket() as found:  # Lightning derives the port from the number of the job
        found.bind(("127.0.0.1", 0))
        monkeypatch.setenv("MASTER_PORT", str(found.getsockname()[1]))
    yield jobs
    for path in jobs.glob("*.tasks"):
        for pid in json.loads(path.read_text()):
            os.kill(pid, signal.SIGKILL)


def wait_for(condition, *, logs):
    limit = time.monotonic() + LIMIT_S
    while not condition():
        if time.monotonic() > limit:
            told = [f"{path}:\n{path.read_text()}" for path in sorted(logs.glob("*.out"))]
            pytest.fail("\n".join(told))
        time.sleep(0.05)


def test_the_script_holds_the_options_and_the_words(bipe, tmp_path):
    options = ("nodes=2", "devices=8", "account=ours", "qos=low", "time=1-00:00:00", "memory_gb=32")
    options += ("constraint=a100", "setup=[module load x]")
    words = (*(f"launch.{option}" for option in options), "+launch.sbatch.mail-type=END")
    words += ("launch=slurm", "--dry-run", "rows.global_batch=16", "rows.micro_batch=1")
    status, out, _ = bipe("pretrain", *words, "steps=7", "if_exists=overwrite")
    assert status == 0
    for line in (
        *("nodes=2", "ntasks-per-node=8", "gres=gpu:8", "account=ours", "qos=low", "mem=32768MB"),
        *("time=1-00:00:00", "constraint=a100", "mail-type=END", "signal=USR1@120"),
    ):
        assert f"#SBATCH --{line}\n" in out
    assert "#SBATCH --requeue\n" in out
    _, never, _ = bipe("pretrain", *words, "steps=7", "launch.requeue=0")
    assert "#SBATCH --no-requeue\n" in never and "--requeue\n" not in never
    assert "\nmodule load x\n" in out
    assert " steps=7 if_exists=overwrite launch=local ;;" in out
    assert '-gt 0 ]; then set -- "$@" if_exists=auto; fi' in out
    assert subprocess.run(["bash", "-n"], input=out, text=True).returncode == 0
    assert list((tmp_path / "here").iterdir()) == []


def test_the_script_of_a_sweep_is_an_array_with_a_name_for_each_trial(bipe):
    words = ("-m", "seed=0,1", "optimizer.lr=1e-3,1e-2", "launch=slurm", "launch.parallel=3")
    status, out, _ = bipe("pretrain", *words, "--dry-run")
    assert status == 0
    assert "#SBATCH --array=0-3%3\n" in out
    (line,) = (line for line in out.splitlines() if line.startswith("  3) set -- "))
    words = shlex.split(line.partition(" -- ")[2])
    assert {"seed=1", "++optimizer.lr=1e-2", "launch=local"} <= {*words}
    assert "name='bipe_rope_optimizer.lr=1e-2_seed1'" in words
    assert subprocess.run(["bash", "-n"], input=out, text=True).returncode == 0


def test_without_slurm_nothing_is_begun(refused, bipe, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    told = refused("pretrain", "launch=slurm")
    assert told.startswith("launch=slurm needs sbatch, which is not on the PATH: run it on a login")
    assert told.endswith("--dry-run shows the script")
    told = refused("prepare", "engine=slurm", "data=new")
    assert told.startswith("engine=slurm needs sbatch, which is not on the PATH")
    status, out, _ = bipe("prepare", "corpus=smoke", "engine=slurm", "data=new", "--dry-run")
    assert status == 0 and out.startswith("into new, ")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["launch.time=tomorrow"], "launch.time must be [DAYS-]HOURS:MINUTES:SECONDS"),
        (["launch.time=43200"], 'quotes around HOURS:MINUTES:SECONDS: time: "12:00:00"'),
        (["launch.signal=USR2@60"], "launch.signal must be USR1 or TERM and seconds, such as USR1"),
        (["launch.nodes=0"], "launch.nodes must be above 0, was: 0"),
        (["launch.devices=7"], "launch=slurm: rows.global_batch must be a multiple of rows.micro"),
        (["trainer.devices=2", "--dry-run"], "launch.devices=1; set launch.devices=2 and remove"),
        (["trainer.num_nodes=2", "--dry-run"], "set launch.nodes=2 and remove trainer.num_nodes"),
    ],
)
def test_what_is_wrong_is_refused_before_anything_is_submitted(refused, cluster, words, told):
    assert told in refused("pretrain", "launch=slurm", *words)


def test_other_commands_have_no_jobs(refused):
    assert "remove it" in refused("report", "launch=slurm")
    assert "set engine=slurm" in refused("prepare", "launch=slurm", "data=new")
    assert "dry_run is for bipe prepare and launch=slurm" in refused("pretrain", "--dry-run")


@pytest.mark.slow
def test_two_nodes_that_are_stopped_train_the_undisturbed_run(bipe, cluster, data, tmp_path):
    words = ("steps=40", "checkpoint_every=5", "rows.global_batch=4", "rows.micro_batch=2")
    alone = pretrain(f"data={data}", f"out={tmp_path / 'alone'}", "encoding=bipe_rope", *words)
    job = ("launch=slurm", "launch.nodes=2", "launch.gres=none", "launch.logs=logs")
    status, out, _ = bipe("pretrain", *words, *job, "if_exists=overwrite")
    assert status == 0
    assert out.startswith("job 100 of Slurm, logs in logs\n")
    assert "scancel 100" in out
    run, logs = tmp_path / "bipe_rope", tmp_path / "here" / "logs"

    def steps():
        return len(read_numbers(run / runs.METRICS)) if (run / runs.METRICS).exists() else 0

    wait_for(lambda: steps() >= 6, logs=logs)
    subprocess.run(["scancel", "--signal", "USR1", "100"], check=True)  # before the time limit
    wait_for(lambda: (cluster / "100.state").read_text() == "DONE", logs=logs)
    assert [(cluster / f"100.status{number}").read_text() for number in (0, 1)] == ["138", "0"]
    assert (logs / "100_0.status").read_text() == "0\n"
    made = {path.name for path in tmp_path.iterdir()}
    assert made == {"alone", "bin", "bipe_rope", "here", "jobs"}
    assert [row["step"] for row in curve(run)] == list(range(1, 41))
    assert losses(run) == pytest.approx(losses(alone), abs=1e-5)


@pytest.mark.parametrize(
    ("status", "state", "restarts", "again"),
    [
        (138, "COMPLETING", 0, True),  # before the time limit
        (143, "RUNNING", 99, True),  # preempted
        (143, "CANCELLED", 0, False),  # by scancel
        (137, "RUNNING", 0, False),
        (0, "RUNNING", 0, False),
        (138, "RUNNING", 100, False),  # launch.requeue times already
    ],
)
def test_a_job_is_queued_again_after_a_checkpoint_unless_it_was_cancelled(
    status, state, restarts, again, tmp_path
):
    for name, line in {"squeue": f"echo {state}", "scontrol": f"touch {tmp_path}/again"}.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{line}\n")
        (tmp_path / name).chmod(0o755)
    lines = [f"(exit {status})", *Slurm(logs=str(tmp_path))._end()]
    environ = {"SLURM_JOB_ID": "7", "SLURM_RESTART_COUNT": str(restarts)}
    environ["PATH"] = f"{tmp_path}:{os.environ['PATH']}"
    assert subprocess.run(["bash", "-c", "\n".join(lines)], env=environ).returncode == status
    assert (tmp_path / "again").exists() == again
    noted = tmp_path / "7_0.status"
    assert not noted.exists() if again else noted.read_text() == f"{status}\n"


def test_who_waits_gets_the_status_of_the_first_task_that_failed(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("train.data.preparing.engines.queued", lambda job: False)
    trials = [Trial(words=(), changes={}, composed=SimpleNamespace(out="runs"), name=name)
              for name in "abc"]  # fmt: skip
    (tmp_path / "5_0.status").write_text("0\n")
    (tmp_path / "5_1.status").write_text("2\n")
    assert _wait(Slurm(logs=str(tmp_path), poll_seconds=0.001), "5", trials) == 2
    told = capsys.readouterr().err.splitlines()
    assert [line.partition(";")[0] for line in told] == [
        "bipe: runs/b: exit status 2", "bipe: runs/c: was lost or cancelled",
    ]  # fmt: skip


@pytest.mark.slow
def test_processes_of_torchrun_and_of_srun_train_the_same_run(cluster, data, tmp_path):
    python = [sys.executable]
    torchrun = [*python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    job = {"STANDIN_JOB": "7", "SLURM_JOB_ID": "7", "SLURM_NTASKS": "2",
           "SLURM_NTASKS_PER_NODE": "2"}  # fmt: skip
    starts = {
        "torchrun": (torchrun, {}),
        "srun": (["srun", "--output", str(tmp_path / "%t.out"), *python], job),
    }
    for name, (start, environ) in starts.items():
        words = ("experiment=smoke", "rows.micro_batch=2", f"data={data}", f"out={tmp_path}")
        command = [*start, "-m", "train.cli", "pretrain", *words, f"name={name}"]
        done = processes.run(command, env=os.environ | environ, capture_output=True, text=True)
        told = done.stderr + "".join(path.read_text() for path in tmp_path.glob("*.out"))
        assert done.returncode == 0, told
        assert told.count(f"{name}  step 6/6  loss") == 1
        assert "GLOBAL_RANK" not in told
        assert told.count("attention path: causal") == 1
    assert curve(tmp_path / "torchrun") == curve(tmp_path / "srun")
    assert same_weights(tmp_path / "torchrun", tmp_path / "srun")
