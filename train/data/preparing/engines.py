"""Where the parts of a data set are made: what `engine=local|slurm|ray` describes.

Descriptions only: what runs the parts (executors.py) is imported when it runs.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from train.data.preparing.work import Watch, Work
from train.errors import DataError


class Engine(Protocol):
    """What makes parts."""

    def run(self, work: Work, *, watch: Watch) -> None:
        """Make all the parts of `work` that are missing; call `watch` now and then."""

    def __str__(self) -> str:
        """Describe it for a reader."""


@dataclass(frozen=True, kw_only=True)
class Local:
    """Processes of this machine.

    workers: how many, one core each; None: as many as there are cores to use. One works in the
    process itself; isolate: in a process of its own all the same, which may be killed.
    """

    workers: int | None = None
    isolate: bool = False

    def __post_init__(self) -> None:
        _require_positive(workers=self.workers)

    def run(self, work: Work, *, watch: Watch) -> None:
        from train.data.preparing.executors import LocalExecutor

        workers = self.workers or _cores()
        LocalExecutor(work, workers=workers, isolate=self.isolate, watch=watch).run()

    def __str__(self) -> str:
        return f"{self.workers or _cores()} processes here"


@dataclass(frozen=True, kw_only=True)
class Slurm:
    """An array job of Slurm, one task per part; this process waits for it, and then merges.

    partition, time, qos: as sbatch takes them. workers: tasks at the same time; None: no limit.
    memory_gb: per task. sbatch: further options of sbatch. env_command: the line of the job that
    makes `launch_pickled_pipeline` and the packages known; by default this Python's folder is put
    on the PATH. srun: start tasks by srun. poll_seconds: between two looks at what is done.
    The folder of the data must be where all nodes see it. Stopping this process stops no job:
    run again, and it goes on with what is missing.
    """

    partition: str
    time: str = "04:00:00"
    workers: int | None = None
    memory_gb: int = 2
    qos: str | None = None
    max_array: int = 1001
    env_command: str | None = None
    sbatch: Mapping[str, Any] = field(default_factory=dict)
    srun: bool = True
    poll_seconds: float = 10.0

    def __post_init__(self) -> None:
        _require_positive(workers=self.workers, memory_gb=self.memory_gb, max_array=self.max_array)

    def run(self, work: Work, *, watch: Watch) -> None:
        from train.data.preparing.executors import run_slurm

        options = {
            "time": self.time,
            "partition": self.partition,
            "mem_per_cpu_gb": self.memory_gb,
            "workers": self.workers or -1,
            "qos": self.qos,
            "env_command": self.env_command,
            "sbatch_args": dict(self.sbatch),
            "max_array_size": self.max_array,
            "with_srun": self.srun,
        }
        run_slurm(work, watch, options, poll_seconds=self.poll_seconds)

    def __str__(self) -> str:
        return f"Slurm, partition {self.partition}"


@dataclass(frozen=True, kw_only=True)
class Ray:
    """Tasks of a Ray cluster: the one at `address`, by default the one that `ray` finds or starts.

    workers: tasks at the same time; None: no limit. memory_gb: per task.
    The folder of the data must be where all nodes see it.
    """

    address: str | None = None
    workers: int | None = None
    memory_gb: float = 2

    def __post_init__(self) -> None:
        _require_positive(workers=self.workers, memory_gb=self.memory_gb)

    def run(self, work: Work, *, watch: Watch) -> None:
        from train.data.preparing.executors import run_ray

        options = {"workers": self.workers or -1, "mem_per_cpu_gb": self.memory_gb}
        run_ray(work, watch, options, address=self.address)

    def __str__(self) -> str:
        return f"Ray at {self.address or 'its default address'}"


def _cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _require_positive(**options: float | None) -> None:
    for name, value in options.items():
        if value is not None and not value > 0:
            raise DataError(f"engine.{name} must be at least 1, was: {value}")
