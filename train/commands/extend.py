"""`bipe extend`: go on from a trained run with longer rows, its rotation stretched or as it is.

    bipe extend checkpoint=runs/mine/bipe_rope stretch=yarn stretch.factor=16 row_length=4096
    bipe extend checkpoint=runs/mine/alibi row_length=4096          no stretch: longer rows alone
    bipe extend checkpoint=runs/mine/bipe_rope stretch=yarn steps=0            no training

The model and its encoding are those of the checkpoint, and so is the data where none is named.
Under BiPE the original length of a stretch is a number of segments (docs/stretch.md).
"""

from __future__ import annotations

import dataclasses
import logging
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from hydra.core.hydra_config import HydraConfig
from lightning.fabric.utilities.rank_zero import rank_zero_only
from omegaconf import DictConfig, OmegaConf

from bipe import Decoder
from bipe.build import TARGET
from bipe.checkpoint import save_model
from bipe.decoder import DecoderConfig
from bipe.encodings import Flat, Learned
from bipe.extension import Extension, extend_config
from train.commands.pretrain import data_of, refuse_long_rows
from train.config import Config, allowed_prefixes, slug
from train.data.rows.datamodule import LMDataModule
from train.errors import ConfigError
from train.fit import runs
from train.fit.base_run import Parent, find_parent
from train.fit.training import room_for_model, train_model

log = logging.getLogger("bipe")


def completed(config: DictConfig) -> DictConfig:
    """The configuration with what the checkpoint decides: model, encoding, and data if null.

    Raises ValueError for a checkpoint that is none, or other weights than `extend.sha256`.
    """
    checkpoint, options = config.get("checkpoint"), config.get("extend")
    if not isinstance(checkpoint, str):
        raise ConfigError("checkpoint=RUN must be set: the trained run to go on from")
    own = config.get("allowed_targets")
    parent = find_parent(checkpoint, allowed=allowed_prefixes(list(own or [])))
    known = options.get("sha256") if isinstance(options, DictConfig) else None
    if known not in (None, parent.sha256):
        raise ConfigError(
            f"extend.sha256 is {known}, that of {checkpoint} is {parent.sha256}: it holds other "
            "weights. Name the checkpoint that is meant, or set extend.sha256=null"
        )
    _tell_choices_left()
    sizes = dataclasses.asdict(parent.decoder)
    encoding = sizes.pop("encoding")
    target = f"{DecoderConfig.__module__}.{DecoderConfig.__qualname__}"
    config = config.copy()
    filled = {
        "model": {TARGET: target, "_partial_": True} | sizes,
        "encoding": encoding,
        "data": parent.data if config.get("data") is None else None,
        "extend.sha256": parent.sha256,
    }
    for key, value in filled.items():
        if value is not None:
            OmegaConf.update(config, key, value, merge=False, force_add=True)
    if config.get("data") is None:
        if config.get("steps") != 0:
            raise ConfigError(f"{checkpoint} does not say what it was trained on; set data=FOLDER")
        OmegaConf.update(config, "data", "${out}/data")  # from which nothing is read
    return config


def _tell_choices_left() -> None:
    """Say which choices of an experiment are not followed; those of the command line are refused"""
    if not HydraConfig.initialized():  # --config-file, or composed in Python
        return
    chosen = HydraConfig.get().runtime.choices
    for group, default in (("model", "small"), ("encoding", "bipe_rope")):
        if chosen.get(group) not in (None, default):
            _say(f"{group}={chosen[group]} of the experiment is left: the checkpoint decides it")


def extend(study: Config, *, config: Mapping[str, Any]) -> Path:
    """Stretch, fine-tune, and return the run's folder. config: what is stored beside the run."""
    assert study.checkpoint is not None
    parent = find_parent(study.checkpoint, allowed=study.allowed)
    done = stretched(parent, study)
    decoder = parent.decoder if done is None else done.config
    folder = Path(study.out) / (study.name or default_name(parent, study))
    if folder.resolve() == parent.home.resolve():
        raise ConfigError(f"{folder} is the checkpoint itself: name=... takes another folder")
    config = dict(config) | {"encoding": decoder.encoding}
    notes: dict[str, Any] = {
        "parent": parent.as_notes(),
        "first_row_length": runs.first_row_length(parent.notes),
    }
    if done is not None:
        _say(done.report)
        notes["stretch"] = [report.as_notes() for report in done.reports]
    elif "stretch" in parent.notes:  # which goes on
        notes["stretch"] = parent.notes["stretch"]
    if study.steps == 0:
        return write_untrained(study, parent, decoder, folder, config=config, notes=notes)
    rows = data_of(study)
    parent.refuse_other_data(rows.sets)
    refuse_long_rows(rows, study)
    _refuse_short_table(decoder, study)
    notes["long_documents"] = _tell_long_documents(rows, study, parent)
    return train_model(
        study,
        decoder=decoder,
        rows=rows,
        folder=folder,
        config=config,
        weights=parent.weights,
        notes=notes,
        command="extend",
    )


def stretched(parent: Parent, study: Config) -> Extension | None:
    """The model of the checkpoint under the strategy of a study; None without one.

    Raises ValueError for what cannot be stretched, and for keys that say two things.
    """
    if not study.stretch:
        if study.extend.unit is not None:
            raise ConfigError("extend.unit is of a stretch, and there is none; set stretch=NAME")
        return None
    if TARGET not in study.stretch:
        raise ConfigError(
            f"stretch.{next(iter(study.stretch))} is of no strategy; set stretch=NAME"
        )
    if study.extend.unit is not None and study.stretch.get("original_length") is not None:
        raise ConfigError(
            "extend.unit and stretch.original_length both say the original length; leave one out"
        )
    try:
        return extend_config(
            parent.decoder,
            study.stretch,
            notes=parent.notes,
            unit=study.extend.unit,
            allowed=study.allowed,
        )
    except ValueError as fault:
        cure = "; longer rows alone need no stretch: stretch=null" * ("cannot be" in str(fault))
        raise ConfigError(f"{parent.home}: {fault}{cure}") from fault


def default_name(parent: Parent, study: Config) -> str:
    """bipe_rope_yarn16, bipe_rope_yarn16_tokens; bipe_rope_2048 where only rows are longer.

    A seed that is not the first stands behind it: bipe_rope_yarn16_seed1.
    """
    seed = f"_seed{study.seed}" if study.seed else ""
    if not study.stretch:
        return f"{parent.name}_{study.row_length}{seed}"
    words = slug(str(study.stretch[TARGET]).rpartition(".")[2])
    factor, unit = study.stretch.get("factor"), study.extend.unit
    words += "" if factor is None else slug(f"{factor:g}")
    return f"{parent.name}_{words}" + ("" if unit is None else f"_{unit}") + seed


def _refuse_short_table(decoder: DecoderConfig, study: Config) -> None:
    with_scheme = Decoder(decoder, allowed=study.allowed).scheme
    table = with_scheme.encoding if isinstance(with_scheme, Flat) else None
    if isinstance(table, Learned) and table.table.num_embeddings < study.row_length:
        raise ConfigError(
            f"row_length must be at most {table.table.num_embeddings}, the positions of the flat "
            f"learned table of the checkpoint, was: {study.row_length}"
        )


def _tell_long_documents(rows: LMDataModule, study: Config, parent: Parent) -> float:
    """The share of the run's inputs from documents of at least a row; a warning if there is none.

    Short documents beside each other in a row do not see each other: only long ones bring
    positions that the checkpoint has not met.
    """
    found = rows.statistics(steps=study.steps)
    read = sum(each.read * (1 - each.padding) for each in found)
    long = sum(each.read * (1 - each.padding) * each.long_documents for each in found)
    share = long / read
    before = parent.notes.get("row_length")
    _say(
        f"{share:.1%} of tokens come from documents of at least row_length ({study.row_length}; "
        f"the checkpoint had {before})"
    )
    if not share:
        ends = [each.data.document_ends for each in rows.order().rows]
        longest = max(int(np.diff(each, prepend=0).max()) for each in ends)
        log.warning(
            "no document has row_length=%d tokens (the longest: %d): positions beyond that are "
            "not trained; choose a shorter row_length, or data with longer documents",
            study.row_length,
            longest,
        )
    return share


def write_untrained(
    study: Config,
    parent: Parent,
    decoder: DecoderConfig,
    folder: Path,
    *,
    config: Mapping[str, Any],
    notes: Mapping[str, Any],
) -> Path:
    """A run folder with the weights of the checkpoint; its notes stay, for they still hold."""
    model = Decoder(decoder, allowed=study.allowed)
    model.load_state_dict(parent.weights)
    if rank_zero_only.rank == 0:  # type: ignore[attr-defined]
        runs.claim(folder, if_exists=study.if_exists, config=config)
        with runs.withdrawn_on_failure(folder), room_for_model(folder / runs.MODEL):
            save_model(model, folder / runs.MODEL, notes=dict(parent.notes) | dict(notes))
    return folder


@rank_zero_only
def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
