"""rows.micro_batch=auto: as many rows at once as fit in the memory, alike on all ranks.

On a GPU two short trial steps are measured, of one row and of two: their difference is what a row
takes, and the rest is fixed. Nothing of them stays. Elsewhere the number of tokens at once is
bounded. The loss is a sum over the targets of the global batch, and so does not depend on it.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import lightning
import torch

from segmenters.wording import counted, size
from train.data.rows.datamodule import LMDataModule
from train.data.rows.loader import RowLoader
from train.fit.machine import free_memory
from train.fit.optim import state_bytes
from train.fit.watching.counts import IndexCounts

log = logging.getLogger("bipe")

TOKENS = 8192  # at once, where no memory is measured
USABLE = 0.85  # of the memory that is free: an allocator cannot use all of it
_CURE = ", which is too little: set recompute=true, or trainer=fsdp2 on several devices"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The bytes of a step on a device: fixed ones, and those of each row."""

    fixed: int
    row: int


def measured(trial: Callable[[int], int]) -> Measured:
    """Return what steps take. trial: does one of so many rows, and returns the bytes at its peak.

    A trial leaves its gradients, which later micro-batches of a step find there.
    """
    trial(1)  # also loads kernels and makes their buffers
    one, two = trial(1), trial(2)
    row = max(0, two - one)
    return Measured(fixed=one - row, row=row)


def largest_share(share: int, fits: Callable[[int], bool]) -> int:
    """Return the most rows that divide a device's share of a batch and fit; 0 if none do."""
    return next((n for n in range(share, 0, -1) if share % n == 0 and fits(n)), 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """How a device counts its memory, in bytes. free: what a process may still take."""

    reset: Callable[[], object]
    peak: Callable[[], int]
    taken: Callable[[], int]
    free: Callable[[], int | None]


def counters_of(device: torch.device) -> Counters | None:
    """Return the counters of a GPU; None for a device whose memory is not measured."""
    if device.type != "cuda":
        return None
    return Counters(
        reset=partial(torch.cuda.reset_peak_memory_stats, device),
        peak=partial(torch.cuda.max_memory_allocated, device),
        taken=partial(torch.cuda.memory_allocated, device),
        free=partial(free_memory, device),
    )


class RowsAtOnce(lightning.Callback):
    """Decides how many rows a device computes at once, when all ranks are there."""

    def on_fit_start(self, trainer: lightning.Trainer, module: Any) -> None:
        rows: LMDataModule = trainer.datamodule  # type: ignore[attr-defined]
        if rows.micro_batch != "auto":
            return
        share = rows.share(trainer.world_size)
        counters = counters_of(trainer.strategy.root_device)
        if counters is None or share == 1:
            time = rows.row_length // rows.context_parallel
            rows.micro_batch = max(1, largest_share(share, lambda n: n * time <= TOKENS))
        else:
            module.on_fit_start()  # which makes what a step needs
            with untouched(module):
                sizes = measured(trial_of(module, rows, counters))
            rows.micro_batch = chosen_rows(trainer, module, sizes, counters, share=share)


def trial_of(module: Any, rows: LMDataModule, counters: Counters) -> Callable[[int], int]:
    """Return the trial of a module: a step of the first rows, without the optimizer."""

    def trial(number: int) -> int:
        loader = RowLoader(order=rows.order(), micro_batch=number, global_batch=number, steps=1)
        batch = module.transfer_batch_to_device(next(loader.batches()), module.device, 0)
        counters.reset()
        module.loss(batch).backward()
        return counters.peak()

    return trial


@contextlib.contextmanager
def untouched(module: Any) -> Iterator[None]:
    """Restore after the block what steps change: random state, gradients, counts."""
    device, indices = module.device, module.indices
    module.indices = IndexCounts()
    try:
        with torch.random.fork_rng([device] if device.type == "cuda" else []):
            yield
    finally:
        module.indices = indices
        module.losses.take(device)
        module._clamped = []
        module.zero_grad()
        if module.options.compile:  # else blocks stay compiled for any number of rows
            torch.compiler.reset()
        if device.type == "cuda":
            torch.cuda.empty_cache()


def chosen_rows(
    trainer: lightning.Trainer, module: Any, sizes: Measured, counters: Counters, *, share: int
) -> int:
    """Return the rows at once for which the rank with the least memory has room; say why fewer."""
    # The state of the optimizer is made by the first step, or loaded after this.
    room = counters.taken() - state_bytes(module.options.optimizer, module.model.named_parameters())
    room += int(USABLE * (counters.free() or 0))
    here = largest_share(share, lambda n: sizes.fixed + n * sizes.row <= room)
    device = trainer.strategy.root_device
    least = int(trainer.strategy.reduce(torch.tensor(here, device=device), reduce_op="min"))
    rows = max(1, least)
    if trainer.is_global_zero and rows < share:
        text = (
            f"rows.micro_batch: {counted(rows, 'row')} at once, "
            f"{counted(share // rows, 'time')} per step: each row takes {size(sizes.row)}, and "
            f"{size(max(0, room - sizes.fixed))} may be used on the device of rank 0"
        )
        log.log(logging.INFO if least else logging.WARNING, "%s%s", text, "" if least else _CURE)
    return rows
