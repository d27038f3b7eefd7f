"""`bipe pretrain`: train one model on prepared data; resume exactly."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bipe.decoder import DecoderConfig
from train.config import Config, encoding_name, slug
from train.data.rows.datamodule import LMDataModule
from train.errors import ConfigError
from train.fit.training import train_model


def pretrain(study: Config, *, config: Mapping[str, Any]) -> Path:
    """Train and return the run's folder. config: what is stored beside the run."""
    for key in ("checkpoint", "stretch"):
        if getattr(study, key) is not None:
            raise ConfigError(f"{key} is for a trained model to go on from: bipe extend")
    name = study.name or slug(encoding_name(study.encoding))
    rows = data_of(study)
    refuse_long_rows(rows, study)
    decoder = decoder_config(study, vocab_size=rows.vocab_size)
    folder = Path(study.out) / name
    return train_model(study, decoder=decoder, rows=rows, folder=folder, config=config)


def data_of(study: Config) -> LMDataModule:
    """Return the rows of a study."""
    return LMDataModule(
        folder=study.data,
        row_length=study.row_length,
        steps=study.steps,
        epochs=study.epochs,
        seed=study.seed,
        **study.rows.values(),
    )


def decoder_config(study: Config, *, vocab_size: int) -> DecoderConfig:
    """The model of a study, for data of a given vocabulary."""
    if "encoding" in study.model:
        raise ConfigError("model.encoding cannot be set; set encoding instead")
    own = study.model.get("vocab_size")
    if own is not None and own < vocab_size:
        raise ConfigError(
            f"model.vocab_size must be at least that of the data, {vocab_size}, was: {own}"
        )
    given: dict[str, Any] = {} if own is not None else {"vocab_size": vocab_size}
    fixed = {key: value for key, value in study.model.items() if not key.startswith("_")}
    return DecoderConfig(**fixed, **given, encoding=dict(study.encoding))


def refuse_long_rows(rows: LMDataModule, study: Config) -> None:
    """Raise ValueError for rows that no source can fill."""
    for name in rows.source_names:
        tokens = rows.sets.counts(name, "train")["tokens"]
        if study.row_length > tokens:
            raise ConfigError(
                f"row_length must be at most the training tokens of each source ({name}: "
                f"{tokens}), was: {study.row_length}"
            )
