"""Manifests: the JSON file that is written last; a folder without one holds no data.

The last key is a seal (bipe/sealing.py): a changed byte is also found in the manifest itself, which
vouches for all other files.

Manifests and messages are shared more widely than passwords: `redacted` removes user names and
access keys from addresses, and in a configuration also the values of keys that sound secret.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bipe.sealing import is_sealed, read_object, sealed
from train.disk.files import checksum, differing, sha256, write_whole
from train.errors import DataError

# What several rooms name.
SPLITS = ("train", "validation", "test")
TOKENIZER_CONFIG = "tokenizer_config.json"  # beside tokenizer.json, as transformers has it
_AGAIN = "remove the folder and prepare again"
_USER = re.compile(r"(?<=://)[^/@\s]+@")
# Query keys that grant access: tokens, signatures of S3, Azure and Google, and the like.
_QUERY = re.compile(
    r"(?i)([?&][^=&#\s]*(?:token|secret|pass[wp]|pwd|key|signature|credential|auth|sig|session)"
    r"[^=&#\s]*=)[^&#\s]+"
)
_SECRET = re.compile(r"(?i)key|token|secret|pass[wp]|pwd|credential|signature")
_NO_SECRET = re.compile(
    r"tokens?_per_|(?:max|special)_tokens|tokenizer|(?:text|id|kind)_key|meta_keys|passkey"
)


def store(path: Path, manifest: dict[str, Any]) -> dict[str, Any]:
    """Write a manifest with its seal; return it as `load` will."""
    text = sealed(manifest)
    write_whole(path, text)
    return dict(json.loads(text))


def load(path: Path, *, format: str, version: int, what: str) -> dict[str, Any]:
    """Return the manifest in a file.

    what: the kind of data, for messages ("shards"). Raises DataError if the file is missing, is not
    a manifest, has another format or version, or was changed.
    """
    if not path.exists():
        inside = [folder.parent for folder in sorted(path.parent.glob(f"*/{path.name}"))]
        cure = f"name {' or '.join(map(str, inside[:3]))}" if inside else "bipe prepare first"
        raise DataError(f"{path} is missing: {path.parent} contains no {what}; {cure}")
    try:
        text, manifest = read_object(path)
        found = (manifest["format"], manifest["version"])
    except (ValueError, KeyError) as fault:
        raise DataError(f"{path}: not a manifest of {what} ({fault}); {_AGAIN}") from None
    if found[0] != format or not isinstance(found[1], int):
        raise DataError(f"{path}: must be {format} {version}, was: {found[0]} {found[1]}")
    if found[1] != version:
        age = "a newer" if found[1] > version else "an older"
        raise DataError(
            f"{path}: made by {age} version of bipe: format {found[1]}, this reads {version}. "
            "Install that version, or prepare again into another folder"
        )
    if not is_sealed(text, manifest):
        raise DataError(
            f"{path}: has changed since it was written: its seal does not match; {_AGAIN}"
        )
    return manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What is wrong with a file; start, stop: the place in bytes, if known."""

    path: Path
    what: str
    start: int | None = None
    stop: int | None = None

    def __str__(self) -> str:
        where = "" if self.start is None else f" (bytes {self.start} to {self.stop})"
        return f"{self.path}: {self.what}{where}"


def file_faults(
    folder: Path,
    files: dict[str, dict[str, Any]],
    *,
    hashes: bool = True,
    advance: Callable[[int], object] = lambda _: None,
) -> Iterator[Fault]:
    """Yield listed files that are missing, or whose size or (with `hashes`) sha256 differs.

    files: digest (disk/files.py) of each name. advance: gets the size in bytes of each piece read.
    """
    for name, expected in files.items():
        path = folder / name
        if not path.is_file():
            yield Fault(path=path, what="missing, though the manifest lists it; prepare again")
            continue
        size = path.stat().st_size
        if size != expected["bytes"]:
            what = f"{size} bytes, but the manifest says {expected['bytes']}; prepare again"
            first, last = sorted((size, expected["bytes"]))
            yield Fault(path=path, what=what, start=first, stop=last)
        elif hashes and sha256(path, advance=advance) != expected["sha256"]:
            # If no block differs, the files are as written and the manifest was changed.
            places: list[Any] = [*differing(checksum(path), expected)]
            for start, stop in places or [(None, None)]:
                what = "its sha256 is not the manifest's; prepare again"
                yield Fault(path=path, what=what, start=start, stop=stop)


def plain(value: Any) -> Any:
    """Return a value as JSON gives it back: tuples become lists."""
    return json.loads(json.dumps(value))


def redacted(value: Any, *, name: str = "") -> Any:
    """Return a copy of a text or a configuration without secrets; name: its key in a configuration.

    >>> redacted("https://me:secret@host/a.jsonl?token=abc&page=2")
    'https://...@host/a.jsonl?token=...&page=2'
    """
    if isinstance(value, Mapping):
        return {key: redacted(item, name=str(key)) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [redacted(item, name=name) for item in value]
    if not isinstance(value, str):
        return value
    if _SECRET.search(name) and not _NO_SECRET.search(name):
        return "(redacted)"
    return _QUERY.sub(r"\1...", _USER.sub("...@", value))
