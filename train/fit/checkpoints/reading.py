"""Checkpoints as they are read: the newest whole one, and the models in them. Without Lightning."""

import logging
import pickle
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bipe import Decoder
from bipe.checkpoint import decoder_of, load_model, load_weights, require_shapes
from bipe.sealing import CONFIG
from train.data.rows.sets import DataSets
from train.data.store.folder import differences
from train.disk.files import read_json, sha256
from train.errors import DataError, RunError
from train.fit import runs
from train.fit.checkpoints import Place, checkpoints, describe, find_place, manifest_of
from train.fit.lora import merged

log = logging.getLogger(__name__)
OF_ANOTHER = (
    "the checkpoint is of another module than LMModule, or of an earlier version of bipe, which "
    "counted steps otherwise, and cannot be resumed: bipe extend checkpoint=RUN@STEP "
    "row_length=... steps=... goes on from weights of bipe"
)


def told_of_others(was: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Warn if a training goes on with the state of another model, or of another optimizer."""
    kept = [
        {"decoder": each.get("decoder"), "optimizer": each.get("training", {}).get("optimizer")}
        for each in (was, now)
    ]
    if changed := [*differences(*kept)]:
        log.warning(
            "the checkpoint was trained otherwise (%s): its weights, and the state and rates of "
            "its optimizer, are taken as they are",
            "; ".join(changed),
        )


def load_place(place: Place, *, allowed: tuple[str, ...]) -> tuple[Decoder, dict[str, Any]]:
    """Read a model and its notes; of a checkpoint, those of its step. RunError if it is damaged.

    allowed: see bipe.build.
    """
    if place.checkpoint is None:
        return load_model(place.folder, allowed=allowed)
    described = describe(place)
    if why := fault_of(place.checkpoint):
        raise RunError(f"{place.checkpoint} cannot be used: {why}; name another step, RUN@STEP")
    path = place.folder / CONFIG
    decoder = decoder_of(path, described["decoder"], allowed=allowed)
    state = read(place.checkpoint, weights_only=True)
    weights = _weights(state)
    shapes = {name: tuple(tensor.shape) for name, tensor in weights.items()}
    if decoder.tied_head:
        shapes.pop("head.weight", None)
    try:
        require_shapes(decoder, shapes, allowed=allowed)
    except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError) as fault:
        raise RunError(f"{place.checkpoint} is not of the model in {path}: {fault}") from fault
    model = Decoder(decoder, allowed=allowed)
    load_weights(model, weights)
    seen = {"positions": state["positions"], "skipped_steps": state["skipped_steps"][0]}
    return model, described["notes"] | seen


@dataclass(frozen=True, kw_only=True)
class BaseRun(Place):
    """A trained run with its weights, from which another run starts or which generates text.

    data: as the configuration of the run names it, if it does.
    """

    model: Decoder
    notes: Mapping[str, Any]
    data: Any

    def as_notes(self) -> dict[str, Any]:
        """Return this run's entry in the notes of the next one, with its own notes inside."""
        return {"run": str(self), "sha256": self.sha256, "notes": dict(self.notes)}

    def refuse_other_data(self, sets: DataSets, *, cure: str | None = None) -> None:
        """Raise DataError for data whose tokenizer or vocabulary does not fit the model's."""
        words = f"tokenizer@corpus.tokenizer=load corpus.tokenizer.path={self.data or 'FOLDER'}"
        cure = cure or f"Prepare it with that one: {words}"
        runs.refuse_other_tokenizer(
            sets.folder, sets.tokenizer, self.notes, home=self.home, cure=cure
        )
        if sets.vocab_size > self.model.config.vocab_size:
            raise DataError(
                f"data: {sets.folder} has a vocabulary of {sets.vocab_size}, but {self.home} one "
                f"of {self.model.config.vocab_size}: it was trained on other data"
            )


def find_base_run(place: str, *, key: str, allowed: tuple[str, ...]) -> BaseRun:
    """Read a run, RUN@STEP, the only run of a folder, or a model folder; RunError names `key`."""
    found = find_place(place, key=key)
    model, notes = load_place(found, allowed=allowed)
    config = runs.read_config(found.home) if (found.home / runs.CONFIG).is_file() else {}
    where: Any = {"home": found.home, "folder": found.folder, "checkpoint": found.checkpoint}
    return BaseRun(**where, model=model, notes=notes, data=runs.data_of(config, found.home))


def weights_of(path: Path) -> dict[str, Tensor]:
    return _weights(read(path, weights_only=True))


def _weights(state: Mapping[str, Any]) -> dict[str, Tensor]:
    weights = state["state_dict"].items()
    return merged({name.removeprefix("model."): value for name, value in weights})


def read(path: Path, *, weights_only: bool = False) -> dict[str, Any]:
    """Load tensors and plain data; RunError for a file that holds more, such as code.

    weights_only: leave out the state of the optimizer, if it lies apart.
    """
    if path.is_dir():
        from train.fit.checkpoints import shards  # torch.distributed, which takes a second

        return shards.load_whole(path, weights_only=weights_only)
    try:
        state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
        return state
    except (pickle.UnpicklingError, RuntimeError, EOFError, KeyError) as fault:
        why = str(fault).partition("\n")[0]
        raise RunError(
            f"{path}: is not a checkpoint of tensors and plain data ({why}); remove it to "
            "use the previous one"
        ) from fault


def latest_checkpoint(folder: Path) -> Path | None:
    """Return the newest complete checkpoint; log the damaged ones."""
    for path in reversed(checkpoints(folder)):
        if not (fault := fault_of(path)):
            return path
        log.warning("%s is skipped: %s", path, fault)
    return None


def remove_unfinished(folder: Path) -> None:
    """Remove what a kill left of checkpoints; only for the holder of a run."""
    left = [path for path in folder.glob("*.ckpt") if not manifest_of(path).is_file()]
    for part in [*folder.glob(".*.part"), *left]:
        if part.is_dir():
            shutil.rmtree(part)
        else:
            part.unlink()


def fault_of(path: Path) -> str | None:
    """Return why a checkpoint cannot be used, by its size and checksum, or None."""
    if path.is_dir():
        from train.fit.checkpoints import shards

        return shards.fault_of(path)
    expected = (read_json(manifest_of(path)) or {}).get("sha256")
    if expected is None:
        return "it has no manifest (the run was stopped while it was written)"
    return None if sha256(path) == expected else "its checksum is not the one in its manifest"
