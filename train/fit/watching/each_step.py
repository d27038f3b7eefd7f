"""A callback that acts after each optimizer step, on rank 0, with a clock over the steps so far."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import deque
from datetime import timedelta
from typing import Any

import lightning

_WINDOW = 20  # steps of a rate


class EachStep(lightning.Callback, ABC):
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

    @abstractmethod
    def begin(self, trainer: lightning.Trainer) -> None: ...

    @abstractmethod
    def after_step(self, trainer: lightning.Trainer, module: Any) -> None: ...


class Clock:
    """Measures tokens per second over the last steps, and estimates the time left."""

    def __init__(self) -> None:
        self._begin = time.monotonic()
        self._marks: deque[tuple[float, float]] = deque(maxlen=_WINDOW + 1)
        self._steps = 0

    def count(self, tokens: float) -> None:
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
        seconds = self.seconds() / max(1, self._steps) * (steps - step)
        return f"{timedelta(seconds=round(seconds))} left"
