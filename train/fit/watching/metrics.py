"""The numbers of a training step, and the file that keeps them (metrics.csv).

    MFU = tokens per second x FLOPs per token (train/fit/flops.py) / peak FLOPs of all devices

Without a peak (train/fit/flops.py) MFU is left out.
"""

from __future__ import annotations

import contextlib
import csv
import io
import math
import os
import resource
import sys
from collections import UserDict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import lightning
import torch
from torch import Tensor

from train.disk.files import full_disk, read_numbers, sync, write_whole
from train.fit.flops import peak_of, step_flops
from train.fit.watching.each_step import EachStep
from train.fit.watching.loggers import send

COLUMNS = (
    "step",
    "tokens",
    "loss",
    "lr",
    "grad_norm",
    "clamped_share",
    "skipped_steps",
    "tokens_per_second",
    "mfu",
    "peak_memory_gib",
    "seconds",
    "validation_loss",
)
Row = dict[str, Any]
_GIB = 1 << 30
_CLEAR = Path("/proc/self/clear_refs")


class Metrics(UserDict[str, Any]):
    """The numbers of a step by name, on the device until they are read, which waits for it."""

    def __getitem__(self, name: str) -> float:
        value = self.data[name]
        if isinstance(value, Tensor):
            value = self.data[name] = value.item()
        return value  # type: ignore[no-any-return]


class MetricsFile(EachStep):
    """Appends a line to metrics.csv every few optimizer steps, and gives it to all loggers.

    A resumed run drops the lines after the step where it resumes. It repeats these steps bit for
    bit, so loggers, which have them, get only what comes after.
    """

    def __init__(self, *, path: str | os.PathLike[str], every: int = 10) -> None:
        super().__init__()
        self.path, self.every = Path(path), every
        self._sent = self._sent_validation = 0  # steps whose numbers loggers have
        self._losses: Sequence[str] | None = None
        self._rows: list[Row] = []
        self._seconds_before = 0.0
        self._peak: float | None = None  # operations per second of all devices

    def begin(self, trainer: lightning.Trainer) -> None:
        module: Any = trainer.lightning_module
        self._losses, device = module.losses.names, trainer.strategy.root_device
        forget_peak_memory(device)
        peak = peak_of(device, bfloat16=str(trainer.precision).startswith("bf16"))
        self._peak = None if peak is None else peak * trainer.world_size
        rows = read_numbers(self.path)
        validated = [row["step"] for row in rows if row.get("validation_loss") is not None]
        self._sent = max((row["step"] for row in rows), default=0)
        self._sent_validation = max(validated, default=0)
        self._rows = [row for row in rows if row["step"] <= trainer.global_step]
        self._seconds_before = self._rows[-1]["seconds"] if self._rows else 0.0
        self._rewrite()

    def on_fit_end(self, trainer: lightning.Trainer, module: Any) -> None:
        if trainer.is_global_zero and self._losses is None:  # no step was left
            self.begin(trainer)

    def after_step(self, trainer: lightning.Trainer, module: Any) -> None:
        if trainer.global_step % self.every == 0 or trainer.global_step == trainer.max_steps:
            self._append(trainer, module)
            with full_disk(self.path), self.path.open("a", newline="") as file:
                self._writer(file).writerow(self._rows[-1])

    def on_validation_end(self, trainer: lightning.Trainer, module: Any) -> None:
        if not trainer.is_global_zero:
            return
        step = trainer.global_step
        if not self._rows or self._rows[-1]["step"] != step:
            self._append(trainer, module)
        loss = float(trainer.callback_metrics["validation/loss"])
        self._rows[-1]["validation_loss"] = loss
        self._rewrite()
        if step > self._sent_validation:
            send(trainer.loggers, {"loss": loss}, step, kind="validation")

    def on_save_checkpoint(self, trainer: lightning.Trainer, module: Any, checkpoint: Any) -> None:
        """Have the lines before a checkpoint survive what the checkpoint survives."""
        if trainer.is_global_zero and self.path.exists():
            with full_disk(self.path):
                sync(self.path)

    def _append(self, trainer: lightning.Trainer, module: Any) -> None:
        row = {name: module.metrics.get(name) for name in COLUMNS}
        row |= {name: _short(module.metrics.get(name)) for name in self._losses or ()}
        row["tokens_per_second"] = rate = round(self._clock.rate(), 1)
        row["seconds"] = round(self._seconds_before + self._clock.seconds(), 3)
        row["peak_memory_gib"] = peak_memory_gib(trainer.strategy.root_device)
        if self._peak is not None and rate:
            # With the keys that were seen, the length of rows no longer matters.
            keys = module.metrics["keys_per_token"]
            flops = step_flops(module.model.config, row_length=1, keys=keys).model
            row["mfu"] = round(rate * flops / self._peak, 4)
        self._rows.append(row)
        if trainer.global_step > self._sent:
            send(trainer.loggers, row, trainer.global_step, kind="train")

    def _rewrite(self) -> None:
        text = io.StringIO(newline="")
        writer = self._writer(text)
        writer.writeheader()
        writer.writerows(self._rows)
        write_whole(self.path, text.getvalue())

    def _writer(self, file: Any) -> csv.DictWriter[str]:
        # Columns of an older version, or of other sources, are dropped.
        names = (*COLUMNS, *(self._losses or ()))
        return csv.DictWriter(file, names, lineterminator="\n", extrasaction="ignore")


def _short(value: float | None) -> float | None:
    """Return a mean with six digits; None for that of no tokens."""
    return None if value is None or math.isnan(value) else float(f"{value:.6g}")


def forget_peak_memory(device: torch.device) -> None:
    """Count peak memory from now on: not that of the run before, in a sweep (CPU: Linux only)."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    else:
        with contextlib.suppress(OSError):
            _CLEAR.write_text("5")  # proc_pid_clear_refs(5): resets the peak, and nothing else


def peak_memory_gib(device: torch.device) -> float:
    """Return the most memory of the run so far: of tensors on a GPU, else of the process."""
    if device.type == "cuda":
        return round(torch.cuda.max_memory_allocated(device) / _GIB, 3)
    unit = 1 if sys.platform == "darwin" else 1024
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / _GIB, 3)
