"""What all ranks of a training do together: stop after the same step, end if one is gone, report
a step that does not end.

A request to stop (train/stop.py) may reach any rank at any moment. After each optimizer step and
each batch of a validation the ranks agree on it, over a group of their own on the host, so that no
device is waited for. Then the checkpoint of that step is written, whatever `checkpoint_every` says.
"""

import contextlib
import faulthandler
import statistics
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from typing import Any, TypeVar

import lightning
import torch
from lightning.pytorch.strategies.launchers import _SubprocessScriptLauncher

from train import stop
from train.errors import EXIT_BUG, EXIT_FAULT, is_mendable
from train.fit.checkpoints.writing import FitLoop, SaveCheckpoints
from train.fit.parallel.peers import Launcher, Peers, end_with_parent

T = TypeVar("T")

_STALL = 300.0  # seconds
_STALL_STEPS = 20  # median steps
_STDERR = 2  # the descriptor: sys.stderr may be a stream without one
UNTRAINED = "no step was trained; run the same command again"


class Together(lightning.Callback):
    """Stops, fails and waits for all ranks alike; it must come after SaveCheckpoints.

    stall_after: seconds without the end of a step, a batch of a validation or a checkpoint, after
    which the stacks of all threads are printed; None: 5 minutes, or 20 steps if they take longer.
    """

    def __init__(self, *, stall_after: float | None = None) -> None:
        self.stall_after = stall_after
        self.held = contextlib.ExitStack()
        self.over = threading.Event()
        self._group: Any = None
        self._peers: Peers | None = None
        self._rank, self._step = 0, 0
        self._last = self._last_step = time.monotonic()
        self._seconds: deque[float] = deque(maxlen=101)

    def setup(self, trainer: lightning.Trainer, module: Any, stage: str) -> None:
        self._rank = trainer.global_rank
        if trainer.world_size == 1:
            return
        self._group = torch.distributed.new_group(backend="gloo")
        end = getattr(trainer.strategy.launcher, "end", lambda: None)
        world = trainer.world_size
        self._peers = Peers(rank=self._rank, world=world, share=self._share, ending=end)

    def on_train_start(self, trainer: lightning.Trainer, module: Any) -> None:
        if trainer.world_size == 1:
            self.held.enter_context(stop.deferred())
        self._step = trainer.global_step
        self._last = self._last_step = time.monotonic()
        threading.Thread(target=self._watch, name="stalls", daemon=True).start()
        if (found := self._agreed()) is not None:
            self._stop(found, UNTRAINED)

    def on_train_batch_end(self, trainer: lightning.Trainer, *_: Any) -> None:
        self._last = time.monotonic()
        if trainer.global_step == self._step:
            return  # gradients are being accumulated
        self._step = trainer.global_step
        self._seconds.append(self._last - self._last_step)
        self._last_step = self._last
        due = _one(trainer, SaveCheckpoints).validates(trainer)
        self._save_and_stop(trainer, validation_due=due)

    def on_validation_batch_end(self, trainer: lightning.Trainer, *_: Any) -> None:
        self._last = time.monotonic()
        self._save_and_stop(trainer, validation_due=True)

    def on_validation_end(self, trainer: lightning.Trainer, *_: Any) -> None:
        self._last = self._last_step = time.monotonic()
        self._save_and_stop(trainer, validation_due=False)

    def on_exception(
        self, trainer: lightning.Trainer, module: Any, exception: BaseException
    ) -> None:
        self.fail(exception)  # before Lightning's teardown, which may wait for the other ranks

    def fail(self, error: BaseException) -> None:
        if self._peers is not None and not isinstance(error, stop.Stopped):
            self._peers.failed(error, status=EXIT_FAULT if is_mendable(error) else EXIT_BUG)

    def leave(self) -> None:
        self.over.set()
        if self._peers is not None:
            self._peers.close()

    def _save_and_stop(self, trainer: lightning.Trainer, *, validation_due: bool) -> None:
        if (found := self._agreed()) is None:
            return
        saving = _one(trainer, SaveCheckpoints)
        saving.save(trainer, validation_due=validation_due)
        saving.wait(trainer)
        self._stop(found, f"step {self._step} is done and its checkpoint is written; {stop.AGAIN}")

    def _agreed(self) -> int | None:
        """Return the signal that any rank was asked to stop by."""
        found = int(stop.requested() or 0)
        if self._group is not None:
            flag = torch.tensor([found])
            torch.distributed.all_reduce(flag, torch.distributed.ReduceOp.MAX, group=self._group)
            found = int(flag)
        return found or None

    def _stop(self, signum: int, text: str) -> None:
        raise stop.Stopped(signum, text if self._rank == 0 else None)

    def _share(self, value: Any) -> Any:
        values = [value]
        torch.distributed.broadcast_object_list(values, src=0, group=self._group)
        return values[0]

    def _watch(self) -> None:
        """Report a step that does not end, once, and go on waiting."""
        told = None
        while not self.over.wait(1.0):
            median = statistics.median(self._seconds) if self._seconds else 0.0
            limit = self.stall_after or max(_STALL, _STALL_STEPS * median)
            if time.monotonic() - self._last < limit or told == self._last:
                continue
            told = self._last
            text = (
                f"bipe: no step, validation batch or checkpoint has finished for {limit:.0f} s "
                f"after step {self._step} on rank {self._rank}; still waiting; the stacks of its "
                "threads follow"
            )
            print(text, file=sys.stderr, flush=True)
            faulthandler.dump_traceback(_STDERR)


@contextlib.contextmanager
def running_together(trainer: lightning.Trainer) -> Iterator[None]:
    """Have the ranks of a trainer end together, in order or not, in the block that uses it."""
    _take_over(trainer)
    together, launcher = _one(trainer, Together), trainer.strategy.launcher
    with together.held:
        if trainer.world_size > 1:  # the others wait for a rank that stops by itself
            end_with_parent()
            together.held.enter_context(stop.deferred())
        try:
            with stop.kept(lambda: UNTRAINED):
                yield
        except Exception as error:
            together.fail(error)
            raise
        finally:
            together.leave()
            if isinstance(launcher, Launcher):
                launcher.end()


def _take_over(trainer: lightning.Trainer) -> None:
    """Replace what Lightning does about signals and its processes."""
    # Its SIGTERM handler broadcasts from anywhere, its SLURM plugin requeues, each batch waits.
    trainer._signal_connector.register_signal_handlers = lambda: None  # type: ignore[method-assign]
    loop = FitLoop(trainer, max_epochs=trainer.max_epochs)
    loop.epoch_loop = trainer.fit_loop.epoch_loop
    loop.epoch_loop._broadcast_sigterm_tensor = lambda: None  # type: ignore[method-assign]
    trainer.fit_loop = loop
    strategy: Any = trainer.strategy
    if isinstance(strategy.launcher, _SubprocessScriptLauncher):
        strategy._launcher = Launcher(
            strategy.cluster_environment, strategy.num_processes, strategy.num_nodes
        )


def _one(trainer: lightning.Trainer, kind: type[T]) -> T:
    callbacks: list[Any] = trainer.callbacks  # type: ignore[attr-defined]
    return next(each for each in callbacks if isinstance(each, kind))
