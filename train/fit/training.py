"""A training run, from the claim of its folder to the written model: what the stages share."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import lightning
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.fabric.utilities.rank_zero import rank_zero_only
from safetensors import SafetensorError
from torch import Tensor

from bipe.build import build
from bipe.checkpoint import save_model
from bipe.decoder import DecoderConfig
from bipe.encodings import Flat, Learned
from train.config import Config
from train.data.rows.datamodule import LMDataModule, RowStatistics, table
from train.disk.files import full_disk
from train.errors import ConfigError, RunError
from train.fit import runs
from train.fit.best_checkpoint import SaveBest
from train.fit.callbacks import MetricsFile, ProgressBar
from train.fit.checkpoints import AtomicCheckpointIO, SaveCheckpoints, latest_checkpoint
from train.fit.fitting import fitting, quiet
from train.fit.module import LMModule, full_state

PRECISIONS = (None, 32, "32", "32-true", "bf16", "bf16-mixed")


def train_model(
    study: Config,
    *,
    decoder: DecoderConfig,
    rows: LMDataModule,
    folder: Path,
    config: Mapping[str, Any],
    weights: Mapping[str, Tensor] | None = None,
    notes: Mapping[str, Any] | None = None,
    command: str = "pretrain",
    best: bool = False,
) -> Path:
    """Train on rows and return the run's folder; resumes exactly (`if_exists`).

    config: what is stored beside the run. weights: to start from, instead of fresh ones. notes:
    for the model that is written, beside those of every training. command: of `bipe`, which the
    processes of other devices repeat. best: write the weights of the step with the lowest
    validation loss instead of the last ones.
    """
    if study.steps < 1:
        raise ConfigError(f"steps must be at least 1, was: {study.steps}")
    rows.check(steps=study.steps)
    module = LMModule(
        config=decoder,
        weights=weights,
        optimizer=build(study.optimizer, allowed=study.allowed),
        schedule=build(study.schedule, allowed=study.allowed),
        seed=study.seed,
        clip=study.clip,
        patience=study.patience,
        attention=study.attention,
        compile=study.compile,
        recompute=study.recompute,
        z_loss=float(study.z_loss),
        label_smoothing=float(study.label_smoothing),
        draw=build(study.positions, allowed=study.allowed) if study.positions else None,
        allowed=study.allowed,
    )
    _refuse_short_table(module, study)
    module.configure_optimizers()  # whatever it refuses, it refuses before the folder is taken
    trainer = make_trainer(study, folder=folder, name=folder.name)
    _set_accumulation(trainer, rows, validate_every=study.validate_every)
    choice = SaveBest(folder=folder / runs.CHECKPOINTS) if best else None
    if choice is not None:  # first: the checkpoint of a step knows what was best up to there
        trainer.callbacks.insert(0, choice)  # type: ignore[attr-defined]
    if rank_zero_only.rank == 0:  # type: ignore[attr-defined]
        runs.claim(folder, if_exists=study.if_exists, config=config)
    # Not asked of the disk otherwise: another rank may be removing an old run from there.
    resumed = study.if_exists == "resume"
    with runs.withdrawn_on_failure(folder), fitting(folder / runs.CONFIG, command=command):
        newest = latest_checkpoint(folder / runs.CHECKPOINTS) if resumed else None
        _tell_rows(trainer, rows.statistics(steps=study.steps))
        trainer.fit(module, rows, ckpt_path=newest)
        model = folder / runs.MODEL
        _write_model(trainer, module, rows, model, notes=notes or {}, choice=choice)
    return folder


def _tell_rows(trainer: lightning.Trainer, statistics: list[RowStatistics]) -> None:
    """Say what is read of each source, to the user and to the loggers."""
    if not trainer.is_global_zero:
        return
    print("\n".join(table(statistics)), file=sys.stderr, flush=True)
    numbers = {
        f"rows/{each.source}/{name}": float(value)
        for each in statistics
        for name, value in (asdict(each) | {"epochs": each.epochs}).items()
        if name != "source"
    }
    for logger in trainer.loggers:
        logger.log_metrics(numbers, step=0)


def _write_model(
    trainer: lightning.Trainer,
    module: LMModule,
    rows: LMDataModule,
    folder: Path,
    *,
    notes: Mapping[str, Any],
    choice: SaveBest | None,
) -> None:
    """Write the trained weights once, whatever the number of processes that hold them."""
    state = full_state(module.model)
    positions = module.indices.summary(trainer.strategy.root_device)
    if trainer.is_global_zero:
        found = {
            "row_length": rows.row_length,
            "positions": positions,
            "tokens": rows.consumed_rows * rows.row_length,
            "steps": trainer.global_step,
            "skipped_steps": module.skipped.state()[0],
            "sources": rows.weights or dict.fromkeys(rows.source_names, 1.0),
            "tokenizer": rows.sets.tokenizer,
            "data": rows.data_digest(),
            "rows": [asdict(each) for each in rows.statistics(steps=trainer.max_steps)],
        }
        if choice is not None and (chosen := choice.weights()) is not None:
            state, found = chosen, found | choice.notes()
        with room_for_model(folder):
            save_model(module.model, folder, state=state, notes=found | dict(notes))
    trainer.strategy.barrier()


def make_trainer(study: Config, *, folder: Path, name: str) -> lightning.Trainer:
    """A Lightning trainer with our own checkpoints, metrics and progress."""
    logger = study.call("logger", folder=folder, name=name) if study.logger else False
    if study.trainer.get("precision") not in PRECISIONS:
        raise ConfigError(
            f"trainer.precision must be 32-true or bf16-mixed (weights stay in float32), was: "
            f"{study.trainer['precision']}"
        )
    with quiet(), _refusals_name("trainer"):
        return study.call(
            "trainer",
            default_root_dir=folder,
            max_steps=study.steps,
            max_epochs=-1,
            callbacks=[
                MetricsFile(path=folder / runs.METRICS, every=study.log_every),
                ProgressBar(title=name),
                SaveCheckpoints(
                    folder=folder / runs.CHECKPOINTS,
                    every=study.checkpoint_every,
                    keep=study.keep_checkpoints,
                    validate_every=study.validate_every,
                ),
            ],
            logger=logger,
            log_every_n_steps=study.log_every,
            plugins=[AtomicCheckpointIO()],
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            use_distributed_sampler=False,
            num_sanity_val_steps=0,
        )


def _set_accumulation(
    trainer: lightning.Trainer, rows: LMDataModule, *, validate_every: int | None
) -> None:
    """Make an optimizer step of as many micro-batches as fill the global batch."""
    at_once = rows.micro_batch * trainer.world_size
    if rows.global_batch % at_once:
        raise ConfigError(
            f"rows.global_batch must be a multiple of rows.micro_batch x devices ({at_once}), "
            f"was: {rows.global_batch}"
        )
    trainer.accumulate_grad_batches = rows.global_batch // at_once
    if validate_every is not None:
        trainer.val_check_interval = validate_every * trainer.accumulate_grad_batches
        trainer.check_val_every_n_epoch = None


def _refuse_short_table(module: LMModule, study: Config) -> None:
    scheme = module.model.scheme
    table = scheme.encoding if isinstance(scheme, Flat) else None
    if isinstance(table, Learned) and table.table.num_embeddings < study.row_length:
        raise ConfigError(
            f"encoding.length must be at least row_length ({study.row_length}) for a flat learned "
            f"table, was: {table.table.num_embeddings}"
        )


@contextlib.contextmanager
def _refusals_name(section: str) -> Iterator[None]:
    """Name the section of the configuration that Lightning refuses."""
    try:
        yield
    except MisconfigurationException as error:
        raise ConfigError(f"{section}: {error}") from error


@contextlib.contextmanager
def room_for_model(path: Path) -> Iterator[None]:
    """safetensors has errors of its own, which name no file."""
    try:
        with full_disk(path):
            yield
    except SafetensorError as error:
        raise RunError(
            f"{path} cannot be written ({error}); the checkpoints are whole: free space, then "
            f"if_exists=resume"
        ) from error
