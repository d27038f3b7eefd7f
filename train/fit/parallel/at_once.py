"""rows.micro_batch=auto: as many rows at once as fit in the memory, alike on all ranks.

The loss is a sum over the targets of the global batch, and so does not depend on the choice.
"""

from __future__ import annotations

import logging
from typing import Any

import lightning
import torch

from bipe.build import build
from bipe.encodings.base import as_scheme
from segmenters.wording import counted, size
from train.data.rows.datamodule import LMDataModule
from train.fit.machine import free_memory
from train.fit.memory import (
    USABLE,
    WEIGHT,
    Step,
    count_weights,
    memory_of,
    of_rows,
    placed,
    rows_at_once,
)
from train.fit.optim import muon
from train.fit.parallel.sharded import Sharded

log = logging.getLogger("bipe")
_CURE = "set recompute=true, or trainer=fsdp2 on several devices"


class RowsAtOnce(lightning.Callback):
    """Divides steps into micro-batches once all ranks are there, since they must do it alike.

    validate_every: optimizer steps. copied: see Step.
    """

    def __init__(self, *, validate_every: int | None, copied: bool) -> None:
        self.validate_every, self.copied = validate_every, copied

    def setup(self, trainer: lightning.Trainer, module: Any, stage: str) -> None:
        rows: LMDataModule = trainer.datamodule  # type: ignore[attr-defined]
        share = rows.share(trainer.world_size)
        if rows.micro_batch == "auto" and trainer.strategy.root_device.type in ("cpu", "cuda"):
            step = step_of(trainer, module, rows, copied=self.copied)
            rows.micro_batch = _chosen(trainer, step, share, taken=_taken(trainer, module))
        trainer.accumulate_grad_batches = share // rows.at_once(trainer.world_size)
        if self.validate_every is not None:
            trainer.val_check_interval = self.validate_every * trainer.accumulate_grad_batches
            trainer.check_val_every_n_epoch = None


def step_of(trainer: lightning.Trainer, module: Any, rows: LMDataModule, *, copied: bool) -> Step:
    """Return what the memory of a step of this training depends on, but for its rows."""
    options, strategy = module.options, trainer.strategy
    sharded, world = isinstance(strategy, Sharded), trainer.world_size
    read = rows.statistics(steps=trainer.max_steps)
    step = Step(
        decoder=module.model.config,
        weights=count_weights(module.model),
        rows=1,
        time=rows.row_length // rows.context_parallel,
        context=rows.context_parallel,
        packed=any(each.shared_rows > 0 for each in read if each.read),
        recompute=options.recompute,
        shards=world // strategy.replicas if isinstance(strategy, Sharded) else 1,
        buckets=world > 1 and not sharded,
        copied=copied,
        muon=getattr(options.optimizer, "func", None) is muon,
    )
    scheme = as_scheme(build(module.model.config.encoding, allowed=options.allowed))
    kind: Any = strategy.root_device.type
    half = str(trainer.precision).startswith("bf16")
    return placed(step, scheme, kind=kind, half=half, attention=options.attention)[0]


def _taken(trainer: lightning.Trainer, module: Any) -> int:
    """Return the bytes of a step that are in memory already; below 0: what a teacher will take."""
    if trainer.strategy.root_device.type == "cpu":
        return sum(WEIGHT * p.numel() for p in module.model.parameters() if not p.is_meta)
    teachers = () if module.teacher is None else module.teacher[:1]
    return -sum(WEIGHT * p.numel() for each in teachers for p in each.parameters())


def _chosen(trainer: lightning.Trainer, step: Step, share: int, *, taken: int) -> int:
    """Return the rows at once for which the rank with the least memory has room; say why fewer."""
    device = trainer.strategy.root_device
    free = free_memory(device, processes=trainer.num_devices)
    own = rows_at_once(step, "auto", share=share, free=free, held=taken)
    least = int(trainer.strategy.reduce(torch.tensor(own, device=device), reduce_op="min"))
    rows = max(1, least)
    if not trainer.is_global_zero or least == share:
        return rows
    tried, why = share if least else 1, "another device has less memory"
    if own == least:
        needed = size(memory_of(of_rows(step, tried, share)).peak - taken)
        why = f"{counted(tried, 'row')} would take about {needed}, and {USABLE:.0%} of the "
        why += f"{size(free)} that are free ({device.type}) may be used"
    at_once = f"{counted(rows, 'row')} at once, {counted(share // rows, 'time')} per step"
    if least:
        log.info("rows.micro_batch: %s, since %s", at_once, why)
    else:
        log.warning("rows.micro_batch: %s, although %s; %s", at_once, why, _CURE)
    return rows
