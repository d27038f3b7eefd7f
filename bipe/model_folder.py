"""The files of a model folder, read without torch: config.json, and the header of the weights.

config.json holds the size and sha256 of every other file, and a seal over itself.
"""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from safetensors import safe_open

from bipe.sealing import is_sealed, read_object, sealed

WEIGHTS = "model.safetensors"
CONFIG = "config.json"
FORMAT = "bipe-decoder/2"
UNSEALED = "bipe-decoder/1"  # without sha256 and seal
UNLISTED = ("README", "LICENSE")  # beginnings of files that may lie in a folder; so may hidden ones
_DTYPES = ("F64", "F32", "F16", "BF16")

# Names and shapes of tensors.
Shapes = Mapping[str, tuple[int, ...]]


class CheckpointError(ValueError):
    """A model folder that cannot be read; the message names the file and the reason."""


def read_config(folder: Path) -> dict[str, Any]:
    """Return what config.json holds; CheckpointError if it or the list of files is not as written.

    The bytes of the other files are not read.
    """
    path = folder / CONFIG
    try:
        text, content = read_object(path)
    except FileNotFoundError:
        raise CheckpointError(f"{path} is missing; is {folder} a model folder?") from None
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise CheckpointError(f"{path} is not JSON: {error}") from error
    found = content.get("format")
    if found == UNSEALED:
        raise CheckpointError(
            f"{path}: format must be {FORMAT!r}, was: {found!r}, which has no sha256. If you trust "
            f'this folder: python -c "from bipe.checkpoint import seal_model as seal; '
            f"seal('{folder}')\""
        )
    if found != FORMAT:
        raise CheckpointError(f"{path}: format must be {FORMAT!r}; other layouts: bipe.layouts")
    if not is_sealed(text, content):
        raise CheckpointError(f"{path}: is not as it was written: its seal does not fit")
    parts = ("decoder", "notes", "files")
    if not all(isinstance(content.get(part), dict) for part in parts):
        raise CheckpointError(f"{path}: decoder, notes and files must be objects")
    _require_files(folder, content["files"])
    return content


def write_config(folder: Path, content: Mapping[str, Any], *, beside: Sequence[str] = ()) -> None:
    """Write config.json for the weights in a folder, and the files beside them that are named.

    content: decoder and notes.
    """
    files = {
        name: {"bytes": (folder / name).stat().st_size, "sha256": bytes_sha256(folder / name)}
        for name in (WEIGHTS, *beside)
    }
    text = sealed({"format": FORMAT, **content, "files": files})
    fresh = folder / f".{CONFIG}"
    fresh.write_text(text, encoding="utf-8", newline="\n")
    fresh.replace(folder / CONFIG)


def read_shapes(weights: Path) -> Shapes:
    """Return the shapes in a safetensors file, from its header alone; ValueError for other types.

    The library has compared header and size of the file by then.
    """
    with safe_open(weights, framework="np") as file:
        found = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118 (no mapping)
        for name, tensor in found.items():
            if tensor.get_dtype() not in _DTYPES:
                known = ", ".join(_DTYPES)
                raise ValueError(f"{name} must be one of {known}, was: {tensor.get_dtype()}")
        return {name: tuple(tensor.get_shape()) for name, tensor in found.items()}


def _require_files(folder: Path, files: Mapping[str, Any]) -> None:
    """Raise CheckpointError unless a folder holds the files listed, of their sizes, and no more."""
    if WEIGHTS not in files:
        raise CheckpointError(f"{folder / CONFIG}: files must list {WEIGHTS}")
    for name, entry in files.items():
        path = folder / name
        if Path(name).name != name or not isinstance(entry, dict):
            raise CheckpointError(
                f"{folder / CONFIG}: files must list names in the folder: {name!r}"
            )
        if not path.is_file():
            raise CheckpointError(
                f"{path} is missing; a model folder holds {', '.join((CONFIG, *files))}"
            )
        if path.stat().st_size != entry.get("bytes"):
            raise CheckpointError(
                f"{path}: must have {entry.get('bytes')} bytes, was: {path.stat().st_size}; copy "
                "the folder again"
            )
    for path in sorted(folder.iterdir()):
        if path.name not in (CONFIG, *files) and not path.name.startswith((".", *UNLISTED)):
            raise CheckpointError(f"{path}: is not of the model: {CONFIG} does not list it")


def bytes_sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
