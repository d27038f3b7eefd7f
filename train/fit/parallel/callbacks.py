"""Callbacks of a user's: which of Lightning's are refused, and which one ended a training.

Some would train something else; docs/loops.md has the table of all, and a test tries each under a
Trainer and in a command. One ends a training by `trainer.should_stop` or by KeyboardInterrupt: a
witness behind each of them sees which it was. Such a run is not finished: it keeps its checkpoint,
and the same command goes on with it.
"""

import signal
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, NoReturn, ParamSpec, TypeVar

import lightning
from lightning.pytorch import callbacks as of_lightning
from lightning.pytorch.utilities.exceptions import SIGTERMException

from train import stop
from train.errors import ConfigError, DataError, RunError
from train.fit.checkpoints.writing import validation_follows
from train.fit.record import STOPPED
from train.fit.runs import LIGHTNING

_EVERYWHERE = {
    "BaseFinetuning": "it freezes parts by their names in another model: use extend.lora",
    "BatchSizeFinder": "a batch is an optimizer step: use rows.micro_batch=auto",
    "GradientAccumulationScheduler": "a batch is an optimizer step: set rows.global_batch, or a "
    "curriculum with rows.budget=rows",
    "LearningRateFinder": "its trial would be part of the training: compare trials of a few steps, "
    "-m optimizer.lr=1e-3,2e-3",
    "ModelPruning": "the written model has no place for its masks",
    "StochasticWeightAveraging": "it counts epochs, of which a training has one: use "
    "lightning.pytorch.callbacks.EMAWeightAveraging",
}
_IN_COMMANDS = {
    "OnExceptionCheckpoint": "a run is resumed from checkpoints of its own: set checkpoint_every",
}
SWALLOWED = (
    ": a callback or logger raised StopIteration (next() of an iterator at its end), which "
    "Lightning takes for the end of the rows; mend it, and run the same command again"
)
_P = ParamSpec("_P")
_T = TypeVar("_T")
_HOOKS = [
    name
    for name in vars(lightning.Callback)
    if name.startswith(("on_fit_start", "on_train", "on_validation", "on_before", "on_after"))
    and name != "on_train_end"  # an early stop looks after the others of the end of an epoch
]


def refuse_callbacks(callbacks: Sequence[Any], *, command: bool = False) -> None:
    """Raise ConfigError for a callback that cannot act rightly. command: in a run of ours."""
    refused = _EVERYWHERE | (_IN_COMMANDS if command else {})
    for callback in callbacks:
        for name, why in refused.items():
            if isinstance(callback, getattr(of_lightning, name)):
                raise ConfigError(f"{type(callback).__name__} cannot be used: {why}")
        is_saver = isinstance(callback, of_lightning.ModelCheckpoint)
        if is_saver and "'train_time_interval': datetime" in callback.state_key:
            raise ConfigError(
                "train_time_interval of ModelCheckpoint cannot be set, since Lightning ignores it "
                "where a module steps its optimizer itself; set every_n_train_steps"
            )


def refuse_settings(trainer: Any) -> None:
    """Raise ConfigError for callbacks and settings of a Trainer that would train something else."""
    refuse_callbacks(trainer.callbacks)
    for key, unset, cure in (
        ("gradient_clip_val", None, "set clip of Training, whose default is 1"),
        ("accumulate_grad_batches", 1, "a batch has all rows of an optimizer step: set "
         "global_batch and micro_batch of LMDataModule"),
    ):  # fmt: skip
        if (value := getattr(trainer, key)) not in (unset, 0):
            raise ConfigError(f"{key} of the Trainer cannot be set, was: {value}; {cure}")


def refuse_empty(trainer: Any) -> None:
    """Raise DataError for an epoch without a batch, after which Lightning would begin the next."""
    if trainer.fit_loop.epoch_loop.batch_progress.current.completed or trainer.should_stop:
        return
    raise DataError(
        f"an epoch ended without a batch, at step {trainer.global_step} of {trainer.max_steps}: "
        "the loader is an iterator at its end (give a DataLoader), or on_train_batch_start or "
        "on_train_batch_end raised StopIteration or returned -1"
    )


def keep_apart(callbacks: Sequence[lightning.Callback], *, run: Path) -> None:
    """Have checkpoints of Lightning's own callback written to a folder of their own in the run."""
    for callback in callbacks:
        if isinstance(callback, of_lightning.ModelCheckpoint) and callback.dirpath is None:
            callback.dirpath = str(run / LIGHTNING)


class Ends:
    """Why a training ended before its last step. how: as the record of its session says it."""

    def __init__(self) -> None:
        self.how: str | None = None
        self.stopper: str | None = None

    def witnessed(self, callbacks: Sequence[lightning.Callback]) -> list[lightning.Callback]:
        """Return callbacks of the user's with a witness behind each."""
        pairs = [(callback, Witness(type(callback).__name__, self)) for callback in callbacks]
        return [each for pair in pairs for each in pair]

    def note(self, trainer: Any) -> None:
        """Note how a training ended that has not reached its last step."""
        stopper = self.stopper or "a callback"
        if trainer.fast_dev_run:
            stopper = "trainer.fast_dev_run"
        elif stopper == "Timer" and trainer.should_stop:
            stopper = "Timer (trainer.max_time)"
        self.how = f"{STOPPED}{stopper}"

    @contextmanager
    def interrupted(self, folder: Path) -> Iterator[None]:
        """Turn a KeyboardInterrupt that a callback raises in the block into Stopped.

        Lightning does so with SIGTERM where nobody else hears it: in a script of the user's.
        """
        try:
            yield
        except KeyboardInterrupt as fault:
            self._stop(fault, folder)
        except SystemExit as end:  # Lightning exits like this, silently
            if isinstance(end.__context__, KeyboardInterrupt):
                self._stop(end.__context__, folder)
            if isinstance(end, SIGTERMException):
                kept = f"the newest checkpoint of {folder} is kept; {stop.AGAIN}"
                raise stop.Stopped(signal.SIGTERM, kept) from None
            raise

    def _stop(self, fault: KeyboardInterrupt, folder: Path) -> NoReturn:
        stop.heard_again()  # Lightning has switched SIGINT off
        why = f"KeyboardInterrupt in {_raised_by(fault) or 'the training'}"
        self.how = f"{STOPPED}{why}"
        reason = f"{why}; the newest checkpoint of {folder} is kept; {stop.AGAIN}"
        raise stop.Stopped(signal.SIGINT, reason) from None


def unswallowed(step: Callable[_P, _T]) -> Callable[_P, _T]:
    """Turn a StopIteration of a callback in a step into RunError; Lightning would go on without.

    ConfigError for a module that another Trainer has.
    """

    @wraps(step)
    def whole(*given: _P.args, **named: _P.kwargs) -> _T:
        module: Any = given[0]
        if module.fabric is None and not module.trainer.training:
            raise ConfigError(
                "another Trainer took this module within a training, such as trainer.validate in a "
                "callback: give it copy.deepcopy(module)"
            )
        try:
            return step(*given, **named)
        except StopIteration as end:
            raise RunError(f"a step ended early{SWALLOWED}") from end

    return whole


class NothingSwallowed(lightning.Callback):
    """Raises RunError where a StopIteration has ended a validation or the training."""

    def __init__(self) -> None:
        self._batches = 0  # of the validation under way
        self._validated = -1  # the step of the last one

    def on_validation_start(self, trainer: lightning.Trainer, *_: Any) -> None:
        self._batches = 0

    def on_validation_batch_end(self, trainer: lightning.Trainer, *_: Any) -> None:
        self._batches += 1

    def on_validation_end(self, trainer: lightning.Trainer, *_: Any) -> None:
        if self._batches < sum(trainer.num_val_batches):
            raise RunError(f"the validation at step {trainer.global_step} ended early{SWALLOWED}")
        self._validated = trainer.global_step

    def on_train_epoch_end(self, trainer: lightning.Trainer, *_: Any) -> None:
        step, steps = trainer.global_step, trainer.max_steps
        missed = validation_follows(trainer) and self._validated != step
        if not trainer.should_stop and (step < steps or missed):
            raise RunError(f"the training ended early, at step {step} of {steps}{SWALLOWED}")


@contextmanager
def exits_are_faults() -> Iterator[None]:
    """Turn a SystemExit that a callback raises into RunError; Lightning's own is an interrupt."""
    try:
        yield
    except SystemExit as end:
        if isinstance(end, SIGTERMException) or isinstance(end.__context__, KeyboardInterrupt):
            raise
        who = _raised_by(end) or "the training"
        raise RunError(f"SystemExit({end.code!r}) in {who} ended the run") from end


def _raised_by(fault: BaseException) -> str | None:
    """Return the name of the innermost callback that an exception came through."""
    raiser = None
    for frame, _ in traceback.walk_tb(fault.__traceback__):
        owner = frame.f_locals.get("self")
        if isinstance(owner, lightning.Callback):
            raiser = type(owner).__name__
    return raiser


class Witness(lightning.Callback):
    """Notes in `ends` whether the callback before it, of this name, has asked for a stop."""

    def __init__(self, name: str, ends: Ends) -> None:
        self.name, self.ends = name, ends

    def look(self, trainer: lightning.Trainer, *_: Any) -> None:
        if trainer.should_stop and self.ends.stopper is None:
            self.ends.stopper = self.name


for _hook in _HOOKS:
    setattr(Witness, _hook, Witness.look)
