"""The numbers of a training step and the file that keeps them: metrics.csv."""

from __future__ import annotations

import csv
import io
import math
import os
from collections import UserDict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import lightning
from torch import Tensor

from bipe import DecoderConfig
from train.disk.files import full_disk, sync, write_whole
from train.fit.watching.speed import Clock, Utilisation, forget_peak_memory, peak_memory_gib

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


class Metrics(UserDict[str, Any]):
    """The numbers of a step by name, which stay on the device until they are read.

    Reading one waits for the device, so a training step reads none; only logging does.
    """

    def __getitem__(self, name: str) -> float:
        value = self.data[name]
        if isinstance(value, Tensor):
            value = self.data[name] = value.item()
        return value  # type: ignore[no-any-return]

    def __setitem__(self, name: str, value: float | Tensor) -> None:
        self.data[name] = value.detach() if isinstance(value, Tensor) else value

    def on_device(self) -> dict[str, float | Tensor]:
        """Return all numbers by name without waiting for the device."""
        return dict(self.data)


class EachStep(lightning.Callback):
    """Calls `begin` before training and `after_step` after each optimizer step, on rank 0 only."""

    def __init__(self) -> None:
        self._clock, self._last = Clock(), 0

    def on_train_start(self, trainer: lightning.Trainer, module: Any) -> None:
        self._clock, self._last = Clock(), trainer.global_step
        if trainer.is_global_zero:
            self.begin(trainer)

    def on_train_batch_end(
        self, trainer: lightning.Trainer, module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        # While gradients are being accumulated, global_step does not change.
        if trainer.global_step != self._last and trainer.is_global_zero:
            self._last = trainer.global_step
            self._clock.count(module.metrics["tokens"])
            self.after_step(trainer, module)

    def begin(self, trainer: lightning.Trainer) -> None:
        raise NotImplementedError

    def after_step(self, trainer: lightning.Trainer, module: Any) -> None:
        raise NotImplementedError


class MetricsFile(EachStep):
    """Appends a line to metrics.csv every few optimizer steps, whatever the loggers.

    A validation loss is in the line of the step before the validation. A resumed run drops the
    lines after the step where it resumes, so that the file reads as if it had never stopped.

    decoder: to report utilisation and memory. losses: names of further columns. send: is given
    each new line, and each validation loss alone, with its step.
    """

    def __init__(
        self,
        *,
        path: str | os.PathLike[str],
        every: int = 10,
        decoder: DecoderConfig | None = None,
        losses: Sequence[str] = (),
        send: Callable[[Row, int], None] | None = None,
    ) -> None:
        super().__init__()
        self.path, self.every, self._decoder, self._send = Path(path), every, decoder, send
        self._losses, self._columns = losses, (*COLUMNS, *losses)
        self._rows: list[Row] = []
        self._seconds_before = 0.0
        self._utilisation: Utilisation | None = None

    def begin(self, trainer: lightning.Trainer) -> None:
        if self._decoder is not None:
            forget_peak_memory(trainer.strategy.root_device)
            self._utilisation = Utilisation(self._decoder, trainer)
        known = read_metrics(self.path)
        self._rows = [row for row in known if row["step"] <= trainer.global_step]
        self._seconds_before = self._rows[-1]["seconds"] if self._rows else 0.0
        self._rewrite()

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
        found = {"validation_loss": float(trainer.callback_metrics["validation/loss"])}
        self._rows[-1] |= found
        self._rewrite()
        if self._send is not None:
            self._send(found, step)

    def on_save_checkpoint(self, trainer: lightning.Trainer, module: Any, checkpoint: Any) -> None:
        """Have the lines before a checkpoint survive what the checkpoint survives."""
        if trainer.is_global_zero and self.path.exists():
            with full_disk(self.path):
                sync(self.path)

    def _append(self, trainer: lightning.Trainer, module: Any) -> None:
        row = {name: module.metrics.get(name) for name in COLUMNS}
        row |= {name: _short(module.metrics.get(name)) for name in self._losses}
        row["tokens_per_second"] = rate = round(self._clock.rate(), 1)
        row["seconds"] = round(self._seconds_before + self._clock.seconds(), 3)
        if self._utilisation is not None:
            row["mfu"] = self._utilisation.mfu(rate, keys=module.metrics["keys_per_token"])
            row["peak_memory_gib"] = peak_memory_gib(trainer.strategy.root_device)
        self._rows.append(row)
        if self._send is not None:
            self._send({k: v for k, v in row.items() if v is not None}, trainer.global_step)

    def _rewrite(self) -> None:
        text = io.StringIO(newline="")
        writer = self._writer(text)
        writer.writeheader()
        writer.writerows(self._rows)
        write_whole(self.path, text.getvalue())

    def _writer(self, file: Any) -> csv.DictWriter[str]:
        # Columns of an older version, or of other sources, are dropped.
        return csv.DictWriter(file, self._columns, lineterminator="\n", extrasaction="ignore")


def _short(value: float | None) -> float | None:
    """Return a mean with six digits; None for that of no tokens."""
    return None if value is None or math.isnan(value) else float(f"{value:.6g}")


def read_metrics(path: Path) -> list[Row]:
    """Return the lines of a metrics file as numbers or None, without an unfinished last line."""
    if not path.exists():
        return []
    whole, _, _ = path.read_text().rpartition("\n")
    return [
        {name: _number(value) for name, value in row.items()}
        for row in csv.DictReader(io.StringIO(whole))
    ]


def _number(text: str) -> float | None:
    return int(text) if text.isdigit() else float(text) if text else None
