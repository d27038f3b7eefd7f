"""Models on disk: a folder with model.safetensors and config.json, readable without Hydra.

The folder is written under a temporary name and renamed, so that it is complete or absent. It may
come from anyone: `load_model` compares all that config.json says of it (sealing.py), and what
the files would allocate, before anything is built (docs/trust.md).
"""

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from bipe.arguments import nodes, require
from bipe.build import ALLOWED, TARGET, build, faults_of
from bipe.decoder import Decoder, DecoderConfig, has_width_of_model
from bipe.encodings import Encoding, Scheme
from bipe.encodings.base import as_scheme
from bipe.sealing import (
    CONFIG,
    WEIGHTS,
    CheckpointError,
    Shapes,
    read_config,
    read_shapes,
    require_unchanged,
    whole_folder,
    write_config,
)

_WIDTHS = ("width", "head_width", "n_head")
# What constructors and the library raise for a description or a header that makes no sense.
UNFIT = (ArithmeticError, LookupError, RuntimeError, SafetensorError, TypeError, ValueError)


def save_model(
    model: Decoder,
    folder: str | os.PathLike[str],
    *,
    state: Mapping[str, Tensor] | None = None,
    notes: Mapping[str, Any] | None = None,
    beside: Mapping[str, str] | None = None,
) -> None:
    """Write a model; an older one of the same name is replaced when the new one is complete.

    state: the weights, if the model itself has only a part of them (FSDP).
    notes: any JSON to store with the weights (row length, tokenizer, steps ...).
    beside: contents of further files by name; config.json has the checksums of all.
    """
    state = dict(model.state_dict() if state is None else state)
    if model.config.tied_head:
        del state["head.weight"]  # safetensors refuses two names for one tensor
    state = {name: tensor.contiguous() for name, tensor in state.items()}
    content = {"decoder": dataclasses.asdict(model.config), "notes": dict(notes or {})}
    with whole_folder(folder, beside) as fresh:
        save_file(state, fresh / WEIGHTS)
        write_config(fresh, content, beside=[*(beside or ())])


def load_model(
    folder: str | os.PathLike[str], *, allowed: tuple[str, ...] = ALLOWED
) -> tuple[Decoder, dict[str, Any]]:
    """Read a model and its notes, or raise CheckpointError. allowed: see `build`."""
    folder = Path(folder)
    content = read_config(folder)
    decoder = decoder_of(folder / CONFIG, content["decoder"], allowed=allowed)
    weights = folder / WEIGHTS
    try:
        shapes = read_shapes(weights)
        require_shapes(decoder, shapes, allowed=allowed)
    except UNFIT as error:
        raise CheckpointError(f"{weights}: does not match {CONFIG}: {error}") from error
    require_unchanged(folder, content["files"])
    model = Decoder(decoder, allowed=allowed)
    load_weights(model, load_file(weights))
    return model, content["notes"]


def load_weights(model: Decoder, state: Mapping[str, Tensor]) -> None:
    """Copy weights into a model; every name and shape must match."""
    state = dict(state)
    if model.config.tied_head:
        state.setdefault("head.weight", state["tokens.weight"])
    model.load_state_dict(state, strict=True)


def require_shapes(
    config: DecoderConfig, held: Shapes, *, allowed: tuple[str, ...] = ALLOWED
) -> None:
    """Raise ValueError unless the weights of a model have these shapes; allocates none of them."""
    tokens = (config.vocab_size, config.width)
    shape = held.get("tokens.weight")
    require(shape == tokens, str(tokens), **{"tokens.weight": shape})
    # Before a loop over the layers that a header claims.
    if config.n_layer > len(held):
        raise ValueError(f"{len(held)} tensors are too few for n_layer={config.n_layer}")
    for _, node in nodes(config.encoding, "encoding"):
        ours = str(node.get(TARGET)).startswith("bipe.")
        for name in _WIDTHS if has_width_of_model(node) or not ours else _WIDTHS[1:]:
            shape, size = node.get(name), getattr(config, name)
            if isinstance(shape, int) and (shape > size or (ours and shape != size)):
                raise ValueError(
                    f"encoding.{name} must be that of the decoder, {size}, was: {shape}"
                )
    with torch.device("meta"):
        scheme = _without_values(config.encoding, allowed=allowed)
        _require_same(scheme, {name: held[name] for name in held if name in scheme})
        _require_same(_shapes_of(config, allowed=allowed), held)


def _without_values(encoding: Mapping[str, Any], *, allowed: tuple[str, ...]) -> Shapes:
    """Return the shapes of an encoding's weights, named as in a decoder, on the meta device."""
    try:
        scheme = as_scheme(build(encoding, Encoding | Scheme, allowed=allowed, path="encoding"))
    except (NotImplementedError, RuntimeError):  # one of the user's own, which looks at its numbers
        if not allowed:
            raise
        return {}
    return {f"scheme.{name}": tuple(tensor.shape) for name, tensor in scheme.state_dict().items()}


def _require_same(expected: Shapes, held: Shapes) -> None:
    for name in {**expected, **held}:
        shape, actual = expected.get(name), held.get(name)
        require(shape == actual, str(shape), **{name: actual})


def _shapes_of(config: DecoderConfig, *, allowed: tuple[str, ...]) -> Shapes:
    """Return the shapes of a model's weights, from one block; the encoding is made for real."""
    model = Decoder(dataclasses.replace(config, n_layer=1), allowed=allowed)
    shapes: dict[str, tuple[int, ...]] = {}
    for name, tensor in model.state_dict().items():
        inside = name.removeprefix("blocks.0.")
        same = [f"blocks.{i}.{inside}" for i in range(config.n_layer)] if inside != name else [name]
        shapes |= dict.fromkeys(same, tuple(tensor.shape))
    if config.tied_head:
        del shapes["head.weight"]
    return shapes


def decoder_of(path: Path, given: dict[str, Any], *, allowed: tuple[str, ...]) -> DecoderConfig:
    """Return the configuration of a decoder, whose fields have the right types and ranges."""
    faults = faults_of(given, DecoderConfig, allowed=allowed, name="the decoder")
    if faults:
        raise CheckpointError(f"{path}: {'; '.join(faults)}")
    try:
        return DecoderConfig(**given)
    except ValueError as error:
        raise CheckpointError(f"{path}: {error}") from error
