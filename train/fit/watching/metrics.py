"""The numbers of a training step and the file that keeps them: metrics.csv."""

from __future__ import annotations

import csv
import io
import os
import time
from collections import UserDict, deque
from pathlib import Path
from typing import Any

import lightning
from torch import Tensor

from train.disk.files import full_disk, write_whole

COLUMNS = (
    "step",
    "tokens",
    "loss",
    "lr",
    "grad_norm",
    "clipped_share",
    "skipped_steps",
    "tokens_per_second",
    "seconds",
    "validation_loss",
)


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


class Clock:
    """Measures tokens per second over the last `WINDOW` steps, and estimates the time left."""

    WINDOW = 20

    def __init__(self) -> None:
        self._begin = time.monotonic()
        self._marks: deque[tuple[float, float]] = deque(maxlen=self.WINDOW + 1)
        self._steps = 0

    def count(self, tokens: float) -> None:
        """Record the total number of tokens after a step."""
        self._marks.append((time.monotonic(), tokens))
        self._steps += 1

    def rate(self) -> float:
        if len(self._marks) < 2:
            return 0.0
        (t0, n0), (t1, n1) = self._marks[0], self._marks[-1]
        return (n1 - n0) / max(1e-9, t1 - t0)

    def seconds(self) -> float:
        return time.monotonic() - self._begin

    def left(self, step: int, steps: int) -> str:
        seconds = round(self.seconds() / max(1, self._steps) * (steps - step))
        return f"{seconds // 60}:{seconds % 60:02d} left"


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
    """

    def __init__(self, *, path: str | os.PathLike[str], every: int = 10) -> None:
        super().__init__()
        self.path, self.every = Path(path), every
        self._rows: list[dict[str, Any]] = []
        self._seconds_before = 0.0

    def begin(self, trainer: lightning.Trainer) -> None:
        known = read_metrics(self.path)
        self._rows = [row for row in known if row["step"] <= trainer.global_step]
        self._seconds_before = self._rows[-1]["seconds"] if self._rows else 0.0
        self._rewrite()

    def after_step(self, trainer: lightning.Trainer, module: Any) -> None:
        if trainer.global_step % self.every == 0 or trainer.global_step == trainer.max_steps:
            self._rows.append(self._row(module))
            with full_disk(self.path), self.path.open("a", newline="") as file:
                _writer(file).writerow(self._rows[-1])

    def on_validation_end(self, trainer: lightning.Trainer, module: Any) -> None:
        if not trainer.is_global_zero:
            return
        if not self._rows or self._rows[-1]["step"] != trainer.global_step:
            self._rows.append(self._row(module))
        self._rows[-1]["validation_loss"] = float(trainer.callback_metrics["validation/loss"])
        self._rewrite()

    def _row(self, module: Any) -> dict[str, Any]:
        row = {name: module.metrics.get(name) for name in COLUMNS}
        row["tokens_per_second"] = round(self._clock.rate(), 1)
        row["seconds"] = round(self._seconds_before + self._clock.seconds(), 3)
        return row

    def _rewrite(self) -> None:
        text = io.StringIO(newline="")
        writer = _writer(text)
        writer.writeheader()
        writer.writerows(self._rows)
        write_whole(self.path, text.getvalue())


def read_metrics(path: Path) -> list[dict[str, Any]]:
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


def _writer(file: Any) -> csv.DictWriter[str]:
    return csv.DictWriter(file, COLUMNS, lineterminator="\n")
