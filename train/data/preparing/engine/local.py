"""Processes on this machine, which survive that one of them is killed.

datatrove's own local executor waits for ever when a worker dies (its pool is multiprocess.Pool).
Here the pool is made anew and runs the parts that are missing; workers end with the process that
started them, whatever ends it.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import signal
import sys
import threading
from collections import deque
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from importlib.util import find_spec
from multiprocessing.connection import Connection
from typing import Any

from datatrove.executor.local import LocalPipelineExecutor

from train.data.preparing.engine.steps import pipeline
from train.data.preparing.engine.work import Watch, Work
from train.data.tokenizing.tokenizers import one_thread
from train.errors import DataError

_LOSSES = 3  # pools that may break one after the other without a part done
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
                lost = self.work.reports()
                self.work.clear_reports()
                left = self.work.missing()
                losses = losses + 1 if len(left) == len(todo) else 0
                if losses == _LOSSES:
                    raise DataError(_told(losses, lost, self.work)) from None
            todo = self.work.missing()

    def _run_pool(self, todo: list[int]) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["train.data.preparing.engine.local"])
        held, lifeline = context.Pipe(duplex=False)
        pool = ProcessPoolExecutor(
            min(self.workers, len(todo)), context, initializer=_begin, initargs=(self, held)
        )
        try:
            self._wait([pool.submit(_run, rank) for rank in _largest_first(todo, self.work)])
            pool.shutdown()
        except BaseException:
            lifeline.close()  # ends the workers
            pool.shutdown(wait=False, cancel_futures=True)
            raise
        finally:
            lifeline.close()
            held.close()

    def _wait(self, futures: list[Future[None]]) -> None:
        left = set(futures)
        while left:
            done, left = wait(left, timeout=_SECONDS_BETWEEN_LOOKS, return_when=FIRST_COMPLETED)
            for future in done:
                future.result()
            self.watch()


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
    """Whether all that spaCy is to do is to run our rules."""
    segmenters = [source.segmenter for source in work.sources.values()]
    told = json.dumps([segmenter.fingerprint() for segmenter in segmenters])
    ours = all(type(segmenter).__module__.startswith("segmenters.") for segmenter in segmenters)
    return ours and set(_BACKEND.findall(told)) == {"spacy"}


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


def _largest_first(ranks: list[int], work: Work) -> list[int]:
    """The order that leaves the least to wait for at the end."""
    return sorted(ranks, key=lambda rank: -(work.tasks[rank].part.size or 0))


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


def _told(losses: int, lost: dict[str, list[int]], work: Work) -> str:
    parts = ", ".join(sorted(lost)) or "unknown"
    return (
        f"workers were killed {losses} times in a row while at work on {parts}, perhaps for their "
        "memory. What is done is kept: run again with fewer engine.workers, or look for a huge "
        f"document there ({work.folder})"
    )
