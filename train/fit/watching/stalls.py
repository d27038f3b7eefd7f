"""A step that does not end is reported, with what each thread of its process is doing."""

import contextlib
import faulthandler
import math
import statistics
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from typing import Any

import lightning

_LEAST = 300.0  # seconds
_STEPS = 20  # of median length
_KEPT = 101  # durations of steps, for the median
_STDERR = 2  # the descriptor: sys.stderr may be a stream without one


class StallWatch(lightning.Callback):
    """Prints the stacks of all threads, once, if no step or batch of a validation ends for long.

    after: seconds; None: 5 minutes, or 20 steps if they take longer.
    """

    def __init__(self, *, after: float | None = None) -> None:
        self.after = after
        self._rank, self._step = 0, 0
        self._last_end = self._last_step_end = math.inf  # on the monotonic clock
        self._durations: deque[float] = deque(maxlen=_KEPT)
        self._over = threading.Event()

    def on_train_start(self, trainer: lightning.Trainer, module: Any) -> None:
        self._rank, self._step = trainer.global_rank, trainer.global_step
        self._begin_anew()
        threading.Thread(target=self._watch, name="stalls", daemon=True).start()

    def on_train_batch_end(self, trainer: lightning.Trainer, *_: Any) -> None:
        self._step, begin = trainer.global_step, self._last_step_end
        self._begin_anew()
        self._durations.append(self._last_step_end - begin)

    def on_validation_batch_end(self, trainer: lightning.Trainer, *_: Any) -> None:
        self._last_end = time.monotonic()

    def on_validation_end(self, trainer: lightning.Trainer, *_: Any) -> None:
        self._begin_anew()

    def on_exception(self, trainer: lightning.Trainer, *_: Any) -> None:
        self._over.set()

    def teardown(self, trainer: lightning.Trainer, module: Any, stage: str) -> None:
        self._over.set()

    @contextlib.contextmanager
    def unwatched(self) -> Iterator[None]:
        """Let the block take as long as it takes, such as a measurement that ranks wait for."""
        self._last_end = math.inf
        try:
            yield
        finally:
            self._begin_anew()

    def _begin_anew(self) -> None:
        self._last_end = self._last_step_end = time.monotonic()

    def _watch(self) -> None:
        reported = None
        while not self._over.wait(1.0):
            median = statistics.median(self._durations) if self._durations else 0.0
            limit = self.after or max(_LEAST, _STEPS * median)
            if time.monotonic() - self._last_end < limit or reported == self._last_end:
                continue
            reported = self._last_end
            text = (
                f"bipe: no step, validation batch or checkpoint has finished for {limit:.0f} s "
                f"after step {self._step} on rank {self._rank}; still waiting; the stacks of its "
                "threads follow"
            )
            print(text, file=sys.stderr, flush=True)
            faulthandler.dump_traceback(_STDERR)


def unwatched(trainer: Any) -> contextlib.AbstractContextManager[None]:
    """Return `StallWatch.unwatched` of a trainer, which may have none."""
    for callback in trainer.callbacks:
        if isinstance(callback, StallWatch):
            return callback.unwatched()
    return contextlib.nullcontext()
