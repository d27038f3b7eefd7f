"""Which model writes: the trained one of a run, one of its checkpoints, or a model folder alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch

from bipe import Decoder
from bipe.checkpoint import CONFIG, load_model, load_weights
from train.commands.pretrain import decoder_config
from train.config import Config, Generate
from train.data.rows.sets import DataSets
from train.errors import ConfigError
from train.fit import runs
from train.fit.checkpoints import checkpoints, latest_checkpoint


class Trained(NamedTuple):
    """A model, the notes beside it, and the data that it was trained on, where known."""

    model: Decoder
    notes: Mapping[str, Any]
    data: Any
    where: str


def find_model(study: Config) -> Trained:
    """The trained model of a run, one of its checkpoints, or a model folder by itself."""
    options, place = study.generate, Path(study.generate.run)
    if options.checkpoint is not None:
        return _from_checkpoint(_checkpoint_file(place, options.checkpoint))
    if (place / CONFIG).is_file():  # the model folder itself
        folder, home = place, place.parent
    else:
        if (place / runs.CONFIG).is_file() and not (place / runs.MODEL).is_dir():
            newest = latest_checkpoint(place / runs.CHECKPOINTS)
            if newest is not None:  # it is being trained, or was stopped
                return _from_checkpoint(newest)
        found = runs.find_runs(options.run, key="generate.run")
        if len(found) > 1:
            names = ", ".join(str(run) for run in found)
            raise ConfigError(f"generate.run must be one run, was: {options.run} with {names}")
        folder, home = found[0] / runs.MODEL, found[0]
    model, notes = load_model(folder, allowed=study.allowed)
    config = runs.read_config(home) if (home / runs.CONFIG).is_file() else {}
    return Trained(model, notes, runs.data_of(config, home), str(home))


def _checkpoint_file(place: Path, wish: str | int) -> Path:
    """The file of a checkpoint, given by its path or by its step."""
    if isinstance(wish, str):
        if not Path(wish).is_file():
            raise ConfigError(f"generate.checkpoint={wish}: there is no such file")
        return Path(wish)
    there = {
        int(path.stem.partition("=")[2]): path for path in checkpoints(place / runs.CHECKPOINTS)
    }
    if wish not in there:
        told = f"there are those of steps {', '.join(map(str, there))}" if there else "it has none"
        raise ConfigError(f"generate.checkpoint: {place} has no checkpoint of step {wish}; {told}")
    return there[wish]


def _from_checkpoint(path: Path) -> Trained:
    """A model from RUN/checkpoints/step=N.ckpt."""
    home = path.parent.parent
    config = runs.read_config(home)
    study = Config.from_config(config)
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)["state_dict"]
    except Exception as fault:  # torch raises whatever its reader of archives does
        raise ConfigError(f"generate.checkpoint={path}: not a checkpoint: {fault}") from None
    weights = {name.removeprefix("model."): value for name, value in state.items()}
    model = Decoder(
        decoder_config(study, vocab_size=len(weights["tokens.weight"])), allowed=study.allowed
    )
    load_weights(model, weights)
    sources = study.rows.sources or {}
    return Trained(model, {"sources": sources}, runs.data_of(config, home), str(path))


def data_of(trained: Trained, options: Generate) -> DataSets:
    """The data sets whose tokenizer and segmenters are used."""
    data = trained.data if options.data is None else options.data
    if data is None:
        raise ConfigError(
            f"{trained.where} does not say which data it was trained on; set generate.data=FOLDER"
        )
    try:
        return DataSets(data)
    except ValueError as fault:
        raise ConfigError(f"{fault}. generate.data=FOLDER names the data of the model") from None
