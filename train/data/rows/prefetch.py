"""Batches read a few ahead by a thread, which ends with whoever takes them."""

from __future__ import annotations

import queue
import threading
from collections.abc import Generator, Iterator
from contextlib import suppress

from train.data.rows.batch import Batch

_AHEAD = 4


def ahead(batches: Iterator[Batch]) -> Generator[Batch]:
    """Read a few batches ahead in a thread, which ends with the iteration.

    What the thread raises is raised here, where the batch would have come.
    """
    ready: queue.Queue[Batch | BaseException | None] = queue.Queue(maxsize=_AHEAD)
    stopped = threading.Event()
    thread = threading.Thread(
        target=_fill, args=(batches, ready, stopped), name="bipe-rows", daemon=True
    )
    thread.start()
    try:
        while (found := ready.get()) is not None:
            if isinstance(found, BaseException):
                raise found
            yield found
    finally:
        stopped.set()
        with suppress(queue.Empty):  # a thread that waits for room sees that it is to stop
            while True:
                ready.get_nowait()
        thread.join()


def _fill(
    batches: Iterator[Batch],
    ready: queue.Queue[Batch | BaseException | None],
    stopped: threading.Event,
) -> None:
    try:
        for batch in batches:
            ready.put(batch)
            if stopped.is_set():
                return
        ready.put(None)
    except BaseException as fault:
        ready.put(fault)
