"""What makes the parts: processes on this machine, or datatrove's executors for Slurm and Ray.

datatrove's own local executor waits for ever when a worker dies (its pool is multiprocess.Pool).
Here the pool is made anew and runs the parts that are missing; workers end with the process that
started them, whatever ends it. From elsewhere nothing comes back but files: a part that is done is
in its folder, a fault beside it.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from concurrent.futures import (
    FIRST_COMPLETED,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
    wait,
)
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from importlib.util import find_spec
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from datatrove.executor.local import LocalPipelineExecutor
from datatrove.executor.ray import RayPipelineExecutor
from datatrove.executor.slurm import SlurmPipelineExecutor

from train.data.preparing.parts import pipeline
from train.data.preparing.work import Watch, Work
from train.data.tokenizing.tokenizers import one_thread
from train.errors import DataError

_LOSSES = 3  # pools that may break one after the other without a part done
_LOOKS = 3  # at which a job must be gone from the queue: one look may fail
_SECONDS_BETWEEN_LOOKS = 0.25
_THREADS = "TOKENIZERS_PARALLELISM"
_BACKEND = re.compile(r'"backend": "(\w+)"')

_executor: LocalExecutor | None = None  # of a worker process


class LocalExecutor(LocalPipelineExecutor):
    """Runs the tasks of a datatrove pipeline that are missing.

    watch: is called now and then, with nothing. isolate: use a process even for one worker.
    """

    def __init__(self, work: Work, *, workers: int, isolate: bool, watch: Watch) -> None:
        super().__init__(
            pipeline(work),
            tasks=len(work.tasks),
            workers=workers,
            logging_dir=str(work.folder / "logs"),
        )
        self.work, self.isolate, self.watch = work, isolate, watch

    def run(self) -> None:
        todo = self.work.missing()
        if self.isolate or (self.workers > 1 and len(todo) > 1):
            self._run_pools(todo)
            return
        with _threads(one=self.workers == 1):
            for rank in todo:
                self._run_for_rank(rank)
                self.watch()

    def _run_for_rank(self, rank: int, local_rank: int = 0, node_rank: int = -1) -> None:
        # Without the log of each task: the console belongs to the progress, faults are raised.
        data: Any = None
        for step in self.pipeline:
            data = step(data, rank, self.world_size)
        deque(data or (), maxlen=0)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "watch": None}  # for the process that started the others

    def _run_pools(self, todo: list[int]) -> None:
        losses = 0
        while todo:
            try:
                self._run_pool(todo)
            except BrokenProcessPool:
                lost = ", ".join(sorted(self.work.reports())) or "unknown"
                self.work.clear_reports()
                losses = losses + 1 if len(self.work.missing()) == len(todo) else 0
                if losses == _LOSSES:
                    raise DataError(
                        f"workers were killed {losses} times in a row while at work on {lost}, "
                        "perhaps for their memory. What is done is kept: run again with fewer "
                        f"engine.workers, or look for a huge document there ({self.work.folder})"
                    ) from None
            todo = self.work.missing()

    def _run_pool(self, todo: list[int]) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([__name__])
        held, lifeline = context.Pipe(duplex=False)
        pool = ProcessPoolExecutor(
            min(self.workers, len(todo)), context, initializer=_begin, initargs=(self, held)
        )
        # The largest first: the order that leaves the least to wait for at the end.
        tasks = self.work.tasks
        ranks = sorted(todo, key=lambda rank: -(tasks[rank].part.size or 0))
        try:
            self._wait({pool.submit(_run, rank) for rank in ranks})
            pool.shutdown()
        except BaseException:
            lifeline.close()  # ends the workers
            pool.shutdown(wait=False, cancel_futures=True)
            raise
        finally:
            lifeline.close()
            held.close()

    def _wait(self, left: set[Future[None]]) -> None:
        while left:
            done, left = wait(left, timeout=_SECONDS_BETWEEN_LOOKS, return_when=FIRST_COMPLETED)
            for future in done:
                future.result()
            self.watch()


class _OneThread:
    """Keeps the tokenizer of a task from starting threads."""

    def _run_for_rank(self, rank: int, local_rank: int = 0, node_rank: int = -1) -> Any:
        one_thread()
        return super()._run_for_rank(rank, local_rank, node_rank)  # type: ignore[misc]


class SlurmExecutor(_OneThread, SlurmPipelineExecutor):
    """datatrove's, without the job that merges its own statistics."""

    def launch_merge_stats(self) -> None:
        """Do nothing: what was counted is in the parts."""


class RayExecutor(_OneThread, RayPipelineExecutor):
    """datatrove's."""


def run_slurm(work: Work, watch: Watch, options: Mapping[str, Any], *, poll_seconds: float) -> None:
    """Submit the parts that are missing, and wait for them.

    options: of datatrove's executor.
    """
    todo = work.subset(work.missing())
    path = f'export PATH="{Path(sys.executable).parent}:$PATH"'
    own = {**options, "env_command": options["env_command"] or path, "job_name": "bipe-prepare"}
    logs = _logs(work)
    executor = SlurmExecutor(pipeline(todo), tasks=len(todo.tasks), logging_dir=logs, **own)
    try:
        executor.run()
    except (OSError, subprocess.CalledProcessError) as fault:
        raise DataError(f"engine=slurm: the job could not be submitted: {fault}") from None
    gone = 0
    while todo.missing():
        watch()
        gone = 0 if _queued(str(executor.job_id)) else gone + 1
        if gone >= _LOOKS:
            _require_all(todo, logs)
        time.sleep(poll_seconds)


def run_ray(work: Work, watch: Watch, options: Mapping[str, Any], *, address: str | None) -> None:
    """Run the parts that are missing on a Ray cluster.

    options: of datatrove's executor.
    """
    try:
        import ray
    except ImportError as fault:
        raise DataError("engine=ray needs Ray; run: pip install 'bipe[ray]'") from fault

    todo = work.subset(work.missing())
    if not ray.is_initialized():
        ray.init(address=address, log_to_driver=False)
    logs = _logs(work)
    executor = RayExecutor(pipeline(todo), tasks=len(todo.tasks), logging_dir=logs, **options)
    with ThreadPoolExecutor(1) as thread:
        running = thread.submit(executor.run)
        while not running.done():
            wait([running], timeout=_SECONDS_BETWEEN_LOOKS)
            watch()
        running.result()
    _require_all(todo, logs)


def _begin(executor: LocalExecutor, held: Connection) -> None:
    """Set a worker up."""
    global _executor
    _executor = executor
    one_thread()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that started it decides
    if _only_rules(executor.work):
        _import_spacy_alone()
    threading.Thread(target=_end_with, args=(held,), daemon=True).start()


def _only_rules(work: Work) -> bool:
    """Return whether all that spaCy is to do is to run our rules."""
    segmenters = [source.segmenter for source in work.sources.values()]
    fingerprints = json.dumps([segmenter.fingerprint() for segmenter in segmenters])
    ours = all(type(segmenter).__module__.startswith("segmenters.") for segmenter in segmenters)
    return ours and set(_BACKEND.findall(fingerprints)) == {"spacy"}


def _import_spacy_alone() -> None:
    """Import spaCy as if there was no torch, which its models alone need: 0.8 s instead of 2.2."""
    if "torch" in sys.modules or find_spec("spacy") is None:
        return
    sys.modules["torch"] = None  # type: ignore[assignment]
    try:
        import segmenters.prose.spacy_pipeline  # noqa: F401
    finally:
        del sys.modules["torch"]


def _end_with(held: Connection) -> None:
    """End this process when the other end of a pipe is closed, if only by a kill."""
    try:
        held.recv()
    except (EOFError, OSError):
        os._exit(1)


def _run(rank: int) -> None:
    assert _executor is not None
    _executor._run_for_rank(rank)


@contextmanager
def _threads(*, one: bool) -> Iterator[None]:
    """Keep the tokenizer from starting threads, where one worker means one core."""
    before = os.environ.get(_THREADS)
    if one:
        one_thread()
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(_THREADS, None)
        else:
            os.environ[_THREADS] = before


def _require_all(work: Work, logs: str) -> None:
    missing = work.missing()
    if missing:
        faults = work.faults()
        raise DataError(
            f"{len(missing)} of {len(work.tasks)} parts were not made"
            + (f"; the first fault: {faults[0]}" if faults else "")
            + f". Their logs are in {logs}; run again to go on with what is missing"
        )


def _queued(job: str) -> bool:
    """Return whether a job waits or runs; so it is taken where squeue cannot be asked."""
    command = ["squeue", "--noheader", "--jobs", job]
    try:
        found = subprocess.run(command, capture_output=True, text=True, timeout=60)
    except (FileNotFoundError, subprocess.TimeoutExpired):
        return True
    return found.returncode == 0 and bool(found.stdout.strip())


def _logs(work: Work) -> str:
    """Return a folder that no run before had: what it lists as done would not be done again."""
    moment = f"{time.strftime('%Y-%m-%d_%H-%M-%S')}.{time.time_ns() % 10**9:09d}"
    return str(work.folder / "logs" / moment)
