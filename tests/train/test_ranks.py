"""What torchrun and Slurm say in the environment, and the ranks that a command starts itself."""

import re
import signal
import sys
import time

import pytest

from tests.processes import PIPE, Popen
from train.errors import ConfigError
from train.fit.machine import placed
from train.ranks import World, rank, to_start, world

TORCHRUN = {"TORCHELASTIC_RUN_ID": "x", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2", "RANK": "3"}
SRUN = {"SLURM_NTASKS": "6", "SLURM_NNODES": "3", "SLURM_PROCID": "5", "SLURM_JOB_NAME": "x"}
PAIR = World(size=4, local=2, by="torchrun")


def test_torchrun_and_srun_say_how_many_processes_each_node_has():
    assert world(TORCHRUN) == PAIR
    assert PAIR.nodes == 2
    assert world(SRUN) == World(size=6, local=2, by="srun")
    assert (rank(TORCHRUN), rank(SRUN), rank({"LOCAL_RANK": "1"}), rank({})) == (3, 5, 1, 0)
    assert rank(SRUN | {"SLURM_JOB_NAME": "bash"}) == 0  # a shell inside a job


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"WORLD_SIZE": "2", "LOCAL_RANK": "1"},  # started by the run itself
        TORCHRUN | {"WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "1"},
        SRUN | {"SLURM_NTASKS": "1"},
        SRUN | {"SLURM_JOB_NAME": "interactive"},
    ],
)
def test_a_process_that_is_alone_starts_its_own(environ):
    assert world(environ) is None


def test_a_job_script_that_forgets_srun_is_refused():
    with pytest.raises(ConfigError, match="6 tasks, but its script starts one process"):
        world(SRUN | {"ENVIRONMENT": "BATCH"})
    assert world(SRUN | {"ENVIRONMENT": "BATCH", "SLURM_STEP_ID": "0"}) is not None


@pytest.mark.parametrize(
    "environ", [SRUN | {"SLURM_NTASKS": "5"}, TORCHRUN | {"LOCAL_WORLD_SIZE": "3"}]
)
def test_nodes_must_have_equally_many_processes(environ):
    with pytest.raises(ConfigError, match="the same number of processes on each node"):
        world(environ)


def test_the_processes_that_were_started_decide_the_devices_and_others_are_refused():
    for devices in (1, -1, "auto", 2):
        made = placed({"devices": devices, "precision": "32-true"}, PAIR)
        assert made == {"devices": 2, "num_nodes": 2, "precision": "32-true"}
    for key in ("devices", "num_nodes"):
        with pytest.raises(ConfigError, match=f"trainer.{key} must be 2, since torchrun started 4"):
            placed({"devices": 2, "num_nodes": 2, key: 3}, PAIR)


def test_a_command_starts_as_many_ranks_as_devices_and_names_what_only_others_can_start():
    assert [to_start({"devices": devices}) for devices in (1, "1", 2, "8")] == [0, 0, 2, 8]
    assert to_start({"devices": -1, "accelerator": "cpu"}) == 0  # refused later
    with pytest.raises(ConfigError, match=r"num_nodes=2 needs .* srun, .* torchrun --nnodes 2"):
        to_start({"devices": 8, "num_nodes": 2})
    with pytest.raises(ConfigError, match=r"must be a number .*, was: \[0, 1\]; CUDA_VISIBLE"):
        to_start({"devices": [0, 1]})


RANKS = """
import os, signal, sys, time
from train import ranks, stop
from train.errors import ConfigError

def work(doing):
    number = ranks.rank()
    if doing == "leave":
        return f"of rank {number}"
    if number == 1 and doing == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if number == 1 and doing == "be refused":
        raise ConfigError("there is no room")
    if number == 1 and doing == "fail":
        raise RuntimeError("broken")
    if number == 0:
        print("met", flush=True)
    while not stop.requested():
        time.sleep(0.05)
    stop.check("all is kept" if number == 0 else None)

with stop.stopping():
    try:
        print(ranks.start_ranks(work, sys.argv[1], count=2))
    except BaseException as fault:
        print(type(fault).__name__, getattr(fault, "status", None), fault)
"""


def ranks_that(doing, *, sent=None):
    """What is printed of two ranks, and their errors. sent: a signal for the one that starts."""
    words = [sys.executable, "-c", RANKS, doing]
    with Popen(words, stdout=PIPE, stderr=PIPE, text=True) as process:
        if sent is not None:
            assert process.stdout.readline() == "met\n"
            time.sleep(2)  # until the agent watches them
            process.send_signal(sent)
        out, err = process.communicate(timeout=200)
    return out.splitlines()[-1], err


def test_what_rank_0_returns_is_returned():
    assert ranks_that("leave") == ("of rank 0", "")


@pytest.mark.parametrize(
    ("doing", "told"),
    [
        ("die", r"RankEnded 75 rank 1 \(pid \d+\) was killed by SIGKILL; .*Run the same command"),
        ("be refused", r"RankEnded 2 rank 1 \(pid \d+\): there is no room"),
    ],
)
def test_a_rank_that_ends_too_early_is_named_with_its_reason_and_ends_the_others(doing, told):
    out, err = ranks_that(doing)
    assert re.match(told, out) and "Traceback" not in err, (out, err)


def test_a_bug_in_a_rank_is_shown_with_its_traceback():
    out, err = ranks_that("fail")
    assert out == "RuntimeError: broken" and "Traceback" not in err


def test_a_signal_is_passed_on_and_one_rank_says_what_is_kept():
    out, err = ranks_that("wait", sent=signal.SIGTERM)
    assert out == "Stopped 143 stopped by SIGTERM"
    assert err == "bipe: stopped by SIGTERM: all is kept\n"
