"""The folder of a prepared data set: built aside, installed whole, never mixed with other files.

    OUT/manifest.json  statistics.json  tokenizer.json  README.md  SOURCE/{train,validation,test}/

Work happens in OUT/.part, on the disk where it will stay. `install` moves it into place and the
manifest last; whatever fails before leaves the folder as it was found.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from train.data.checksum import checksum
from train.data.disk import full_disk, sync_folder
from train.data.documents import DataError
from train.data.manifest import load, store
from train.data.split import SPLITS

FORMAT = "bipe-data"
VERSION = 2
MANIFEST = "manifest.json"
STATISTICS = "statistics.json"
TOKENIZER = "tokenizer.json"
CARD = "README.md"
_FILES = {MANIFEST, STATISTICS, TOKENIZER, CARD}
_PART = ".part"


def finished(out: Path) -> dict[str, Any] | None:
    """The manifest of the data set in a folder, None if there is no data set.

    Raises DataError if the folder holds anything that `prepare` did not write.
    """
    if not out.exists():
        return None
    if not out.is_dir():
        raise DataError(f"out={out}: must be a folder, is a file")
    for entry in sorted(out.iterdir()):
        if entry.name != _PART and not _ours(entry):
            raise DataError(
                f"out={out} holds {entry.name}, which is not of a prepared data set. Choose "
                "another folder or move that away"
            )
    return read_top(out) if (out / MANIFEST).exists() else None


def read_top(out: Path) -> dict[str, Any]:
    """The manifest of a prepared data set; DataError if there is none."""
    return load(out / MANIFEST, format=FORMAT, version=VERSION, what="prepared data")


def write_top(part: Path, manifest: dict[str, Any]) -> dict[str, Any]:
    """Write the manifest over a folder whose other files are complete; return it.

    It lists the checksums of those beside it and of the manifests of the splits, which list the
    others: so it vouches for every byte.
    """
    beside = (path for path in part.iterdir() if path.is_file())
    listed = sorted((*beside, *part.glob(f"*/*/{MANIFEST}")))
    files = {path.relative_to(part).as_posix(): checksum(path) for path in listed}
    return store(part / MANIFEST, {**manifest, "files": files})


@contextmanager
def staged(out: Path) -> Iterator[Path]:
    """A folder to build in; on success it becomes the content of `out`, else it vanishes."""
    existed = out.exists()
    part = out / _PART
    try:
        with full_disk(out):
            shutil.rmtree(part, ignore_errors=True)
            part.mkdir(parents=True)
        yield part
        _install(part, out)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        if not existed and out.exists() and not any(out.iterdir()):
            out.rmdir()
        raise


def differences(old: Any, new: Any, *, key: str = "") -> Iterator[str]:
    """Dotted keys by which two requests differ, with both values."""
    if isinstance(old, dict) and isinstance(new, dict):
        for name in dict.fromkeys((*old, *new)):
            inner = f"{key}.{name}" if key else name
            yield from differences(old.get(name), new.get(name), key=inner)
    elif old != new:
        yield f"{key} was {json.dumps(old)}, is {json.dumps(new)}"


def _install(part: Path, out: Path) -> None:
    (out / MANIFEST).unlink(missing_ok=True)  # from here to the end there is no data set
    for entry in out.iterdir():
        if entry.is_dir() and entry != part:
            shutil.rmtree(entry)
        elif entry != part:
            entry.unlink()
    for entry in sorted(part.iterdir(), key=lambda entry: entry.name == MANIFEST):
        entry.replace(out / entry.name)
    part.rmdir()
    sync_folder(out)


def _ours(entry: Path) -> bool:
    if entry.is_file():
        return entry.name in _FILES
    inside = list(entry.iterdir())
    return bool(inside) and all(folder.is_dir() and folder.name in SPLITS for folder in inside)
