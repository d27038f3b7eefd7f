"""Batches of rows: for training from any row on, read ahead by a thread; for validation in turn.

The rows of a step are the next `global_batch` in the order of a RowOrder; micro-batch m of rank r
takes `micro` of them from m * (micro * world) + r * micro on. So a global batch is the same for any
world size and micro-batch, and one integer is enough to resume at any step. Rows are read from
mapped memory by numpy, for which a thread suffices; nothing is forked next to a process group.
"""

import queue
import threading
import weakref
from collections.abc import Generator, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace

import numpy as np
import torch

from train.data.rows.batch import IGNORED, Batch, collate
from train.data.rows.curriculum import Stage, Stages
from train.data.rows.order import RowOrder
from train.data.rows.packing import Rows, blank_row
from train.errors import DataError


class RowLoader:
    """Micro-batches of one rank, from `start_row` to the end of step `steps`.

    micro_batch: rows per rank at once. global_batch: rows per optimizer step over all ranks and
    micro-batches. start_row: global rows consumed before. steps: optimizer steps of the whole run,
    including those before `start_row`. stages: of row lengths; by default only one. start_step: the
    step that begins at `start_row`; the default assumes that the global batch never changed.
    end_row: rows from here on are blank and fill up the last batch. pin: copy batches to
    page-locked memory, from which a GPU reads while it computes.
    """

    def __init__(
        self,
        *,
        order: RowOrder,
        micro_batch: int,
        global_batch: int,
        steps: int,
        rank: int = 0,
        world: int = 1,
        start_row: int = 0,
        start_step: int | None = None,
        end_row: int | None = None,
        stages: Stages | None = None,
        pin: bool = False,
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
        self.order, self.steps = order, steps
        self.micro_batch, self.global_batch = micro_batch, global_batch
        self.rank, self.world, self.start_row = rank, world, start_row
        self.end_row, self.pin = end_row, pin
        self.stages = stages or Stages(row_length=order.row_length, global_batch=global_batch)
        self.start_step = self._step_of(start_row) if start_step is None else start_step
        self._open: weakref.WeakSet[Generator[Batch]] = weakref.WeakSet()

    @property
    def accumulation(self) -> int:
        return self.global_batch // (self.micro_batch * self.world)

    def __len__(self) -> int:
        # Of the whole run, because Lightning continues counting where it stopped.
        return self.steps * self.accumulation

    def __iter__(self) -> Iterator[Batch]:
        batches = ahead(self.batches())
        self._open.add(batches)
        return batches

    def close(self) -> None:
        for batches in list(self._open):
            batches.close()

    def batches(self) -> Iterator[Batch]:
        first = self.start_row
        for step in range(self.start_step, self.steps):
            stage = self.stages.at(step)
            yield from self._step(step, first, stage)
            first += stage.consumes

    def _step(self, step: int, first: int, stage: Stage) -> Iterator[Batch]:
        after = first + stage.consumes
        if self.end_row is not None:
            after = min(after, self.end_row)
        source, row = self.order.global_rows(np.arange(first, after))
        step_targets = self.order.targets(source, row)
        at_once = stage.rows // (self.accumulation * self.world)
        for micro in range(self.accumulation):
            begin = (micro * self.world + self.rank) * at_once
            places, parts = np.divmod(np.arange(begin, begin + at_once), stage.parts)
            filled = places < len(source)
            where = np.minimum(places, len(source) - 1)
            sources, rows = source[where].tolist(), row[where].tolist()
            if stage.parts == 1 and filled.all():
                read = self.order.read_all(sources, rows)
            else:
                wanted = zip(sources, rows, parts.tolist(), filled.tolist(), strict=True)
                read = [
                    self.order.read(of, at, part=part, parts=stage.parts)
                    if is_filled
                    else blank_row(stage.length, columns=self.order.rows[0].columns)
                    for of, at, part, is_filled in wanted
                ]
            batch = collate(
                read,
                sources=sources,
                continues=self.order.continues,
                step=step,
                step_targets=step_targets,
                rows_after=after,
                tokens_after=after * self.order.row_length,
            )
            yield batch.pinned() if self.pin else batch

    def _step_of(self, row: int) -> int:
        if row >= 0:
            step = self.stages.steps(row)
            if self.stages.consumed(step) == row:
                return step
        raise DataError(
            f"start_row must be a multiple of global_batch={self.global_batch}, was: {row}; with a "
            "curriculum, where a step begins"
        )


class ValidationLoader:
    """Micro-batches of one rank over at most `rows_per_source` rows of each source.

    The rows are evenly spaced over each source and always the same. A batch holds rows of one
    source; its step counts batches over all ranks, its step_targets are its own, and it consumes no
    rows. All ranks get the same number of batches, because ranks that validate in step must not
    wait for one that is done. Spare batches have no scored target, and so no weight in a
    token-weighted mean.
    """

    def __init__(
        self,
        *,
        rows: Mapping[str, Rows],
        micro_batch: int,
        rows_per_source: int,
        rank: int = 0,
        world: int = 1,
    ) -> None:
        self._rows = list(rows.values())
        self._rank, self._world = rank, world
        self._batches: list[tuple[int, list[int]]] = []
        for source, each in enumerate(self._rows):
            number = min(rows_per_source, len(each))
            chosen = (np.arange(number) * len(each) // number).tolist()
            self._batches += [
                (source, chosen[at : at + micro_batch]) for at in range(0, number, micro_batch)
            ]

    def __len__(self) -> int:
        return -(-len(self._batches) // self._world)

    def __iter__(self) -> Iterator[Batch]:
        for turn in range(len(self)):
            number = turn * self._world + self._rank
            if number < len(self._batches):
                yield self._read(number)
            else:
                spare = self._read(0)
                targets = torch.full_like(spare.targets, IGNORED)
                yield replace(spare, step=number, targets=targets, step_targets=0)

    def _read(self, number: int) -> Batch:
        source, chosen = self._batches[number]
        rows = self._rows[source]
        return collate(
            rows.read(chosen),
            sources=[source] * len(chosen),
            continues=rows.continues,
            step=number,
            step_targets=int(rows.targets(chosen).sum()),
            rows_after=0,
            tokens_after=0,
        )


_AHEAD = 4  # batches


def ahead(batches: Iterator[Batch]) -> Generator[Batch]:
    """Read a few batches ahead in a thread; its exceptions are raised here, in place of a batch."""
    ready: queue.Queue[Batch | BaseException | None] = queue.Queue(maxsize=_AHEAD)
    stopped = threading.Event()

    def fill() -> None:
        try:
            for batch in batches:
                ready.put(batch)
                if stopped.is_set():
                    return
            ready.put(None)
        except BaseException as fault:
            ready.put(fault)

    thread = threading.Thread(target=fill, name="bipe-rows", daemon=True)
    thread.start()
    try:
        while (found := ready.get()) is not None:
            if isinstance(found, BaseException):
                raise found
            yield found
    finally:
        stopped.set()
        with suppress(queue.Empty):  # lets a thread that waits for room see `stopped`
            while True:
                ready.get_nowait()
        thread.join()
