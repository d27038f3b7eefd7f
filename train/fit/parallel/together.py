"""What all ranks of a training do together: stop after the same step. What starts them
(train/ranks.py) ends the others when one is gone.

A request to stop (train/stop.py), or a callback's, may reach any rank at any moment. After each
optimizer step, or the validation that follows it, the ranks agree on it, over a group of their own
on the host, so that no device is waited for. Then the checkpoint of that step is written, whatever
`checkpoint_every` says.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

import lightning
import torch

from train import stop
from train.fit.checkpoints.writing import SaveCheckpoints, validation_follows
from train.fit.parallel.callbacks import Ends

UNTRAINED = "no step was trained; run the same command again"


class Together(lightning.Callback):
    """Stops all ranks alike.

    saving: writes the checkpoint of the last step; it comes before this callback. ends: is told of
    a callback of another rank that stops all.
    """

    def __init__(self, saving: SaveCheckpoints, *, ends: Ends) -> None:
        self._saving, self._ends = saving, ends
        self._deferred = contextlib.ExitStack()  # signals only set a flag
        self._group: Any = None

    @contextlib.contextmanager
    def running(self, trainer: lightning.Trainer) -> Iterator[None]:
        """Have the ranks stop together in the block that trains."""
        with self._deferred, stop.kept(lambda: UNTRAINED):
            if trainer.world_size > 1:  # the others wait for a rank that stops by itself
                self._deferred.enter_context(stop.deferred())
            yield

    def setup(self, trainer: lightning.Trainer, module: Any, stage: str) -> None:
        if trainer.world_size > 1:
            self._group = torch.distributed.new_group(backend="gloo")

    def on_train_start(self, trainer: lightning.Trainer, module: Any) -> None:
        stop.heard_again()  # Lightning has just set a handler, which broadcasts from anywhere
        if trainer.world_size == 1:  # from now on a step is finished first
            self._deferred.enter_context(stop.deferred())
        if (signal_number := self._agreed_signal(trainer)) is not None:
            _stop(signal_number, UNTRAINED, trainer)

    def on_train_batch_end(self, trainer: lightning.Trainer, *_: Any) -> None:
        if not validation_follows(trainer):
            self._save_and_stop(trainer)

    def on_validation_end(self, trainer: lightning.Trainer, *_: Any) -> None:
        self._save_and_stop(trainer)

    def _save_and_stop(self, trainer: lightning.Trainer) -> None:
        """Stop if any rank was asked to; a callback that has stopped one stops all."""
        signal_number = self._agreed_signal(trainer)
        if signal_number is None:
            return
        self._saving.save(trainer)
        self._saving.wait(trainer)
        step = trainer.global_step
        _stop(
            signal_number,
            f"step {step} is done and its checkpoint is written; {stop.AGAIN}",
            trainer,
        )

    def _agreed_signal(self, trainer: lightning.Trainer) -> int | None:
        """Return the signal that any rank got; set `should_stop` if any rank has."""
        signal_number = int(stop.requested() or 0)
        if self._group is not None:
            flags = torch.tensor([signal_number, trainer.should_stop])
            torch.distributed.all_reduce(flags, torch.distributed.ReduceOp.MAX, group=self._group)
            signal_number = int(flags[0])
            if flags[1] and not trainer.should_stop:
                trainer.should_stop = True
                self._ends.stopper = self._ends.stopper or "a callback of another rank"
        return signal_number or None


def _stop(signal_number: int, text: str, trainer: lightning.Trainer) -> None:
    raise stop.Stopped(signal_number, text if trainer.is_global_zero else None)
