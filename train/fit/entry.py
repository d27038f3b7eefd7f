"""What a run is to do, and how its processes enter its folder: rank 0 decides, others are told.

Rank 0 holds the folder's lock until the run ends. The others receive its decision when all of them
are there.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lightning
import torch

from bipe import __version__
from bipe.build import TARGET, build
from bipe.sealing import CheckpointError, read_config
from train.config import Config
from train.config.sections import SCHEDULE
from train.errors import EXIT_FAULT, RunError
from train.fit import runs
from train.fit.checkpoints import step_of
from train.fit.checkpoints.reading import latest_checkpoint, remove_unfinished
from train.fit.machine import revision
from train.fit.module import LMModule, Training
from train.fit.parallel.callbacks import Ends
from train.fit.record import Session, changes, command_line, recorded
from train.ranks import world

_SMALL_CHANGE = 0.1  # of the learning rate, beyond which a change of plan says it
_REPORT = 5.0  # seconds for rank 0 to do so


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """How a run trains, and where.

    config: conf/config.yaml explains each value; it is kept in the folder. command: that of the
    processes of other devices. best: write the weights with the lowest validation loss instead of
    the last ones.
    """

    config: Config
    folder: Path
    training: Training
    callbacks: Sequence[lightning.Callback]
    command: str
    best: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What to do in a folder. checkpoint: to go on from; None: start at the first step."""

    finished: bool = False
    checkpoint: Path | None = None

    @property
    def step(self) -> int:
        return 0 if self.checkpoint is None else step_of(self.checkpoint)


def find_entry(folder: Path, *, config: Mapping[str, Any], data: str | None = None) -> Entry:
    """Claim the folder and return what is to be done there; RunError if it is not free for that.

    data: the digest of the data to train on, which must be that of a finished run.
    """
    runs.claim(folder, if_exists=config["if_exists"], config=config)
    if config["if_exists"] not in runs.RESUMES:
        return Entry()
    notes = _finished(folder)
    if notes is not None and runs.short_of(notes, runs.read_config(folder)) is None:
        changed = changes(runs.read_config(folder), config)
        if new := [
            change for change in changed if change.startswith(runs.PLAN)
        ]:  # if_exists=change
            raise RunError(
                f"{folder} is finished, so its plan cannot change ({'; '.join(new)}): bipe extend "
                f"checkpoint={folder} trains it further"
            )
        if data is not None and notes.get("data") != data:
            raise RunError(
                f"{folder} was trained on other data: set data= to that data, name= to use another "
                "folder, or if_exists=overwrite to start again"
            )
        return Entry(finished=True)
    remove_unfinished(folder / runs.CHECKPOINTS)
    runs.remove_partial(folder)
    newest = latest_checkpoint(folder / runs.CHECKPOINTS)
    if newest is None and (folder / runs.MODEL).exists():
        raise RunError(
            f"{folder / runs.MODEL} is damaged, and there is no complete checkpoint to restore "
            "it from: set if_exists=overwrite to train it again, or name= to keep it"
        )
    return Entry(checkpoint=newest)


@contextmanager
def entered(
    folder: Path,
    module: LMModule,
    *,
    command: str,
    trainer: lightning.Trainer,
    decide: Callable[[], Entry],
) -> Iterator[Entry]:
    """Hold the folder on rank 0 for the block, and give the decision of rank 0 to every rank."""
    with ExitStack() as stack:

        def decided() -> Entry:
            stack.enter_context(runs.in_use(folder, command=command))
            return decide()

        if world() is None:
            yield decided()
            return
        trainer.strategy.connect(module)  # FSDP2 asks for it
        trainer.strategy.setup_environment()  # the ranks meet
        entry, fault = None, None
        if trainer.is_global_zero:
            try:
                entry = decided()
            except Exception as error:
                fault = error
        entry = trainer.strategy.broadcast(entry)
        if fault is not None:
            raise fault
        if entry is None:
            time.sleep(_REPORT)  # all ranks are ended with the first one
            raise SystemExit(EXIT_FAULT)  # rank 0 reports the error
        yield entry


@contextmanager
def recorded_on_rank_0(
    fit: Fit, trainer: lightning.Trainer, entry: Entry, ends: Ends
) -> Iterator[None]:
    """Record the session around the block; if it fails before a step, nothing stays of the run."""
    if not trainer.is_global_zero:
        yield
        return
    folder, config, device = fit.folder, fit.config.as_plain(), trainer.strategy.root_device
    kind = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
    session = Session(
        words=command_line(fit.command),
        world_size=trainer.world_size,
        devices=f"{trainer.world_size} x {kind}",
        strategy=type(trainer.strategy).__name__,
        precision=str(trainer.precision),
        versions={"bipe": __version__, "torch": torch.__version__, **revision()},
        start_step=entry.step,
        steps=fit.config.steps,
        changed=changes(runs.read_config(folder), config),
    )
    for change in _told(session.changed, entry.step):
        print(f"{folder}: {change}", file=sys.stderr, flush=True)
    plan, allowed = runs.read_config(folder), fit.config.allowed
    if entry.step and (text := rate_change(plan, config, step=entry.step, allowed=allowed)):
        print(f"{folder}: {text}", file=sys.stderr, flush=True)
    with runs.withdrawn_on_failure(folder), recorded(folder, session):
        if config.get("if_exists") == "change":  # the record has both values by now
            runs.replan(folder, config)
        try:
            yield
        finally:
            session.end_step = max(entry.step, trainer.global_step)
            session.how = ends.how


def _told(changed: Sequence[str], step: int) -> Iterator[str]:
    """Yield the changes of plan and precision; of another schedule only its name."""
    # If the kind of schedule changed, so did its other keys, and they are hidden; else nothing is,
    # since the first branch takes what begins with `was`.
    kind, was = f"schedule.{TARGET} ", 'trainer.precision was "'
    hidden = "schedule." if any(change.startswith(kind) for change in changed) else was
    planned = ("trainer.precision", *runs.PLAN)
    for change in changed:
        if change.startswith(was):
            keeps = change.removeprefix(was).partition('"')[0]
            yield f"{change} from step {step} on; trainer.precision={keeps} keeps it"
        elif change.startswith(kind):
            name = change.replace(kind, "schedule ").replace('"train.fit.optim.', '"')
            yield f"{name} from step {step} on"
        elif change.startswith(planned) and not change.startswith(hidden):
            yield f"{change} from step {step} on"


def _finished(folder: Path) -> Mapping[str, Any] | None:
    """Return the notes of the trained model; None if there is none of the sizes that it had."""
    # Its sha256 takes long for a large model: `load_model` and `bipe status --verify` compare it.
    notes: Mapping[str, Any] | None = None
    if (folder / runs.MODEL).is_dir():
        try:
            notes = read_config(folder / runs.MODEL)["notes"]
        except CheckpointError as fault:
            print(f"{fault}; writing it again", file=sys.stderr, flush=True)
    return notes


def refuse_steps(folder: Path, entry: Entry, *, steps: int, annealed: bool) -> None:
    """Raise RunError for a plan that ends before the checkpoint, or would distort an annealing."""
    if entry.step > steps:
        raise RunError(
            f"steps must be at least {entry.step}, that of the newest checkpoint of {folder}, was: "
            f"{steps}; bipe finish {folder}@STEP ends a copy at an earlier one"
        )
    if annealed and entry.checkpoint and runs.read_config(folder).get("steps") != steps:
        raise RunError(
            f"{folder} anneals its encoding over all steps, so that their number cannot change: "
            "resume it as it was planned, or start another run"
        )


def rate_change(
    old: Mapping[str, Any], new: Mapping[str, Any], *, step: int, allowed: tuple[str, ...]
) -> str:
    """Return how a change of plan moves the learning rate within a step; "" if it hardly does."""
    rate = new["optimizer"].get("lr")
    if not isinstance(rate, int | float) or old.get("schedule") == new["schedule"]:
        return ""
    before, after = (
        rate * build(config["schedule"], SCHEDULE, allowed=allowed)(step) for config in (old, new)
    )
    if abs(after - before) <= _SMALL_CHANGE * before:
        return ""
    return (
        f"the learning rate goes from {before:.3g} to {after:.3g} at step {step}, in one step; "
        f"steps={old.get('steps')} and the schedule of before keep it"
    )
