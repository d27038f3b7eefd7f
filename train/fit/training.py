"""A training run, from claiming its folder to writing the model."""

import atexit
import contextlib
import logging
import os
import sys
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import lightning
import torch
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.fabric.utilities.rank_zero import rank_zero_only
from torch import Tensor

from bipe import Decoder, DecoderConfig
from bipe.attention.context import refuse_shared
from bipe.encodings.base import annealed
from train import stop
from train.data.rows.choices import uneven
from train.data.rows.datamodule import LMDataModule
from train.disk.files import write_whole
from train.errors import ConfigError, as_config_error
from train.fit import runs
from train.fit.checkpoints.shards import Background
from train.fit.checkpoints.writing import AtomicCheckpointIO, SaveBest, SaveCheckpoints
from train.fit.entry import (
    CHECKPOINT,
    Entry,
    Fit,
    entered,
    find_entry,
    recorded_on_rank_0,
    refuse_steps,
)
from train.fit.handover import (
    files_of_data,
    notes_of_rows,
    notes_of_training,
    write_model,
    write_shared,
)
from train.fit.lora import merged
from train.fit.machine import cluster, environment
from train.fit.module import Adaptation, LMModule, refuse_unfit
from train.fit.parallel.at_once import RowsAtOnce
from train.fit.parallel.sharded import Sharded, full_state
from train.fit.parallel.together import UNTRAINED, Together, running_together
from train.fit.watching.counts import summary_of
from train.fit.watching.metrics import MetricsFile
from train.fit.watching.watch import ProgressBar, Tracking, watched
from train.ranks import world

log = logging.getLogger("bipe")

_LAUNCH = (CHECKPOINT, "LOCAL_RANK", "NODE_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
_NOT_HERE = (
    # A thread reads the rows from memory-mapped files: workers would have nothing to do.
    ".*does not have many workers.*",
    # The data module resumes (consumed_rows), not its loader.
    ".*your dataloader is not resumable.*",
    ".*across ranks is zero.*",  # no validation
    ".*smaller than the logging interval.*",  # metrics.csv has the last step in any case
    ".*Trainer already configured with.*",
    ".*`srun` command is available.*",  # a login node
    ".*treespec.*LeafSpec.*",  # a deprecation in torch, of what Lightning calls
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """The model at the first step. weights: None for fresh ones. notes: for the written model.

    teacher, adaptation: see LMModule.
    """

    decoder: DecoderConfig
    weights: Mapping[str, Tensor] | None = None
    notes: Mapping[str, Any] = field(default_factory=dict)
    teacher: tuple[Decoder, float] | None = None
    adaptation: Adaptation = field(default_factory=Adaptation)


def train_model(fit: Fit, start: Start, *, rows: LMDataModule) -> Path:
    """Train and return the run's folder; invalid settings raise before the folder is claimed."""
    folder, steps = fit.folder, fit.config.steps
    if steps < 1:
        raise ConfigError(f"steps must be at least 1, was: {steps}")
    rows.check(steps=steps)
    stop.check(UNTRAINED)  # the run before, in a sweep, was too far to stop
    trainer = make_trainer(fit)
    sharded = isinstance(trainer.strategy, Sharded)
    _refuse_sharded(start, sharded=sharded, shared=rows.context_parallel > 1)
    names = ("weights", "teacher", "adaptation")
    given: dict[str, Any] = {name: getattr(start, name) for name in names}
    with as_config_error("model: "):
        module = LMModule(start.decoder, fit.training, **given, sharded=sharded)
    refuse_unfit(module, row_length=rows.row_length)
    _require_fitting(trainer, module, rows)

    def decide() -> Entry:
        entry = find_entry(folder, config=fit.stored, data=rows.data_digest())
        refuse_steps(folder, entry, steps=steps, annealed=bool(annealed(module.model.scheme)))
        return entry

    with quiet(), entered(folder, command=fit.command, trainer=trainer, decide=decide) as entry:
        if entry.finished:
            if trainer.is_global_zero:
                print(f"{folder} is finished: step {steps} of {steps}", file=sys.stderr)
            return folder
        with (
            recorded_on_rank_0(fit, trainer, entry),
            running_together(trainer),
            fitting(fit, entry),
        ):
            _fit(fit, start, entry, trainer, module, rows)
    if (late := stop.requested()) and trainer.is_global_zero:
        told = f"bipe: {late.name} came after the last step: {folder} is finished"
        print(told, file=sys.stderr, flush=True)
    return folder


def _refuse_sharded(start: Start, *, sharded: bool, shared: bool) -> None:
    if start.teacher is not None and (sharded or shared):
        raise ConfigError(
            "extend.distill needs a second whole model on each device, and whole rows: set "
            "trainer=ddp context_parallel=1, or extend.distill=0"
        )
    if start.adaptation.lora is not None and sharded:
        raise ConfigError("extend.lora needs the whole model on each device: set trainer=ddp")


def _require_fitting(trainer: lightning.Trainer, module: LMModule, rows: LMDataModule) -> None:
    size, chunks, devices = rows.context_parallel, 2 * rows.context_parallel, trainer.world_size
    if devices % size:
        raise ConfigError(
            f"context_parallel must divide the number of devices ({devices}), was: {size}; set "
            "trainer.devices"
        )
    if size > 1:
        for length in sorted({stage.length for stage in rows.stages.each}):
            if length % chunks:
                raise ConfigError(
                    f"row_length and the lengths of rows.curriculum must be multiples of 2 x "
                    f"context_parallel ({chunks}), was: {length}"
                )
        with as_config_error("context_parallel: "):
            refuse_shared(module.model.scheme, path=module.options.attention)
    if fault := uneven(rows.global_batch, rows.micro_batch, devices=devices, context=size):
        raise ConfigError(fault)


def _fit(
    fit: Fit,
    start: Start,
    entry: Entry,
    trainer: lightning.Trainer,
    module: LMModule,
    rows: LMDataModule,
) -> None:
    folder, steps = fit.folder, fit.config.steps
    resumed_at = None if entry.checkpoint is None else entry.step
    if trainer.is_global_zero:
        every, warmup = fit.config.validate_every, fit.config.schedule.get("warmup")
        for text in runs.rarely_meant(steps=steps, warmup=warmup, validate_every=every):
            log.warning("%s", text)
    with watched(
        trainer, module.model, rows, files=(folder / runs.METRICS, folder / runs.MODEL),
        config=fit.stored, resumed_at=resumed_at,
    ):  # fmt: skip
        notes, data = dict[str, Any](), dict[str, str]()
        if trainer.is_global_zero:  # all that a model needs is read before the first step
            notes |= notes_of_rows(rows, steps=steps) | dict(start.notes)
            notes |= notes_of_training(fit.stored, command=fit.command)
            data = files_of_data(rows.sets, sources=rows.source_names, max_length=rows.row_length)
            write_shared(module.model, folder, notes=notes, files=data)
        with _late_faults(trainer, steps):
            trainer.fit(module, rows, ckpt_path=entry.checkpoint)
        state, own = _trained(trainer, module, rows)
        if trainer.is_global_zero:
            # `make_trainer` puts it first, if there is one.
            best = trainer.callbacks[0]  # type: ignore[attr-defined]
            if isinstance(best, SaveBest) and (weights := best.weights()) is not None:
                state, own = weights, own | best.notes()
            write_model(module.model, folder, state=state, notes=notes | own, files=data)
        trainer.strategy.barrier()


@contextlib.contextmanager
def _late_faults(trainer: lightning.Trainer, steps: int) -> Iterator[None]:
    """Log what fails once all steps are done, such as a logger: the model is written all the same.

    Of several processes the others would wait for the one that failed; they have the checkpoint.
    """
    try:
        yield
    except Exception as fault:
        if trainer.global_step < steps or trainer.world_size > 1:
            raise
        log.warning("after the last step: %s: %s", type(fault).__name__, fault)


def write_untrained(
    model: Decoder,
    notes: Mapping[str, Any],
    *,
    files: Mapping[str, str],
    folder: Path,
    config: Mapping[str, Any],
    command: str,
) -> Path:
    """Write a run folder with an untrained model, and return it. files: of the model, by name."""
    if rank_zero_only.rank:  # type: ignore[attr-defined]
        return folder
    with runs.in_use(folder, command=command):
        if not find_entry(folder, config=config).finished:
            with runs.withdrawn_on_failure(folder):
                write_model(model, folder, notes=notes, files=files)
    return folder


def _trained(
    trainer: lightning.Trainer, module: LMModule, rows: LMDataModule
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the trained weights and what is known after training; every rank has to call it."""
    return merged(full_state(module.model)), {
        "positions": summary_of(module.indices.state(trainer.strategy.root_device)),
        "tokens": rows.consumed_rows * rows.row_length,
        "steps": trainer.global_step,
        "skipped_steps": module.skipped.state()[0],
    }


def make_trainer(fit: Fit) -> lightning.Trainer:
    """Return a Lightning trainer with our own checkpoints, numbers and loggers."""
    config, folder = fit.config, fit.folder
    tracking = Tracking(
        folder=folder, config=fit.stored,
        loggers=config.logger, facts=environment, allowed=config.allowed,
    )  # fmt: skip
    background = Background() if config.checkpoint_async else None
    with quiet(), as_config_error("trainer: ", MisconfigurationException):
        trainer: lightning.Trainer = config.call(
            "trainer",
            default_root_dir=folder,
            max_steps=config.steps,
            max_epochs=-1,  # steps end the run: a loader never does
            callbacks=[
                SaveCheckpoints(
                    folder=folder / runs.CHECKPOINTS,
                    every=config.checkpoint_every,
                    keep=config.keep_checkpoints,
                    validate_every=config.validate_every,
                    background=background,
                ),
                Together(stall_after=config.stall_after),
                RowsAtOnce(validate_every=config.validate_every, copied=config.checkpoint_async),
            ],
            logger=tracking,
            log_every_n_steps=config.log_every,
            plugins=[AtomicCheckpointIO(background=background), *cluster()],
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            use_distributed_sampler=False,
            num_sanity_val_steps=0,  # else each resume would begin with a validation
        )
    metrics = MetricsFile(path=folder / runs.METRICS, every=config.log_every, send=tracking.send)
    own = [metrics, ProgressBar(title=folder.name), *fit.callbacks]
    # Before SaveCheckpoints, see SaveBest. Here any callback of the user's is let in.
    best = [SaveBest(folder=folder / runs.CHECKPOINTS)] if fit.best else []
    trainer.callbacks[:0] = [*best, *own]  # type: ignore[attr-defined]
    if isinstance(trainer.strategy, Sharded):
        trainer.strategy.saves(whole=config.checkpoints == "whole", background=background)
    elif config.checkpoints == "sharded":
        raise ConfigError(
            "checkpoints=sharded needs a sharded model, trainer=fsdp2 or trainer=hsdp; else set "
            "checkpoints=null"
        )
    return trainer


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Hide Lightning's messages about devices, and its advice that does not apply here."""
    loggers = [logging.getLogger(f"lightning.{part}") for part in ("pytorch", "fabric")]
    levels = [(logger, logger.level) for logger in loggers]
    try:
        with warnings.catch_warnings():
            for logger in loggers:
                logger.setLevel(logging.ERROR)
            for message in _NOT_HERE:
                warnings.filterwarnings("ignore", message=message)
            yield
    finally:
        for logger, level in levels:
            logger.setLevel(level)


@contextlib.contextmanager
def fitting(fit: Fit, entry: Entry) -> Iterator[None]:
    """Adapt Lightning's multi-process launch to a command.

    Lightning starts the processes of other devices by repeating the command line, in a multirun
    that of the whole sweep; instead they run the command on a copy of this configuration, with
    allowed_targets as an argument, since those in a file do not count. Then variables and process
    group go, for the next run of a sweep; after a failure others may be waiting in the group.
    """
    from hydra.core.hydra_config import HydraConfig

    hydra = HydraConfig.instance()
    words, composed = sys.argv, hydra.cfg
    environment = {name: os.environ.get(name) for name in _LAUNCH}
    allowed = f"allowed_targets=[{','.join(fit.training.allowed)}]"
    config_file = fit.folder / runs.SESSION_CONFIG
    starts = CHECKPOINT not in os.environ and world() is None
    try:
        if starts:  # the other ranks read the file, and find the checkpoint in their environment
            write_whole(config_file, runs.as_yaml({**fit.stored, "name": fit.folder.name}))
            os.environ[CHECKPOINT] = str(entry.checkpoint or "")
        with quiet():
            sys.argv = [words[0], fit.command, "--config-file", str(config_file), allowed]
            hydra.cfg = None
            yield
        ours = environment["LOCAL_RANK"] is None and world() is None  # else for the whole sweep
        if torch.distributed.is_initialized():
            leave = torch.distributed.destroy_process_group
            if ours:
                leave()
            else:  # the threads of a group that is there when a process ends may abort it
                atexit.unregister(leave)
                atexit.register(leave)
    except SystemExit as exit:  # Lightning exits like this, silently, on Ctrl-C
        if isinstance(exit.__context__, KeyboardInterrupt):
            raise KeyboardInterrupt from exit
        raise
    finally:
        if starts:
            config_file.unlink(missing_ok=True)
        sys.argv, hydra.cfg = words, composed
        for name, value in environment.items():
            os.environ.pop(name, None)
            os.environ.update({} if value is None else {name: value})
