"""Models on disk: a folder with model.safetensors and config.json, readable without Hydra.

The folder is written under a temporary name and renamed, so that it is complete or absent.
"""

import dataclasses
import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file
from torch import Tensor

from bipe.build import ALLOWED
from bipe.decoder import Decoder, DecoderConfig

WEIGHTS = "model.safetensors"
CONFIG = "config.json"
FORMAT = "bipe-decoder/1"


class CheckpointError(ValueError):
    """A model folder that cannot be read; the message names the file and the reason."""


def save_model(
    model: Decoder,
    folder: str | os.PathLike[str],
    *,
    state: Mapping[str, Tensor] | None = None,
    notes: Mapping[str, Any] | None = None,
) -> None:
    """Write a model; an older one of the same name is replaced when the new one is complete.

    state: the weights, if the model itself holds only a part of them (FSDP).
    notes: any JSON to keep with the weights (row length, tokenizer, steps ...).
    """
    folder = Path(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    state = dict(model.state_dict() if state is None else state)
    if model.config.tied_head:
        del state["head.weight"]  # safetensors refuses two names for one tensor
    state = {name: tensor.contiguous() for name, tensor in state.items()}
    config = {
        "format": FORMAT,
        "decoder": dataclasses.asdict(model.config),
        "notes": dict(notes or {}),
    }
    fresh = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        save_file(state, fresh / WEIGHTS)
        (fresh / CONFIG).write_text(json.dumps(config, indent=2) + "\n")
        for name in (WEIGHTS, CONFIG):
            (fresh / name).chmod(0o644)
            _flush(fresh / name)
        _replace_folder(fresh, folder)
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        raise


def load_model(
    folder: str | os.PathLike[str], *, allowed: tuple[str, ...] = ALLOWED
) -> tuple[Decoder, dict[str, Any]]:
    """Read a model and its notes, or raise CheckpointError. allowed: see `build`."""
    folder = Path(folder)
    config = _read_config(folder / CONFIG)
    known = {field.name for field in dataclasses.fields(DecoderConfig)}
    unknown = sorted(set(config["decoder"]) - known)
    if unknown:
        raise CheckpointError(f"{folder / CONFIG}: unknown fields of the decoder: {unknown}")
    try:
        model = Decoder(DecoderConfig(**config["decoder"]), allowed=allowed)
    except ValueError as error:
        raise CheckpointError(f"{folder / CONFIG}: {error}") from error
    weights = folder / WEIGHTS
    if not weights.is_file():
        raise CheckpointError(f"{weights} is missing; a model folder holds {WEIGHTS} and {CONFIG}")
    try:
        load_weights(model, load_file(weights))
    except Exception as error:
        raise CheckpointError(f"{weights}: {error}") from error
    return model, config.get("notes", {})


def load_weights(model: Decoder, state: Mapping[str, Tensor]) -> None:
    """Copy weights into a model; every name and shape must match."""
    state = dict(state)
    if model.config.tied_head:
        state.setdefault("head.weight", state["tokens.weight"])
    model.load_state_dict(state, strict=True)


def _read_config(path: Path) -> dict[str, Any]:
    try:
        config = json.loads(path.read_text())
    except FileNotFoundError:
        raise CheckpointError(f"{path} is missing; is {path.parent} a model folder?") from None
    except ValueError as error:
        raise CheckpointError(f"{path} is not JSON: {error}") from error
    if not isinstance(config, dict) or config.get("format") != FORMAT:
        raise CheckpointError(f"{path}: format must be {FORMAT!r}; other layouts: bipe.layouts")
    return config


def _flush(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _replace_folder(fresh: Path, folder: Path) -> None:
    """Move `fresh` to the place of `folder`; os.replace refuses a folder that holds files."""
    fresh.chmod(0o755)
    if not folder.exists():
        fresh.rename(folder)
        return
    old = Path(tempfile.mkdtemp(prefix=f".{folder.name}.old.", dir=folder.parent))
    folder.rename(old / folder.name)
    fresh.rename(folder)
    shutil.rmtree(old)
