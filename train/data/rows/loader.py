"""Batches of rows, and their loaders: for training from any row on, for validation in turn.

A batch has a rank's rows of one optimizer step, and `Batch.split` its micro-batches. The rows of a
step are the next `global_batch` in the order of a RowOrder; micro-batch m of rank r takes `micro`
of them from m * (micro * world) + r * micro on. So a global batch is the same for any world size
and micro-batch, and one integer is enough to resume at any step. A thread suffices to read mapped
memory by numpy; nothing is forked next to a process group.

The loss of a step is a sum over targets divided by `step_targets`, the number of scored targets of
the global batch: unlike a mean of means, it does not depend on how the batch is divided.
"""

from __future__ import annotations

import queue
import threading
import weakref
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Int, UInt8
from torch import Tensor

from bipe.loss import IGNORE
from segmenters.wording import counted
from train.data.rows.choices import Stage, Stages
from train.data.rows.order import RowOrder
from train.data.rows.packing import Row, Rows
from train.errors import ConfigError, DataError

_AHEAD = 4  # batches
_DOCUMENT = np.uint8(1)  # the bit of a mark where a document starts


@dataclass(slots=True, kw_only=True)
class Batch:
    """The rows of a rank in an optimizer step. *Shape:* ``(batch, time)`` unless noted.

    targets: -100 where the next token is padding, starts another document or is not scored.
    padding: True where a token is padding; None if there is none. carry: ``(batch, column)``, see
    bipe.positions.Carry.from_columns; None if positions restart. source: ``(batch)``, index into
    the sources. packed: per micro-batch, False promises that each row is one document without
    padding. padded: per micro-batch, whether it has padding. step: number of the optimizer step,
    from 0. step_targets: scored targets of its global batch. tokens_after: inputs of global rows,
    in tokens, consumed once the step is done. Those that may be None are then counted by
    the module, or left out of its numbers.

    Not frozen, since Lightning moves a batch by filling a copy of it.
    """

    tokens: Int[Tensor, "batch time"]
    targets: Int[Tensor, "batch time"]
    marks: UInt8[Tensor, "batch time"]
    padding: Bool[Tensor, "batch time"] | None = None
    carry: Int[Tensor, "batch column"] | None = None
    source: Int[Tensor, " batch"] | None = None
    packed: tuple[bool, ...] = (True,)
    padded: tuple[bool, ...] = (True,)
    step: int | None = None
    step_targets: int | None = None
    tokens_after: int | None = None

    def checked(self, vocab_size: int) -> Batch:
        """Return this batch; DataError if it has not the shapes, types and ids of a model."""
        integers = (torch.int64, torch.int32)
        kinds = {"tokens": integers, "targets": integers[:1], "marks": (torch.uint8,)}
        for name, dtypes in kinds.items():
            value = getattr(self, name)
            if value.dtype not in dtypes or value.ndim != 2 or value.shape != self.tokens.shape:
                raise DataError(
                    f"{name} of a batch must be {dtypes[0]} [batch, time], all of one shape, was: "
                    f"{value.dtype} {[*value.shape]}, beside tokens {[*self.tokens.shape]}"
                )
        scored = self.targets[self.targets != IGNORE]
        for name, ids in (("tokens", self.tokens), ("targets", scored)):
            if ((ids < 0) | (ids >= vocab_size)).any():
                raise DataError(
                    f"{name} of a batch must be from 0 to below vocab_size ({vocab_size}), or "
                    f"{IGNORE} in targets, was: {int(ids.min())} to {int(ids.max())}"
                )
        return self

    def split(self) -> list[Batch]:
        """Return the micro-batches, in order; they share memory with this batch."""
        count = len(self.packed)
        columns = {name: value.chunk(count) for name, value in self._tensors().items()}
        parts = []
        for number, (packed, padded) in enumerate(zip(self.packed, self.padded, strict=True)):
            tensors: dict[str, Any] = {name: column[number] for name, column in columns.items()}
            if not padded:
                tensors["padding"] = None
            parts.append(replace(self, **tensors, packed=(packed,), padded=(padded,)))
        return parts

    def pinned(self) -> Batch:
        pinned = {name: value.pin_memory() for name, value in self._tensors().items()}
        return replace(self, **pinned)

    def _tensors(self) -> dict[str, Any]:
        names = ("tokens", "targets", "marks", "padding", "carry", "source")
        values = {name: getattr(self, name) for name in names}
        return {name: value for name, value in values.items() if value is not None}


def as_batch(batch: Any) -> Batch:
    """Return a batch of any loader: a `Batch`, or a mapping with the names of its fields."""
    if isinstance(batch, Mapping):
        names = {field.name for field in fields(Batch)}
        if {"tokens", "targets", "marks"} <= batch.keys() <= names:
            return Batch(**batch)
        batch = f"a mapping of {', '.join(map(str, batch))}"
    elif not isinstance(batch, Batch):
        batch = type(batch).__name__
    if not isinstance(batch, Batch):
        raise ConfigError(
            "a batch must be a train.data.rows.loader.Batch, or a mapping with its tokens, targets "
            f"and marks, as those of fit(module, datamodule=LMDataModule(...)), was: {batch}"
        )
    return batch


def collate(
    rows: Sequence[Row], *, sources: Sequence[int], continues: bool, parts: int = 1, **counts: int
) -> Batch:
    """Stack rows of equal length.

    continues: keep their carries. parts: micro-batches. counts: the numbers of a Batch.
    """
    tokens = np.stack([row.tokens for row in rows])
    marks = np.stack([row.marks for row in rows])
    targets = tokens[:, 1:].copy()
    # Starts of documents are few, and found fastest in one flat array.
    row, place = np.divmod(np.flatnonzero((marks & _DOCUMENT).view(bool)), tokens.shape[1])
    row, place = row[place > 0], place[place > 0]
    targets[row, place - 1] = IGNORE  # it would be of another document
    for at, each in enumerate(rows):
        if each.scored is not None:
            targets[at, ~each.scored[1:]] = IGNORE
    padding = None
    padded: Any = np.zeros(len(rows), bool)
    packed = padded.copy()
    packed[row[place < targets.shape[1]]] = True
    if any(each.padding for each in rows):
        real = np.array([[tokens.shape[1] - each.padding] for each in rows])
        padding = np.arange(tokens.shape[1]) >= real
        targets[padding[:, 1:]] = IGNORE
        padded = padding[:, :-1].any(1)
        if not padded.any():
            padding = None  # only last targets are padding, no inputs
    return Batch(
        tokens=torch.from_numpy(tokens[:, :-1].copy()),
        targets=torch.from_numpy(targets),
        marks=torch.from_numpy(marks[:, :-1].copy()),
        padding=None if padding is None else torch.from_numpy(padding[:, :-1].copy()),
        carry=torch.from_numpy(np.stack([each.carry for each in rows])) if continues else None,
        source=torch.tensor(list(sources), dtype=torch.int64),
        packed=tuple((packed | padded).reshape(parts, -1).any(1).tolist()),
        padded=tuple(padded.reshape(parts, -1).any(1).tolist()),
        **counts,
    )


class RowLoader:
    """The batches of one rank, one per optimizer step, from `start_row` to the end of step `steps`.

    Iterated again, it goes on behind the last batch that it gave: no row is read twice. done:
    returns the steps that are done; a batch that was given, but not trained, is then given again.

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
        done: Callable[[], int] | None = None,
    ) -> None:
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
        if end_row is not None and steps > (most := self.stages.steps(end_row)):
            raise DataError(
                f"steps must be at most {most}, which read all {end_row} rows, was: {steps}"
            )
        self._open: weakref.WeakSet[Generator[Batch]] = weakref.WeakSet()
        self._next = (self.start_step, start_row)  # step and first row of the next batch
        self._last, self._done = start_row, done  # first row of the last batch
        self._given_at: int | None = None  # the steps that were done when it was given

    @property
    def accumulation(self) -> int:
        return self.global_batch // (self.micro_batch * self.world)

    def __len__(self) -> int:
        # Of the whole run, because Lightning continues counting where it stopped.
        return self.steps

    def __iter__(self) -> Iterator[Batch]:
        done = None if self._done is None else self._done()
        if done is not None and self._given_at == done == self._next[0] - 1:
            self._next = self._next[0] - 1, self._last
        batches = self._counted(ahead(self.batches()))
        self._open.add(batches)
        return batches

    def close(self) -> None:
        for batches in list(self._open):
            batches.close()

    def batches(self) -> Iterator[Batch]:
        begin, first = self._next
        for step in range(begin, self.steps):
            stage = self.stages.at(step)
            yield self._read(step, first, stage)
            first += stage.consumes

    def consumed_rows(self, *, unfinished: bool = False) -> int:
        """Return the global rows of the batches that it gave.

        unfinished: the last one is under way, and does not count before its step is done.
        """
        waits = unfinished and (self._done is None or self._done() == self._given_at)
        rows = self._last if waits else self._next[1]
        return rows if self.end_row is None else min(rows, self.end_row)

    def _counted(self, batches: Generator[Batch]) -> Generator[Batch]:
        done = self.start_step if self._done is None else self._done()
        if done < self.steps == self._next[0]:
            raise DataError(
                f"all rows of {counted(self.steps, 'step')} are read, but the trainer has not done "
                "so many: a batch is an optimizer step (a training_step of your own ends with "
                "return super().training_step(batch, batch_idx), or sets automatic_optimization)"
            )
        with closing(batches):
            for batch in batches:
                step, self._last = self._next
                self._next = step + 1, self._last + self.stages.at(step).consumes
                self._given_at = None if self._done is None else self._done()
                yield batch

    def _read(self, step: int, first: int, stage: Stage) -> Batch:
        after = first + stage.consumes
        if self.end_row is not None:
            after = min(after, self.end_row)
        source, row = self.order.global_rows(np.arange(first, after))
        step_targets = self.order.targets(source, row)
        # In the rows of the stage: a curriculum keeps the number of micro-batches, not of these.
        at_once = stage.rows // (self.accumulation * self.world)
        places = np.concatenate([
            np.arange(begin, begin + at_once)
            for begin in (np.arange(self.accumulation) * self.world + self.rank) * at_once
        ])  # fmt: skip
        places, parts = np.divmod(places, stage.parts)
        parts[places >= len(source)] = stage.parts + 1  # after the last row: blank
        where = np.minimum(places, len(source) - 1)
        sources = source[where].tolist()
        rows = self.order.read(sources, row[where].tolist(), parts.tolist(), parts=stage.parts)
        counts = {"step": step, "step_targets": step_targets}
        counts["tokens_after"] = after * self.order.row_length
        batch = collate(
            rows, sources=sources, continues=self.order.continues, parts=self.accumulation, **counts
        )
        return batch.pinned() if self.pin else batch

    def _step_of(self, row: int) -> int:
        if row >= 0:
            step = self.stages.steps(row)
            if self.stages.consumed(step) == row:
                return step
        raise DataError(
            f"start_row must be a multiple of global_batch={self.global_batch}, was: {row}; with a "
            "curriculum, the first row of a step"
        )


class ValidationLoader:
    """The batches of one rank over at most `rows_per_source` rows of each source.

    The rows are evenly spaced over each source and always the same. A batch holds rows of one
    source; its step counts batches over all ranks, and its step_targets are its own. All ranks get
    the same number, because ranks that validate in step must not wait for one that is done: spare
    batches have no scored target.
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
        for source, rows_of in enumerate(self._rows):
            number = min(rows_per_source, len(rows_of))
            chosen = (np.arange(number) * len(rows_of) // number).tolist()
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
                targets = torch.full_like(spare.targets, IGNORE)
                yield replace(spare, step=number, targets=targets, step_targets=0)

    def _read(self, number: int) -> Batch:
        source, chosen = self._batches[number]
        rows = self._rows[source]
        targets = int(rows.targets(chosen).sum())
        counts = {"step": number, "step_targets": targets, "tokens_after": 0}
        sources = [source] * len(chosen)
        return collate(rows.read(chosen), sources=sources, continues=rows.continues, **counts)


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
        while (item := ready.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        stopped.set()
        with suppress(queue.Empty):  # lets a thread that waits for room see `stopped`
            while True:
                ready.get_nowait()
        thread.join()
