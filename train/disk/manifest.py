"""Manifests: the JSON file that is written last and without which a folder holds no data.

Its last key is a seal: the sha256 of the file's own bytes, taken with zeros in its place. So a
changed byte anywhere in a manifest, which vouches for all other files, is found as well.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from train.disk.files import write_whole
from train.errors import DataError

SEAL = "seal"
_ZEROS = "0" * 64
_AGAIN = "remove the folder and prepare again"


def store(path: Path, manifest: dict[str, Any]) -> dict[str, Any]:
    """Write a manifest with its seal; return it as it will be read."""
    blank = json.dumps({**manifest, SEAL: _ZEROS}, indent=1) + "\n"
    seal = hashlib.sha256(blank.encode()).hexdigest()
    write_whole(path, seal.join(blank.rsplit(_ZEROS, 1)))
    return {**manifest, SEAL: seal}


def load(path: Path, *, format: str, version: int, what: str) -> dict[str, Any]:
    """Return the manifest in a file.

    what: what it describes, for the message ("shards"). Raises DataError if there is none, if it
    is not a manifest, of another format or version, or not as it was written.
    """
    if not path.exists():
        raise DataError(f"{path}: there is none: {path.parent} holds no {what}; prepare it first")
    try:
        text = path.read_bytes().decode()
        manifest = json.loads(text)
        found = (manifest["format"], manifest["version"])
    except (ValueError, KeyError, TypeError, RecursionError) as fault:
        raise DataError(f"{path}: not a manifest of {what} ({fault}); {_AGAIN}") from None
    if found[0] != format or not isinstance(found[1], int):
        raise DataError(f"{path}: must be {format} {version}, was: {found[0]} {found[1]}")
    if found[1] != version:
        age = "a newer" if found[1] > version else "an older"
        raise DataError(
            f"{path}: made by {age} bipe: version {found[1]}, this reads {version}. Install that "
            "bipe, or prepare again with this one into another folder"
        )
    if not _sealed(text, manifest.get(SEAL)):
        raise DataError(f"{path}: is not as it was written: its seal does not fit; {_AGAIN}")
    return manifest


def plain(value: Any) -> Any:
    """Return a value as it is read back from JSON: tuples are lists."""
    return json.loads(json.dumps(value))


def _sealed(text: str, seal: object) -> bool:
    if not isinstance(seal, str) or len(seal) != len(_ZEROS):
        return False
    blank = _ZEROS.join(text.rsplit(seal, 1))
    return hashlib.sha256(blank.encode()).hexdigest() == seal
