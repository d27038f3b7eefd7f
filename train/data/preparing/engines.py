"""Where the parts of a data set are made: local processes, or datatrove's Slurm and Ray.

datatrove's own local executor hangs when a worker dies (its pool is multiprocess.Pool); here a new
pool runs the missing parts, and workers end with the process that started them. Remote workers
return only files. `parts`, which is slow to import, is imported where it runs.
"""

import json
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Annotated, Any

from bipe.arguments import Count, Rule
from segmenters.wording import counted
from train import stop
from train.data.preparing.work import Work
from train.data.tokenizing.tokenizers import THREADS, one_thread
from train.errors import DataError, require_package
from train.ranks import cores

_LOSSES = 3  # pools that may break in a row without a finished part
_LOOKS = 3  # checks in a row that must find no job in the queue: one may fail
_SECONDS_BETWEEN_LOOKS = 0.25
_PLAIN_PATH = re.compile(r"[\w./+=@%:,-]+")

Watch = Callable[[], None]
_work: Work | None = None  # of a worker process


@dataclass(frozen=True, kw_only=True)
class Local:
    """Processes on this machine.

    workers: one core each; None: all cores. A single worker runs in this process, or with
    isolate in one of its own, which may be killed.
    """

    workers: Count | None = None
    isolate: bool = False

    def __str__(self) -> str:
        return f"{counted(self._count(), 'process')} here"

    def run(self, work: Work, *, watch: Watch) -> None:
        todo = work.missing()
        if self.isolate or (self._count() > 1 and len(todo) > 1):
            self._run_pools(work, todo, watch)
            return
        before = os.environ.get(THREADS)
        try:
            if self._count() == 1:  # one worker means one core
                one_thread()
            for rank in todo:
                _make(work, rank)
                watch()
        finally:
            os.environ.pop(THREADS, None)
            if before is not None:
                os.environ[THREADS] = before

    def _count(self) -> int:
        return self.workers or cores()

    def _run_pools(self, work: Work, todo: list[int], watch: Watch) -> None:
        losses = 0
        while todo:
            try:
                self._run_pool(work, todo, watch)
            except BrokenProcessPool:
                stop.check()  # workers that had just begun got the signal as well
                lost = ", ".join(str(work.tasks[rank]) for rank in work.reports())
                script = "a script calls train.prepare outside of `if __name__ == '__main__':`, or "
                work.clear_reports()
                losses = losses + 1 if len(work.missing()) == len(todo) else 0
                if losses == _LOSSES:
                    raise DataError(
                        f"workers were killed {losses} times in a row while processing "
                        f"{lost or 'unknown'}, perhaps because {'' if lost else script}memory ran "
                        "out. Finished parts are kept: run again with "
                        f"fewer engine.workers, or look for a huge document there ({work.folder})"
                    ) from None
            todo = work.missing()

    def _run_pool(self, work: Work, todo: list[int], watch: Watch) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["train.data.preparing.parts", __name__, *_slow(work)])
        pipe, lifeline = context.Pipe(duplex=False)
        pool = ProcessPoolExecutor(
            min(self._count(), len(todo)), context, initializer=_begin, initargs=(work, pipe)
        )
        # The largest first, so that there is the least to wait for at the end.
        ranks = sorted(todo, key=lambda rank: -(work.tasks[rank].part.size or 0))
        try:
            left = {pool.submit(_run, rank) for rank in ranks}
            while left:
                done, left = wait(left, _SECONDS_BETWEEN_LOOKS, return_when=FIRST_COMPLETED)
                for future in done:
                    future.result()
                watch()
            pool.shutdown()
        except BaseException:
            lifeline.close()  # ends the workers
            pool.shutdown(wait=False, cancel_futures=True)
            raise
        finally:
            lifeline.close()
            pipe.close()


@dataclass(frozen=True, kw_only=True)
class Slurm:
    """An array job of Slurm, one task per part; this process waits for it, then merges.

    partition, time, qos, account: as for sbatch. workers: tasks at the same time; None: no limit.
    memory_gb: per task. sbatch: its further options. poll_seconds: between two checks. All nodes
    must see the folder of the data. Stopping this process stops no job: run again to continue.
    """

    partition: str
    time: str = "04:00:00"
    workers: Count | None = None
    memory_gb: Count = 2
    qos: str | None = None
    account: str | None = None
    sbatch: Mapping[str, Any] = field(default_factory=dict)
    poll_seconds: float = 10.0

    def __post_init__(self) -> None:
        options = {"partition": self.partition, "time": self.time, "qos": self.qos, **self.sbatch}
        for name, value in options.items():
            if not f"{name}{value}".isprintable():  # a line of its own in the job script
                raise DataError(f"engine.{name} must be one line, was: {value!r}")

    def __str__(self) -> str:
        return f"Slurm, partition {self.partition}"

    def run(self, work: Work, *, watch: Watch) -> None:
        from datatrove.executor.slurm import SlurmPipelineExecutor

        class Executor(SlurmPipelineExecutor):
            def launch_merge_stats(self) -> None:
                """Do nothing: the parts hold the counts."""

        todo, steps = _todo(work)
        logs = steps["logging_dir"]
        if not _PLAIN_PATH.fullmatch(logs):
            raise DataError(
                "engine=slurm: data must be a path without spaces and shell metacharacters, since "
                f"job scripts do not quote it, was: {logs}"
            )
        account = {} if self.account is None else {"account": self.account}
        options: dict[str, Any] = {"partition": self.partition, "time": self.time, "qos": self.qos}
        options |= {"mem_per_cpu_gb": self.memory_gb, "workers": self.workers or -1}
        executor = Executor(
            **steps | options,
            job_name="bipe-prepare",
            # Nodes must find launch_pickled_pipeline.
            env_command=f'export PATH="{Path(sys.executable).parent}:$PATH"',
            sbatch_args=account | dict(self.sbatch),
        )
        try:
            executor.run()
        except (OSError, subprocess.CalledProcessError) as fault:
            raise DataError(f"engine=slurm: the job could not be submitted: {fault}") from None
        job = str(executor.job_id)
        with stop.kept(
            lambda: f"job {job} is still running (scancel {job} ends it); {stop.AGAIN} after it"
        ):
            for is_gone in looks(job, seconds=self.poll_seconds):
                if not todo.missing():
                    return
                watch()
                if is_gone:
                    _require_all(todo, logs=logs)


@dataclass(frozen=True, kw_only=True)
class Ray:
    """Tasks of the Ray cluster at `address`, by default the one that `ray` finds or starts.

    workers: tasks at the same time; None: no limit. memory_gb: per task. All nodes must see the
    folder of the data.
    """

    address: str | None = None
    workers: Count | None = None
    memory_gb: Annotated[float, Rule("above 0", lambda value: value > 0)] = 2

    def __str__(self) -> str:
        return f"Ray at {self.address or 'its default address'}"

    def run(self, work: Work, *, watch: Watch) -> None:
        require_package("ray", extra="ray", needed_by="engine=ray")
        import ray
        from datatrove.executor.ray import RayPipelineExecutor

        todo, steps = _todo(work)
        if not ray.is_initialized():
            ray.init(address=self.address, log_to_driver=False)
        executor = RayPipelineExecutor(
            **steps, workers=self.workers or -1, mem_per_cpu_gb=self.memory_gb
        )
        running: Future[None] = Future()
        # Python waits for the threads of its pools, even if it is asked to stop.
        threading.Thread(target=_settle, args=(running, executor.run), daemon=True).start()
        while not running.done():
            wait([running], timeout=_SECONDS_BETWEEN_LOOKS)
            watch()
        running.result()
        _require_all(todo, logs=steps["logging_dir"])


# Each runs the missing parts of a work, and calls `watch` from time to time.
Engine = Local | Slurm | Ray


def _run_elsewhere(work: Work, data: Any, rank: int, world_size: int) -> None:  # as steps are run
    one_thread()
    _make(work, rank)


def _make(work: Work, rank: int) -> None:
    from train.data.preparing.parts import make_part

    make_part(work, rank)


def _todo(work: Work) -> tuple[Work, dict[str, Any]]:
    todo = work.subset(work.missing())
    # A new folder for each run: datatrove skips what its folder lists as done.
    moment = f"{time.strftime('%Y-%m-%d_%H-%M-%S')}.{time.time_ns() % 10**9:09d}"
    logs = str(work.folder / "logs" / moment)
    pipeline = [partial(_run_elsewhere, todo)]
    return todo, {"pipeline": pipeline, "tasks": len(todo.tasks), "logging_dir": logs}


def _require_all(work: Work, *, logs: str) -> None:
    if missing := work.missing():
        first = "".join(f"; the first error: {fault}" for fault in work.faults()[:1])
        message = f"{len(missing)} of {counted(len(work.tasks), 'part')} failed{first}"
        cure = "run again to continue with the missing parts"
        raise DataError(f"{message}. Their logs are in {logs}; {cure}")


def looks(job: str, *, seconds: float) -> Iterator[bool]:
    """Look after a job every few seconds; yield whether it has left the queue."""
    gone = 0
    while True:
        gone = 0 if queued(job) else gone + 1
        yield gone >= _LOOKS
        time.sleep(seconds)


def queued(job: str) -> bool:
    """Return whether a job waits or runs; True if squeue cannot be asked."""
    command = ["squeue", "--noheader", "--jobs", job]
    try:
        process = subprocess.run(command, capture_output=True, text=True, timeout=60)
    except (FileNotFoundError, subprocess.TimeoutExpired):
        return True
    return process.returncode == 0 and bool(process.stdout.strip())


def _settle(future: Future[None], run: Callable[[], object]) -> None:
    try:
        run()
    except BaseException as fault:
        future.set_exception(fault)
    else:
        future.set_result(None)


def _begin(work: Work, held: Connection) -> None:
    global _work
    _work = work
    one_thread()
    for each in stop.SIGNALS:  # the process that started it handles them
        signal.signal(each, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(held,), daemon=True).start()


def _slow(work: Work) -> list[str]:
    chosen = json.dumps([source.segmenter.fingerprint() for source in work.sources.values()])
    return ["segmenters.prose.spacy_pipeline"] if '"backend": "spacy"' in chosen else []


def _run(rank: int) -> None:
    assert _work is not None
    _make(_work, rank)


def _end_with(held: Connection) -> None:
    """End this process when the other end of a pipe closes, even by a kill."""
    try:
        held.recv()
    except (EOFError, OSError):
        os._exit(1)
