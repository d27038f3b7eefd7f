"""What torchrun and Slurm say in the environment, and what it makes of the trainer's section."""

import pytest

from train.errors import ConfigError
from train.fit.machine import placed
from train.ranks import World, rank, world

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
