"""Parts made elsewhere: datatrove's executors for Slurm and Ray, and waiting for what they make.

Nothing comes back but files: a part that is done stands in its folder, a fault beside it.
"""

from __future__ import annotations

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

from datatrove.executor.ray import RayPipelineExecutor
from datatrove.executor.slurm import SlurmPipelineExecutor
from datatrove.utils.stats import PipelineStats

from train.data.preparing.engine.engines import Ray, Slurm
from train.data.preparing.engine.steps import pipeline
from train.data.preparing.engine.work import Watch, Work
from train.data.tokenizing.tokenizers import one_thread
from train.errors import DataError

_LOOKS = 3  # at which a job must be gone from the queue: one look may fail
_SECONDS_BETWEEN_LOOKS = 0.5


class SlurmExecutor(SlurmPipelineExecutor):
    """datatrove's, with one thread a task and without the job that merges its own statistics."""

    def _run_for_rank(self, rank: int, local_rank: int = 0, node_rank: int = -1) -> PipelineStats:
        one_thread()
        return super()._run_for_rank(rank, local_rank, node_rank)

    def launch_merge_stats(self) -> None:
        """What was counted is in the parts."""


class RayExecutor(RayPipelineExecutor):
    """datatrove's, with one thread a task."""

    def _run_for_rank(self, rank: int, local_rank: int = 0, node_rank: int = -1) -> PipelineStats:
        one_thread()
        return super()._run_for_rank(rank, local_rank, node_rank)


def slurm_executor(engine: Slurm, work: Work) -> SlurmExecutor:
    """The executor for all the parts of `work`."""
    python = Path(sys.executable).parent
    return SlurmExecutor(
        pipeline(work),
        tasks=len(work.tasks),
        time=engine.time,
        partition=engine.partition,
        mem_per_cpu_gb=engine.memory_gb,
        workers=engine.workers or -1,
        job_name="bipe-prepare",
        qos=engine.qos,
        env_command=engine.env_command or f'export PATH="{python}:$PATH"',
        sbatch_args=dict(engine.sbatch),
        max_array_size=engine.max_array,
        with_srun=engine.srun,
        logging_dir=_logs(work),
    )


def run_slurm(engine: Slurm, work: Work, watch: Watch) -> None:
    """Submit the parts that are missing, and wait for them."""
    todo = work.subset(work.missing())
    executor = slurm_executor(engine, todo)
    try:
        executor.run()
    except (OSError, subprocess.CalledProcessError) as fault:
        raise DataError(f"engine=slurm: the job could not be submitted: {fault}") from None
    gone = 0
    while todo.missing():
        watch()
        gone = 0 if _queued(str(executor.job_id)) else gone + 1
        if gone >= _LOOKS and todo.missing():
            _require_all(todo, executor.logging_dir.path)
        time.sleep(engine.poll_seconds)


def run_ray(engine: Ray, work: Work, watch: Watch) -> None:
    """Run the parts that are missing on a Ray cluster."""
    try:
        import ray
    except ImportError as fault:
        raise DataError("engine=ray needs Ray; run: pip install 'bipe[ray]'") from fault

    todo = work.subset(work.missing())
    if not ray.is_initialized():
        ray.init(address=engine.address, log_to_driver=False)
    executor = RayExecutor(
        pipeline(todo),
        tasks=len(todo.tasks),
        workers=engine.workers or -1,
        mem_per_cpu_gb=engine.memory_gb,
        logging_dir=_logs(work),
    )
    with ThreadPoolExecutor(1) as thread:
        running = thread.submit(executor.run)
        while not running.done():
            wait([running], timeout=_SECONDS_BETWEEN_LOOKS)
            watch()
        running.result()
    _require_all(todo, executor.logging_dir.path)


def _require_all(work: Work, logs: Any) -> None:
    missing = work.missing()
    if not missing:
        return
    faults = work.faults()
    raise DataError(
        f"{len(missing)} of {len(work.tasks)} parts were not made"
        + (f"; the first fault: {faults[0]}" if faults else "")
        + f". Their logs are in {logs}; run again to go on with what is missing"
    )


def _queued(job: str) -> bool:
    """Whether a job waits or runs; so it is taken where there is no squeue to ask."""
    try:
        told = subprocess.run(
            ["squeue", "--noheader", "--jobs", job], capture_output=True, text=True, timeout=60
        )
    except FileNotFoundError:
        return True
    except subprocess.TimeoutExpired:
        return True
    return told.returncode == 0 and bool(told.stdout.strip())


def _logs(work: Work) -> str:
    """A folder that no run before had: what it says is done would not be done again."""
    moment = f"{time.strftime('%Y-%m-%d_%H-%M-%S')}.{time.time_ns() % 10**9:09d}"
    return str(work.folder / "logs" / moment)
