"""The training loader: global batches from a number, read ahead by one thread.

Step s, micro-batch m, rank r takes the rows from s * G + m * (micro * world) + r * micro on, of
the order that a Mixture gives. So a global batch is the same rows whatever the world size and the
micro-batch, and resuming at any step needs one integer. Reading is mapped memory and numpy; a
thread is enough, and no process is forked beside a process group.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from contextlib import suppress

import numpy as np

from train.data.batch import Batch, collate
from train.data.documents import DataError
from train.data.order import Mixture

_AHEAD = 4


class RowLoader:
    """Micro-batches of one rank, from `start_row` to the end of step `steps`.

    mixture: the order of rows. micro_batch: rows of a rank at once. global_batch: rows of an
    optimizer step over all ranks and micro-batches. start_row: global rows consumed before.
    steps: optimizer steps of the whole run, those before `start_row` included.

    `len` counts micro-batches of the whole run too: Lightning goes on counting where it stopped.
    """

    def __init__(
        self,
        *,
        mixture: Mixture,
        micro_batch: int,
        global_batch: int,
        steps: int,
        rank: int = 0,
        world: int = 1,
        start_row: int = 0,
    ) -> None:
        for name, value in (("micro_batch", micro_batch), ("global_batch", global_batch)):
            if value < 1:
                raise DataError(f"{name} must be at least 1, was: {value}")
        if not 0 <= rank < world:
            raise DataError(f"rank must be from 0 to {world - 1}, was: {rank}")
        if global_batch % (micro_batch * world):
            raise DataError(
                f"global_batch must be a multiple of micro_batch * world, was: {global_batch} for "
                f"{micro_batch} * {world}"
            )
        if start_row < 0 or start_row % global_batch:
            raise DataError(
                f"start_row must be a multiple of global_batch={global_batch}, was: {start_row}"
            )
        self.mixture, self.steps = mixture, steps
        self.micro_batch, self.global_batch = micro_batch, global_batch
        self.rank, self.world, self.start_row = rank, world, start_row

    @property
    def accumulation(self) -> int:
        """Micro-batches of a rank in an optimizer step."""
        return self.global_batch // (self.micro_batch * self.world)

    def __len__(self) -> int:
        return self.steps * self.accumulation

    def __iter__(self) -> Iterator[Batch]:
        return ahead(self.batches())

    def batches(self) -> Iterator[Batch]:
        """The batches, read as they are asked for."""
        for step in range(self.start_row // self.global_batch, self.steps):
            first = step * self.global_batch
            source, row = self.mixture.global_rows(np.arange(first, first + self.global_batch))
            step_targets = self.mixture.targets(source, row)
            for micro in range(self.accumulation):
                begin = (micro * self.world + self.rank) * self.micro_batch
                sources = source[begin : begin + self.micro_batch].tolist()
                rows = row[begin : begin + self.micro_batch].tolist()
                yield collate(
                    list(map(self.mixture.read, sources, rows)),
                    sources=sources,
                    continues=self.mixture.continues,
                    step=step,
                    step_targets=step_targets,
                    rows_after=first + self.global_batch,
                )


def ahead(batches: Iterator[Batch]) -> Iterator[Batch]:
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
