"""What all ranks of a training do together: stop after the same step, and report a step that does
not end. What starts them (train/ranks.py) ends the others when one is gone.

A request to stop (train/stop.py), or a callback's, may reach any rank at any moment. After each
optimizer step, or the validation that follows it, the ranks agree on it, over a group of their own
on the host, so that no device is waited for. Then the checkpoint of that step is written, whatever
`checkpoint_every` says.
"""

import contextlib
import faulthandler
import math
import statistics
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from typing import Any, TypeVar

import lightning
import torch

from train import stop
from train.errors import RunError
from train.fit.checkpoints.writing import SaveCheckpoints
from train.fit.parallel.callbacks import SWALLOWED, Ends

T = TypeVar("T")

_STALL = 300.0  # seconds
_STALL_STEPS = 20  # median steps
_STDERR = 2  # the descriptor: sys.stderr may be a stream without one
UNTRAINED = "no step was trained; run the same command again"


class Together(lightning.Callback):
    """Stops all ranks alike; it must come after SaveCheckpoints.

    stall_after: seconds without the end of a step, a batch of a validation or a checkpoint, after
    which the stacks of all threads are printed; None: 5 minutes, or 20 steps if they take longer.
    ends: is told of a callback of another rank that stops all.
    """

    def __init__(self, *, stall_after: float | None = None, ends: Ends | None = None) -> None:
        self.stall_after, self._ends = stall_after, ends or Ends()
        self.held = contextlib.ExitStack()
        self.over = threading.Event()
        self._group: Any = None
        self._rank, self._step = 0, 0
        self._batches, self._validated = 0, -1  # of the validation; the step of the last one
        self._last = self._last_step = time.monotonic()
        self._seconds: deque[float] = deque(maxlen=101)

    def setup(self, trainer: lightning.Trainer, module: Any, stage: str) -> None:
        self._rank = trainer.global_rank
        if trainer.world_size > 1:
            self._group = torch.distributed.new_group(backend="gloo")

    def on_train_start(self, trainer: lightning.Trainer, module: Any) -> None:
        stop.heard_again()  # Lightning has just set a handler, which broadcasts from anywhere
        if trainer.world_size == 1:
            self.held.enter_context(stop.deferred())
        self._step = trainer.global_step
        self._last = self._last_step = time.monotonic()
        threading.Thread(target=self._watch, name="stalls", daemon=True).start()
        if (signal_number := self._agreed(trainer)) is not None:
            self._stop(signal_number, UNTRAINED)

    def on_train_batch_end(self, trainer: lightning.Trainer, *_: Any) -> None:
        self._last, self._step = time.monotonic(), trainer.global_step
        self._seconds.append(self._last - self._last_step)
        self._last_step = self._last
        if not _one(trainer, SaveCheckpoints).validates(trainer):
            self._save_and_stop(trainer)

    def on_validation_start(self, trainer: lightning.Trainer, *_: Any) -> None:
        self._batches = 0

    def on_validation_batch_end(self, trainer: lightning.Trainer, *_: Any) -> None:
        self._last = time.monotonic()
        self._batches += 1

    def on_validation_end(self, trainer: lightning.Trainer, *_: Any) -> None:
        if self._batches < sum(trainer.num_val_batches):
            raise RunError(f"the validation at step {trainer.global_step} ended early{SWALLOWED}")
        self._last = self._last_step = time.monotonic()
        self._validated = trainer.global_step
        self._save_and_stop(trainer)

    def on_train_epoch_end(self, trainer: lightning.Trainer, *_: Any) -> None:
        step, steps = trainer.global_step, trainer.max_steps
        missed = _one(trainer, SaveCheckpoints).validates(trainer) and self._validated != step
        if not trainer.should_stop and (step < steps or missed):
            raise RunError(f"the training ended early, at step {step} of {steps}{SWALLOWED}")

    @contextlib.contextmanager
    def unwatched(self) -> Iterator[None]:
        """Let the block take as long as it takes, such as a measurement that ranks wait for."""
        self._last = math.inf
        try:
            yield
        finally:
            self._last = self._last_step = time.monotonic()

    def _save_and_stop(self, trainer: lightning.Trainer) -> None:
        if (signal_number := self._agreed(trainer)) is None:
            return
        saving = _one(trainer, SaveCheckpoints)
        saving.save(trainer)
        saving.wait(trainer)
        self._stop(
            signal_number, f"step {self._step} is done and its checkpoint is written; {stop.AGAIN}"
        )

    def _agreed(self, trainer: lightning.Trainer) -> int | None:
        """Return the signal that any rank was asked to stop by; a callback of one stops all."""
        signal_number = int(stop.requested() or 0)
        if self._group is not None:
            flags = torch.tensor([signal_number, trainer.should_stop])
            torch.distributed.all_reduce(flags, torch.distributed.ReduceOp.MAX, group=self._group)
            signal_number = int(flags[0])
            if flags[1] and not trainer.should_stop:
                trainer.should_stop = True
                self._ends.stopper = self._ends.stopper or "a callback of another rank"
        return signal_number or None

    def _stop(self, signum: int, text: str) -> None:
        raise stop.Stopped(signum, text if self._rank == 0 else None)

    def _watch(self) -> None:
        """Report a step that does not end, once, and go on waiting."""
        reported = None
        while not self.over.wait(1.0):
            median = statistics.median(self._seconds) if self._seconds else 0.0
            limit = self.stall_after or max(_STALL, _STALL_STEPS * median)
            if time.monotonic() - self._last < limit or reported == self._last:
                continue
            reported = self._last
            text = (
                f"bipe: no step, validation batch or checkpoint has finished for {limit:.0f} s "
                f"after step {self._step} on rank {self._rank}; still waiting; the stacks of its "
                "threads follow"
            )
            print(text, file=sys.stderr, flush=True)
            faulthandler.dump_traceback(_STDERR)


def unwatched(trainer: Any) -> contextlib.AbstractContextManager[None]:
    """Return `Together.unwatched` of a trainer, which may have none."""
    together = next(
        (callback for callback in trainer.callbacks if isinstance(callback, Together)), None
    )
    return contextlib.nullcontext() if together is None else together.unwatched()


@contextlib.contextmanager
def running_together(trainer: lightning.Trainer) -> Iterator[None]:
    """Have the ranks of a trainer stop together in the block that uses it."""
    together = _one(trainer, Together)
    with together.held:
        if trainer.world_size > 1:  # the others wait for a rank that stops by itself
            together.held.enter_context(stop.deferred())
        try:
            with stop.kept(lambda: UNTRAINED):
                yield
        finally:
            together.over.set()


def _one(trainer: lightning.Trainer, kind: type[T]) -> T:
    callbacks: list[Any] = trainer.callbacks  # type: ignore[attr-defined]
    return next(callback for callback in callbacks if isinstance(callback, kind))
