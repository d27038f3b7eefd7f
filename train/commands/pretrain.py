"""`bipe pretrain`: train one model on prepared data; and what all training commands share.

bipe pretrain out=runs/mine encoding=bipe_rope steps=2000
bipe pretrain -m out=runs/mine encoding=rope,alibi seed=0,1     # one run each
bipe pretrain --plan experiment=pile_151m_bipe_rope             # memory, days, disk
"""

import functools
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, Literal

import lightning
import torch

from bipe import DecoderConfig
from train.config import Config, encoding_name, slug
from train.config.decoders import decoder_of
from train.data.rows.choices import Stages
from train.data.rows.datamodule import LMDataModule
from train.errors import ConfigError, UserError, as_config_error
from train.fit.entry import Fit
from train.fit.machine import placed, precision_of
from train.fit.module import Training
from train.fit.optim import optimizer_of
from train.fit.parallel.callbacks import Ends
from train.fit.runs import RESUMES
from train.fit.training import Start, make_trainer, module_of, train_model
from train.ranks import world

Command = Literal["pretrain", "extend", "retrofit", "scrolls"]
_GPUS = ("gpu", "cuda", "mps")


def pretrain(config: Config) -> Path:
    """Train and return the run's folder."""
    for key in ("checkpoint", "stretch"):
        if getattr(config, key) is not None:
            raise ConfigError(f"{key} is for training a trained model further: use bipe extend")
    config = settled(config)
    folder = Path(config.out) / (config.name or default_name(config))
    rows = rows_of(config)
    start = Start(decoder=decoder_of(config, vocab_size=rows.vocab_size))
    return train_model(fit_of(config, folder=folder, command="pretrain"), start, rows=rows)


def settled(config: Config, *, notes: list[str] | None = None) -> Config:
    """Return the configuration with the steps that its epochs come to; all of it is checked.

    notes: of a plan, gets what is assumed where there is no data yet.
    """
    if config.epochs is not None:
        try:
            config = config.on({"steps": rows_of(config).epoch_steps()})
        except (UserError, OSError) as fault:
            if notes is None or isinstance(fault, ConfigError):
                raise
            notes.append(
                f"epochs={config.epochs} cannot be counted before there is data; planned for "
                f"steps={config.steps}"
            )
            config = config.on({"epochs": None})
    config.check()
    return config


def default_name(config: Config, *, changed: str = "", seeded: bool = False) -> str:
    """Return bipe_rope, or in a sweep bipe_rope_lr0.001_seed0, where `changed` is _lr0.001."""
    name = config.name or slug(encoding_name(config.encoding))
    return name + changed + f"_seed{config.seed}" * seeded


def check_trial(config: Config) -> None:
    """Raise ConfigError or DataError for what a run of a sweep would be refused for later."""
    config.schedule.built(0)
    with as_config_error("optimizer: "):
        optimizer_of(config.optimizer.built, [("one", torch.nn.Parameter(torch.zeros(1)))])
    if config.checkpoint is None:
        rows = rows_of(config)
        refuse_planned(config, decoder_of(config, vocab_size=rows.vocab_size), rows.stages)


def refuse_planned(
    config: Config, decoder: DecoderConfig, stages: Stages, command: Command = "pretrain"
) -> None:
    """Raise ConfigError or DataError for settings that a training refuses, wherever it is."""
    asked = config.trainer
    here: dict[str, Any] = {"trainer.devices": 1, "trainer.num_nodes": 1}
    if asked.get("precision", "auto") == "auto":  # is measured
        here["trainer.precision"] = "32-true"
    if asked.get("accelerator") != "cpu" and not torch.cuda.is_available():
        here["attention"] = "auto"
        if asked.get("accelerator") in _GPUS:
            here["trainer.accelerator"] = "auto"
    fit = fit_of(config.on(here), folder=Path(config.out), command=command)
    trainer, _ = make_trainer(fit, Ends())
    module_of(fit, Start(decoder=decoder), trainer, stages=stages, planned=True)


def fit_of(
    config: Config,
    *,
    folder: Path,
    command: Command,
    best: bool = False,
    encoding: Mapping[str, Any] | None = None,
) -> Fit:
    """Return how the run trains.

    best: keep the weights of the lowest validation loss. encoding: that of a stretched model.
    """
    resumed = folder if config.if_exists in RESUMES else None
    trainer = placed(config.trainer, world())
    precision = precision_of(
        trainer.get("precision", "auto"),
        resumed=resumed,
        width=int(config.model.get("width", 768)),
        alone=trainer.get("devices") in (1, "1") and trainer.get("num_nodes", 1) == 1,
    )
    decided: dict[str, Any] = {"trainer.precision": precision}
    config = config.on(decided if encoding is None else decided | {"encoding": encoding})
    options = {
        "optimizer": config.optimizer.built,
        "schedule": config.schedule.built,
        "draw": config.positions.built if config.positions else None,
        "z_loss": float(config.z_loss),
        "label_smoothing": float(config.label_smoothing),
    }
    names = {field.name for field in fields(Training)} - options.keys()
    return Fit(
        config=config,
        folder=folder,
        training=Training(**options, **{name: getattr(config, name) for name in names}),
        callbacks=callbacks_of(config),
        command=command,
        best=best,
    )


def callbacks_of(config: Config) -> list[lightning.Callback]:
    """Return the callbacks; those that need the configuration get it."""
    callbacks = [call.built for call in config.callbacks.values()]
    return [
        callback(config=config) if isinstance(callback, functools.partial) else callback
        for callback in callbacks
    ]


def rows_of(config: Config) -> LMDataModule:
    """Return the rows to train on."""
    return LMDataModule(
        folder=config.data,
        row_length=config.row_length,
        steps=config.steps,
        epochs=config.epochs,
        seed=config.seed,
        context_parallel=config.context_parallel,
        coarser=config.coarser,
        replan=config.if_exists == "change",
        **config.rows.values(),
    )
