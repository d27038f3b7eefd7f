"""A seal over a JSON text that vouches for other files: a changed byte is found in itself as well.

The seal is the last key: the sha256 of the text with zeros in place of the seal. It finds damage,
not forgery: anyone can seal.

Model folders have one: config.json with the size and sha256 of every other file. They are read here
without torch; of the weights, the header.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from safetensors import safe_open

SEAL = "seal"
_ZEROS = "0" * 64
_LONGEST = 1 << 28  # bytes; the block checksums of 32 TB of data
WEIGHTS = "model.safetensors"
CONFIG = "config.json"
FORMAT = "bipe-decoder/2"
UNSEALED = "bipe-decoder/1"  # without sha256 and seal
UNLISTED = ("README", "LICENSE")  # beginnings of files that may lie in a folder; so may hidden ones
_DTYPES = ("F64", "F32", "F16", "BF16")
# Names and shapes of tensors.
Shapes = Mapping[str, tuple[int, ...]]


def sealed(content: Mapping[str, Any]) -> str:
    """Return the JSON text of a mapping with its seal."""
    unsealed = {key: value for key, value in content.items() if key != SEAL}
    blank = json.dumps({**unsealed, SEAL: _ZEROS}, indent=1) + "\n"
    # The digest takes the place of the last zeros.
    return hashlib.sha256(blank.encode()).hexdigest().join(blank.rsplit(_ZEROS, 1))


def is_sealed(text: str, content: Mapping[str, Any]) -> bool:
    """Return whether a text is as `sealed` wrote it. content: what the text holds."""
    seal = content.get(SEAL)
    if not isinstance(seal, str) or len(seal) != len(_ZEROS):
        return False
    blank = _ZEROS.join(text.rsplit(seal, 1))
    return hashlib.sha256(blank.encode()).hexdigest() == seal


def read_object(path: Path) -> tuple[str, dict[str, Any]]:
    """Return the text of a JSON file and the object in it; OSError or ValueError if it has none."""
    if path.stat().st_size > _LONGEST:
        raise ValueError(f"it must be at most {_LONGEST} bytes, was: {path.stat().st_size}")
    text = path.read_bytes().decode()  # read_text would hide a changed line end
    try:
        content = json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(content, dict):
        raise ValueError(f"it must be an object, was: {type(content).__name__}")
    return text, content


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
    if found is None and "model_type" in content:
        raise CheckpointError(
            f"{folder} is a folder of Hugging Face transformers; bipe convert {folder} to=bipe "
            "out=RUN makes a run of it"
        )
    if found != FORMAT:
        raise CheckpointError(f"{path}: format must be {FORMAT!r}, was: {found!r}")
    if not is_sealed(text, content):
        raise CheckpointError(f"{path}: has changed since it was written: its seal does not match")
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
            raise CheckpointError(f"{folder / CONFIG}: files must be in the folder, was: {name!r}")
        if not path.is_file():
            raise CheckpointError(
                f"{path} is missing; a model folder contains {', '.join((CONFIG, *files))}"
            )
        if path.stat().st_size != entry.get("bytes"):
            raise CheckpointError(
                f"{path}: must have {entry.get('bytes')} bytes, was: {path.stat().st_size}; copy "
                "the folder again"
            )
    for path in sorted(folder.iterdir()):
        if path.name not in (CONFIG, *files) and not path.name.startswith((".", *UNLISTED)):
            raise CheckpointError(
                f"{path}: does not belong to the model: {CONFIG} does not list it"
            )


def require_unchanged(folder: Path, files: Mapping[str, Any]) -> None:
    """Raise CheckpointError for a file whose bytes are not those that were listed."""
    for name, entry in files.items():
        if bytes_sha256(folder / name) != entry.get("sha256"):
            raise CheckpointError(
                f"{folder / name}: has changed since it was written: its sha256 differs from that "
                f"in {CONFIG}; copy the folder again"
            )


def bytes_sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
