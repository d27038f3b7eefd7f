"""Model folders as transformers has them, read and written without it.

    write_folder(model, "out")         config.json, model.safetensors or shards, modeling_bipe.py
    model = read_folder("downloaded")  LLaMA-like or bipe; one file of weights or several shards

A flat model with a counterpart in transformers (official.py) is written as that; every other one as
model type `bipe`, which bipe.hf reads. Classes that bipe.hf.bilevel made of a counterpart are read
as well (`bipe_llama`), and the released layout of BiPE, which is never written: transformers would
take it for a plain LLaMA and leave out its table.
"""

import dataclasses
import functools
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from bipe.build import ALLOWED
from bipe.checkpoint import (
    CONFIG,
    UNFIT,
    WEIGHTS,
    CheckpointError,
    decoder_of,
    load_weights,
    require_shapes,
)
from bipe.decoder import Decoder, DecoderConfig
from bipe.layouts.official import INTRA_TABLE, config_to_official, from_official, to_official
from bipe.layouts.portable import DECODER, FILE, auto_map, of_decoder, plain
from bipe.sealing import read_object, whole_folder

INDEX = "model.safetensors.index.json"
MODEL_TYPE, _PREFIX = "bipe", "model."
_BILEVEL, _TABLE = "bipe_", "intra.weight"  # model types, and the table, of bipe.hf.bilevel
SHARD_BYTES = 5 * 10**9
_FIELDS = tuple(field.name for field in dataclasses.fields(DecoderConfig))


def write_folder(
    model: Decoder,
    folder: str | os.PathLike[str],
    *,
    max_length: int = 1024,
    keys: Mapping[str, Any] | None = None,
    dtype: torch.dtype | None = None,
    shard_bytes: int = SHARD_BYTES,
    beside: Callable[[dict[str, Any]], Mapping[str, str]] = lambda config: {},
) -> dict[str, Any]:
    """Write a model for transformers into a new folder, completely or not at all.

    max_length: longest supported text, in tokens. keys: further keys of config.json (eos_token_id,
    segmenter). dtype: of the weights, by default the model's. shard_bytes: maximum size of a weight
    file. beside: from config.json, which is returned, to the contents of further files by name.
    """
    folder = Path(folder)
    if folder.exists():
        raise CheckpointError(f"{folder} already exists: name a new folder")
    official = _as_official(model, max_length)
    config, state = official or _as_bipe(model, max_length)
    code = None if official else of_decoder(model.config.encoding)
    if code is not None:
        config |= {"auto_map": auto_map(*DECODER)}
    dtype = dtype or model.tokens.weight.dtype
    config |= {"dtype": str(dtype).removeprefix("torch."), **(keys or {})}
    if model.config.tied_head:  # safetensors refuses two names for one tensor
        state = {name: tensor for name, tensor in state.items() if not name.endswith("head.weight")}
    text = json.dumps(config, indent=2, default=plain) + "\n"
    files = {CONFIG: text, **beside(config)} | ({} if code is None else {FILE: code})
    with whole_folder(folder, files) as fresh:
        _write_weights(state, fresh, dtype=dtype, shard_bytes=shard_bytes)
    return config


def read_folder(
    folder: str | os.PathLike[str], *, allowed: tuple[str, ...] = ALLOWED
) -> tuple[Decoder, dict[str, Any]]:
    """Read a model and its config.json, or raise CheckpointError with the file and the key.

    allowed: see `build`. Weights must be safetensors: other formats are pickles, which run code.
    """
    folder = Path(folder)
    try:
        config = read_object(folder / CONFIG)[1]
    except (OSError, ValueError) as fault:
        reason = f"is not JSON: {fault}"
        if isinstance(fault, OSError):
            reason = f"cannot be read ({fault.strerror}); is {folder} a model folder?"
        raise CheckpointError(f"{folder / CONFIG} {reason}") from fault
    state = _weights(folder)
    try:
        if config.get("model_type") == MODEL_TYPE:
            return _from_bipe(folder, config, state, allowed), config
        return from_official(*_as_released(config, state)), config
    except CheckpointError as fault:
        names_folder = str(fault).startswith(str(folder))
        raise CheckpointError(str(fault) if names_folder else f"{folder}: {fault}") from fault
    except UNFIT as fault:
        raise CheckpointError(f"{folder}: {CONFIG} and weights do not match: {fault}") from fault


def _as_official(
    model: Decoder, max_length: int
) -> tuple[dict[str, Any], dict[str, Tensor]] | None:
    """Return config and weights for a class of transformers; None if there is none."""
    try:
        config = config_to_official(model.config, max_length=max_length)
        if config.pop("rpe_type") != "rope" or config.get("log_scale"):
            return None
        return config, to_official(model)
    except CheckpointError:
        return None


def _as_bipe(model: Decoder, max_length: int) -> tuple[dict[str, Any], dict[str, Tensor]]:
    config: dict[str, Any] = {"model_type": MODEL_TYPE, "architectures": [DECODER[0]]}
    config |= {name: getattr(model.config, name) for name in _FIELDS}
    config["n_kv_head"] = model.config.kv_heads  # which transformers wants to know
    config["max_position_embeddings"] = max_length
    return config, {f"{_PREFIX}{name}": tensor for name, tensor in model.state_dict().items()}


def _as_released(
    config: Mapping[str, Any], state: Mapping[str, Tensor]
) -> tuple[Mapping[str, Any], Mapping[str, Tensor]]:
    """Return what bipe.hf.bilevel made of a class of transformers as the released layout has it."""
    kind = str(config.get("model_type"))
    if not kind.startswith(_BILEVEL):
        return config, state
    rest, bilevel = dict(state), config.get("bilevel", True)
    table = rest.pop(_TABLE, None)
    if bilevel:
        if table is None:
            raise CheckpointError(f"{_TABLE} is missing: are these all shards of the model?")
        rest[INTRA_TABLE] = table
    options = {"rpe_type": "bipe_rope" if bilevel else "rope"}
    return {**config, **options, "model_type": kind.removeprefix(_BILEVEL)}, rest


def _from_bipe(
    folder: Path, config: Mapping[str, Any], state: Mapping[str, Tensor], allowed: tuple[str, ...]
) -> Decoder:
    fields = {name: config[name] for name in _FIELDS if name in config}
    decoder = decoder_of(folder / CONFIG, fields, allowed=allowed)
    other = next((name for name in state if not name.startswith(_PREFIX)), None)
    if other is not None:
        raise CheckpointError(f"names of weights must start with {_PREFIX!r}, was: {other}")
    weights = {name.removeprefix(_PREFIX): tensor for name, tensor in state.items()}
    shapes = {name: tuple(tensor.shape) for name, tensor in weights.items()}
    require_shapes(decoder, shapes, allowed=allowed)
    model = Decoder(decoder, allowed=allowed).to(weights["tokens.weight"].dtype)
    load_weights(model, weights)
    return model


def _write_weights(
    state: Mapping[str, Tensor], folder: Path, *, dtype: torch.dtype, shard_bytes: int
) -> None:
    """Write weights as one file, or as several in their order with an index."""
    shards: list[dict[str, Tensor]] = [{}]
    room = shard_bytes
    for name, tensor in state.items():
        size = tensor.numel() * dtype.itemsize
        if shards[-1] and size > room:
            shards.append({})
            room = shard_bytes
        shards[-1][name] = tensor
        room -= size
    files = {
        (f"model-{i:05d}-of-{len(shards):05d}.safetensors" if len(shards) > 1 else WEIGHTS): shard
        for i, shard in enumerate(shards, start=1)
    }
    for file, shard in files.items():
        tensors = {name: _cast(name, tensor, dtype) for name, tensor in shard.items()}
        save_file(tensors, folder / file, metadata={"format": "pt"})
    if len(shards) > 1:
        total = sum(tensor.numel() * dtype.itemsize for tensor in state.values())
        places = {name: file for file, shard in files.items() for name in shard}
        index = {"metadata": {"total_size": total}, "weight_map": places}
        (folder / INDEX).write_text(json.dumps(index, indent=2) + "\n", encoding="utf-8")


def _cast(name: str, values: Tensor, dtype: torch.dtype) -> Tensor:
    cast = values.to(dtype).contiguous()
    if dtype == torch.float16 and bool(cast.isinf().any() & values.isfinite().all()):
        raise CheckpointError(
            f"{name} has values outside the range of float16: use bfloat16 or float32"
        )
    return cast


def _weights(folder: Path) -> dict[str, Tensor]:
    """Return all weights of a folder, from one file or from the shards that its index lists."""
    index, names = folder / INDEX, [WEIGHTS]
    if index.is_file():
        try:
            names = sorted({str(name) for name in read_object(index)[1]["weight_map"].values()})
        except (AttributeError, KeyError, ValueError) as fault:
            raise CheckpointError(f"{index} has no weight_map of files: {fault}") from fault
    state: dict[str, Tensor] = {}
    for name in names:
        path = folder / name
        if Path(name).name != name or not name.endswith(".safetensors"):
            raise CheckpointError(
                f"{index}: must list .safetensors files of its folder, was: {name!r}"
            )
        if not path.is_file():
            pickles = sorted(file.name for file in folder.glob("*.bin"))
            cure = f"; {pickles[0]} is a pickle: save it as safetensors first" if pickles else ""
            raise CheckpointError(f"{path} is missing{cure or '; copy the whole folder'}")
        try:
            state |= load_file(path)
        except (OSError, SafetensorError) as fault:
            raise CheckpointError(f"{path} cannot be read: {fault}; copy it again") from fault
    odd = sorted({str(tensor.dtype) for tensor in state.values() if not tensor.is_floating_point()})
    if odd or not state:
        raise CheckpointError(f"{folder}: weights must be floats, was: {', '.join(odd) or 'none'}")
    # Norms are in float32 here and there: the widest type holds all values as they are.
    widest = functools.reduce(torch.promote_types, {tensor.dtype for tensor in state.values()})
    return {name: tensor.to(widest) for name, tensor in state.items()}
