"""The processes that torchrun or srun started for one run, read from their environment.

    torchrun --nproc-per-node 2 -m train.cli pretrain ...
    srun --ntasks 2 bipe pretrain ...

Both are the run that `trainer=ddp trainer.devices=2` starts by itself. Imports nothing heavy: the
command line asks before it prints.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from train.errors import ConfigError

_INTERACTIVE = ("bash", "interactive")  # names of Slurm's jobs in which a user types commands


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """Processes that were started together. local: those of each node. by: what started them."""

    size: int
    local: int
    by: str

    @property
    def nodes(self) -> int:
        return self.size // self.local


def world(environ: Mapping[str, str] = os.environ) -> World | None:
    """Return the processes started together with this one; None if it is alone, or starts them.

    Raises ConfigError for a job script of several tasks that forgets srun, and for nodes with
    unequal numbers of processes.
    """
    if "TORCHELASTIC_RUN_ID" in environ:
        by, size = "torchrun", int(environ.get("WORLD_SIZE", "1"))
        local = int(environ.get("LOCAL_WORLD_SIZE", size))
    elif in_slurm(environ):
        by, size = "srun", int(environ["SLURM_NTASKS"])
        nodes = int(environ.get("SLURM_STEP_NUM_NODES") or environ.get("SLURM_NNODES") or 1)
        local = size // nodes if size % nodes == 0 else 0
    else:
        return None
    if size < 2:
        return None
    if by == "srun" and environ.get("ENVIRONMENT") == "BATCH" and "SLURM_STEP_ID" not in environ:
        raise ConfigError(
            f"the job has {size} tasks, but its script starts one process; use: srun bipe ..."
        )
    if not local or size % local:
        raise ConfigError(
            f"{by} must start the same number of processes on each node, was: {size} on "
            f"{environ.get('SLURM_NNODES', 'several')} nodes"
        )
    return World(size=size, local=local, by=by)


def in_slurm(environ: Mapping[str, str] = os.environ) -> bool:
    """Return whether this process is a task of a Slurm job, and not of a shell inside one."""
    return "SLURM_NTASKS" in environ and environ.get("SLURM_JOB_NAME") not in _INTERACTIVE


def several(trainer: Mapping[str, Any]) -> bool:
    devices = trainer.get("devices", 1)
    if devices in (-1, "-1", "auto"):
        import torch

        return torch.accelerator.device_count() > 1 and trainer.get("accelerator") != "cpu"
    return str(devices) != "1" or trainer.get("num_nodes", 1) != 1


def rank(environ: Mapping[str, str] = os.environ) -> int:
    """Return the number of this process among all of its run; 0 if it is alone."""
    for name in ("RANK", "LOCAL_RANK", "SLURM_PROCID"):
        if environ.get(name, "").isdecimal() and (name != "SLURM_PROCID" or in_slurm(environ)):
            return int(environ[name])
    return 0
