"""A training run, from claiming its folder to writing the model."""

import atexit
import contextlib
import logging
import os
import shlex
import sys
import threading
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import lightning
import torch
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.fabric.utilities.rank_zero import rank_zero_only
from lightning.pytorch.callbacks import LambdaCallback, Timer
from torch import Tensor

from bipe import Decoder, DecoderConfig, Positions
from bipe.attention.context import refuse_shared
from bipe.encodings import Flat, Learned
from bipe.encodings.base import annealed
from train import stop
from train.config import called
from train.data.rows.choices import Stages, uneven
from train.data.rows.datamodule import LMDataModule, refuse_trainer
from train.errors import ConfigError, as_config_error
from train.fit import runs
from train.fit.checkpoints.reading import weights_of
from train.fit.checkpoints.shards import Background
from train.fit.checkpoints.writing import AtomicCheckpointIO, SaveBest, SaveCheckpoints
from train.fit.entry import (
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
from train.fit.machine import cluster, environment, native_bfloat16, patient, placed
from train.fit.module import Adaptation, LMModule
from train.fit.optim import TrainingDiverged
from train.fit.parallel.at_once import RowsAtOnce
from train.fit.parallel.callbacks import (
    Ends,
    NothingSwallowed,
    exits_are_faults,
    keep_apart,
    refuse_callbacks,
)
from train.fit.parallel.sharded import Sharded, full_state, refuse_adapted, refuse_strategy
from train.fit.parallel.together import UNTRAINED, Together
from train.fit.watching.counts import summary_of
from train.fit.watching.metrics import MetricsFile
from train.fit.watching.stalls import StallWatch
from train.fit.watching.watch import ProgressBar, watched
from train.ranks import world

log = logging.getLogger("bipe")

_NOT_HERE = (
    # A thread reads the rows from memory-mapped files: workers would have nothing to do.
    ".*does not have many workers.*",
    # The data module resumes (consumed_rows), not its loader.
    ".*your dataloader is not resumable.*",
    ".*across ranks is zero.*",  # no validation
    ".*Using ModelCheckpoint with manual optimization.*",  # it saves the step that is done
    ".*smaller than the logging interval.*",  # metrics.csv has the last step in any case
    ".*Trainer already configured with.*",
    ".*WeightAveraging callback with a model that overrides.*",  # sharding is refused
    ".*`srun` command is available.*",  # a login node
    ".*treespec.*LeafSpec.*",  # a deprecation in torch, of what Lightning calls
)

# What Lightning sets for the ranks that it starts, also where there is only one.
_OF_LAUNCHERS = (
    "MASTER_ADDR", "MASTER_PORT", "NODE_RANK", "LOCAL_RANK", "WORLD_SIZE", "OMP_NUM_THREADS",
)  # fmt: skip


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
    folder, steps, ends = fit.folder, fit.config.steps, Ends()
    trainer, together = make_trainer(fit, ends)
    stop.check(UNTRAINED)  # the run before, in a sweep, was too far to stop
    if trainer.world_size > 1 and world() is None:
        raise ConfigError("several ranks are started by the command; see train.ranks.start_ranks")
    module = module_of(fit, start, trainer, stages=rows.stages)
    rows.check(steps=steps)
    if fault := uneven(
        rows.global_batch, rows.micro_batch, devices=trainer.world_size,
        context=rows.context_parallel,
    ):  # fmt: skip
        raise ConfigError(fault)

    def decide() -> Entry:
        entry = find_entry(folder, config=fit.config.as_plain(), data=rows.data_digest())
        refuse_steps(folder, entry, steps=steps, annealed=bool(annealed(module.model.scheme)))
        return entry

    with (
        quiet(),
        entered(folder, module, command=fit.command, trainer=trainer, decide=decide) as entry,
    ):
        if entry.finished:
            if trainer.is_global_zero:
                print(f"{folder} is finished: step {steps} of {steps}", file=sys.stderr)
            return folder
        with (
            recorded_on_rank_0(fit, trainer, entry, ends),
            together.running(trainer),
            one_of_several(),
            ends.interrupted(folder),
        ):
            _fit(fit, start, entry, trainer, module, rows)
            if trainer.global_step < steps:
                ends.note(trainer)
    if trainer.is_global_zero:
        for line in _last_words(folder, ends, entry, step=trainer.global_step, steps=steps):
            print(f"bipe: {line}", file=sys.stderr, flush=True)
    return folder


def _last_words(folder: Path, ends: Ends, entry: Entry, *, step: int, steps: int) -> Iterator[str]:
    """Yield what a user has to know of a training that was stopped, or could not be any more."""
    if ends.how is not None:
        on = "the same command goes on"
        if step <= entry.step:
            on = "again at once: remove what stops it, and the command goes on"
        end = f", and bipe finish {folder} ends it there" if step else ""
        yield f"{folder} was {ends.how} at step {step} of {steps}, and is not finished; {on}{end}"
    elif late := stop.requested():
        yield f"{late.name} came after the last step: {folder} is finished"


def module_of(
    fit: Fit, start: Start, trainer: lightning.Trainer, *, stages: Stages, planned: bool = False
) -> LMModule:
    """Return the module to train; ConfigError or DataError for what its settings rule out.

    planned: it is not trained, so that the model needs no memory.
    """
    config, size = fit.config, fit.config.context_parallel
    refuse_trainer(trainer, validates=config.rows.validation_rows > 0)
    refuse_strategy(trainer)
    sharded = isinstance(trainer.strategy, Sharded)
    adapted = bool(config.extend.distill), config.extend.lora is not None
    refuse_adapted(*adapted, sharded=sharded, shared=size > 1)
    names = ("weights", "teacher", "adaptation")
    options: dict[str, Any] = {name: getattr(start, name) for name in names}
    with as_config_error("model: "):
        module = LMModule(start.decoder, fit.training, **options, sharded=sharded or planned)
    refuse_unfit(module, row_length=stages.row_length)
    stages.refuse_short(config.steps)
    if size > 1:
        for length in sorted({stage.length for stage in stages.each}):
            if length % (2 * size):
                raise ConfigError(
                    f"row_length and the lengths of rows.curriculum must be multiples of 2 x "
                    f"context_parallel ({2 * size}), was: {length}"
                )
        with as_config_error("context_parallel: "):
            refuse_shared(module.model.scheme, path=module.options.attention)
    return module


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
        precision = str(trainer.precision)
        for text in rarely_meant(
            steps=steps, warmup=warmup, validate_every=every, precision=precision
        ):
            log.warning("%s", text)
    with watched(
        trainer, module.model, rows, files=(folder / runs.METRICS, folder / runs.MODEL),
        config=fit.config.as_plain(), facts=environment, allowed=fit.config.allowed,
        resumed_at=resumed_at,
    ):  # fmt: skip
        notes, data = dict[str, Any](), dict[str, str]()
        if trainer.is_global_zero:  # all that a model needs is read before the first step
            notes |= notes_of_rows(rows, steps=steps) | dict(start.notes)
            notes |= notes_of_training(fit.config.as_plain(), command=fit.command)
            data = files_of_data(rows.sets, sources=rows.source_names, max_length=rows.row_length)
            write_shared(module.model, folder, notes=notes, files=data)
        with _late_faults(trainer, fit), _cured(fit):
            try:
                with exits_are_faults():
                    trainer.fit(module, rows, ckpt_path=entry.checkpoint)
            except (MisconfigurationException, ModuleNotFoundError, RuntimeError) as fault:
                missed = str(fault).startswith("Early stopping conditioned on metric")
                if type(fault) is RuntimeError and not missed:
                    raise
                raise ConfigError(f"trainer, or a callback: {fault}") from fault
        if trainer.global_step < steps:  # a callback has stopped it
            return
        state, own = _trained(trainer, module, rows)
        if trainer.is_global_zero:
            if entry.checkpoint and entry.step == steps:  # no end put averages in place of weights
                state = weights_of(entry.checkpoint)
            # `make_trainer` puts it first, if there is one.
            best = trainer.callbacks[0]  # type: ignore[attr-defined]
            if isinstance(best, SaveBest) and (weights := best.weights()) is not None:
                state, own = weights, own | best.notes()
            write_model(module.model, folder, state=state, notes=notes | own, files=data)
        trainer.strategy.barrier()


@contextlib.contextmanager
def _cured(fit: Fit) -> Iterator[None]:
    """Name the command that starts a training again that diverges."""
    try:
        yield
    except TrainingDiverged as fault:
        raise TrainingDiverged(f"{fault}; {_lower_rate(fit)}") from fault


def _lower_rate(fit: Fit) -> str:
    """Return how a run that diverged is started again with half its learning rate."""
    folder, rate = fit.folder, fit.config.optimizer.get("lr")
    if not isinstance(rate, int | float):
        return "lower the learning rate"
    words = [f"optimizer.lr={rate / 2:g}"]
    if not runs.has_trained(folder):  # and so will not stay
        return f"repeat the command with {words[0]}"
    words += [f"out={folder.parent}", f"name={folder.name}", "if_exists=overwrite"]
    if allowed := fit.config.allowed_targets:
        words.append(f"allowed_targets=[{','.join(allowed)}]")
    start = f"bipe {fit.command} --config-file {shlex.quote(str(folder / runs.CONFIG))}"
    return f"to start again: {start} {shlex.join(words)}"


@contextlib.contextmanager
def _late_faults(trainer: lightning.Trainer, fit: Fit) -> Iterator[None]:
    """Log what fails once all steps are done, such as a logger: the model is written all the same.

    Of several processes the others would wait for the one that failed; they have the checkpoint.
    Where the best step is kept, it may be the last, of which the fault has prevented the note.
    """
    try:
        yield
    except Exception as fault:
        if trainer.global_step < fit.config.steps or trainer.world_size > 1 or fit.best:
            raise
        log.warning("after the last step: %s: %s", type(fault).__name__, fault)


def refuse_unfit(module: LMModule, *, row_length: int) -> None:
    """Raise ConfigError for rows, an attention path or an optimizer that a model cannot take."""
    scheme = module.model.scheme
    encoding = scheme.encoding if isinstance(scheme, Flat) else None
    if isinstance(encoding, Learned) and encoding.table.num_embeddings < row_length:
        raise ConfigError(
            "row_length must be at most encoding.length of a flat learned table "
            f"({encoding.table.num_embeddings}), was: {row_length}"
        )
    options = module.options
    if options.attention != "auto":  # a path may not support the encoding's bias
        tokens = torch.zeros(1, 2, dtype=torch.int64)
        small = replace(module.model.config, n_layer=1, vocab_size=1)
        with as_config_error("attention: "):  # with gradients, which some paths have not
            model = Decoder(small, attention=options.attention, allowed=options.allowed)
            model(tokens, Positions.from_marks(tokens.byte(), levels=model.levels))
    module.configure_optimizers()


def rarely_meant(
    *, steps: int, warmup: Any, validate_every: int | None, precision: str
) -> Iterator[str]:
    """Yield what is allowed, and rarely meant. warmup: of any schedule, if it has one."""
    if "bf16" in precision and not native_bfloat16():
        yield (
            f"trainer.precision={precision}: this machine emulates bfloat16, which often takes "
            "more than ten times as long as trainer.precision=32-true"
        )
    if isinstance(warmup, int) and warmup >= max(1, steps):
        yield (
            f"schedule.warmup={warmup} is not below steps={steps}: the learning rate only rises; "
            f"set schedule.warmup={max(1, steps // 10)}"
        )
    if validate_every is not None and validate_every > steps:
        yield (
            f"validate_every={validate_every} is above steps={steps}: there will be no validation "
            "loss, nor a best step to keep; validate_every=null validates at the end"
        )
    elif validate_every is not None and (left := steps % validate_every):
        largest = max(n for n in range(1, validate_every + 1) if steps % n == 0)
        yield (
            f"validate_every={validate_every} does not divide steps={steps}: the last validation "
            f"is at step {steps - left}, and the model that is written is not validated; "
            f"validate_every={largest} or null validates it"
        )


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


def make_trainer(fit: Fit, ends: Ends) -> tuple[lightning.Trainer, Together]:
    """Return a Lightning trainer with our own checkpoints and numbers, and how its ranks stop."""
    config, folder = fit.config, fit.folder
    if config.steps < 1:
        raise ConfigError(f"steps must be at least 1, was: {config.steps}")
    background = Background() if config.checkpoint_async else None
    section = patient(placed(config.trainer, world()), config.rank_timeout)
    options = config.trainer.changed(**section)
    saving = SaveCheckpoints(
        folder=folder / runs.CHECKPOINTS,
        every=config.checkpoint_every,
        keep=config.keep_checkpoints,
        background=background,
    )
    together = Together(saving, ends=ends)
    faults = (MisconfigurationException, ImportError)  # a TPU without torch_xla
    with quiet(), as_config_error("trainer: ", *faults):
        trainer: lightning.Trainer = called(
            options,
            default_root_dir=folder,
            max_steps=config.steps,
            max_epochs=-1,  # steps end the run: a loader never does
            callbacks=[
                NothingSwallowed(),
                saving,
                together,
                StallWatch(after=config.stall_after),
                RowsAtOnce(),
            ],
            logger=False,  # `watched` opens them
            log_every_n_steps=config.log_every,
            plugins=[AtomicCheckpointIO(background=background), *cluster()],
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            use_distributed_sampler=False,
            num_sanity_val_steps=0,  # else each resume would begin with a validation
            # An early stop looks for it when it is set up. None: once, at the end.
            val_check_interval=config.validate_every or 1.0,
            check_val_every_n_epoch=None if config.validate_every else 1,
        )
    metrics = MetricsFile(path=folder / runs.METRICS, every=config.log_every)
    ours = [metrics, ProgressBar(title=folder.name)]
    # Before SaveCheckpoints, see SaveBest. Here any callback of the user's is let in.
    best = [SaveBest(folder=folder / runs.CHECKPOINTS)] if fit.best else []
    callbacks: list[lightning.Callback] = trainer.callbacks  # type: ignore[attr-defined]
    refuse_callbacks(fit.callbacks, command=True)
    keep_apart(fit.callbacks, run=folder)
    timers = [callback for callback in callbacks if isinstance(callback, Timer)]  # trainer.max_time
    others = [callback for callback in callbacks if callback not in timers]
    # Before those of averages, which take the place of the weights at the end.
    last = LambdaCallback(on_train_end=lambda trainer, _: saving.save(trainer))
    callbacks[:] = [*best, last, *ours, *ends.witnessed([*fit.callbacks, *timers]), *others]
    if isinstance(trainer.strategy, Sharded):
        trainer.strategy.saves(whole=config.checkpoints == "whole", background=background)
    elif config.checkpoints == "sharded":
        raise ConfigError(
            "checkpoints=sharded needs a sharded model, trainer=fsdp2 or trainer=hsdp; else set "
            "checkpoints=null"
        )
    return trainer, together


_IN_QUIET: list[object] = []  # those that are in it, in any thread: the last one ends it
_LOUDER, _TURN = contextlib.ExitStack(), threading.Lock()


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Hide Lightning's messages about devices, and its advice that does not apply here."""
    me = object()
    with _TURN:
        if not _IN_QUIET:
            _LOUDER.enter_context(_hidden())
        _IN_QUIET.append(me)
    try:
        yield
    finally:
        with _TURN:
            _IN_QUIET.remove(me)
            if not _IN_QUIET:
                _LOUDER.close()


@contextlib.contextmanager
def _hidden() -> Iterator[None]:
    """Hide them in the block; the report of a profiler is what its user asked for."""
    shown = {"pytorch": logging.ERROR, "fabric": logging.ERROR, "pytorch.profilers": logging.INFO}
    loggers = {logging.getLogger(f"lightning.{part}"): level for part, level in shown.items()}
    levels = [(logger, logger.level) for logger in loggers]
    try:
        with warnings.catch_warnings():
            for logger, level in loggers.items():
                logger.setLevel(level)
            for message in _NOT_HERE:
                warnings.filterwarnings("ignore", message=message)
            yield
    finally:
        for logger, level in levels:
            logger.setLevel(level)


@contextlib.contextmanager
def one_of_several() -> Iterator[None]:
    """Leave the process group and what launchers set behind the block, for what comes next here.

    That is the next run of a sweep, or a Trainer of the user's own, which would take this process
    for a rank that somebody else has started. After a failure others may be waiting in the group.
    """
    unset = [name for name in _OF_LAUNCHERS if name not in os.environ]
    threads = torch.get_num_threads()
    try:
        with quiet():
            yield
    finally:
        torch.set_num_threads(threads)
        for name in unset:
            os.environ.pop(name, None)
    if torch.distributed.is_initialized():
        leave = torch.distributed.destroy_process_group
        if world() is None:
            leave()
        else:  # the threads of a group that is there when a process ends may abort it
            atexit.unregister(leave)
            atexit.register(leave)
