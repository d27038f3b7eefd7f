"""Rows of a task's split: from its zip archive on disk, at an address, or from a folder.

The official archives hold ``<task>/<split>.jsonl``; official.py has the format. An
archive at an address (hf://, https://, s3://) is downloaded once, by `datasets`, into its cache.
Nothing is unpacked to disk, and a member that is damaged is a fault, never a shorter split.
"""

from __future__ import annotations

import json
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from train.disk.redaction import redacted
from train.errors import DataError
from train.tasks.scrolls.example import SPLITS

_DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, OSError)


def rows(path: str, *, task: str, split: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each row of a split, with where it stands: file, member and row number (from 1).

    path: an archive, a folder with ``<task>.zip`` or ``<task>/<split>.jsonl``, or an address of
    either. Raises DataError for what is not there, cannot be read, or is no JSON object.
    """
    with _opened(path, task=task, split=split) as (name, lines):
        number = 0
        while True:
            number += 1
            where = f"{name}, row {number}"
            try:
                line = lines.readline()
            except _DAMAGE as fault:
                raise DataError(
                    f"{where}: the archive is damaged here ({fault}); fetch it again"
                ) from None
            if not line:
                return
            if not line.isspace():
                yield where, _object(line, where=where)


def _object(line: bytes, *, where: str) -> dict[str, Any]:
    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        names = [name for name, _ in pairs]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise DataError(f"{where}: a field must come once, were twice: {', '.join(twice)}")
        return dict(pairs)

    try:
        row = json.loads(line.decode("utf-8"), object_pairs_hook=once)
    except DataError:
        raise
    # Numbers of thousands of digits are a ValueError, as what is no JSON or no UTF-8.
    except (ValueError, RecursionError) as fault:
        raise DataError(f"{where}: must be a JSON object in UTF-8: {fault}") from None
    if not isinstance(row, dict):
        raise DataError(f"{where}: must be a JSON object, was: {type(row).__name__}")
    return row


@contextmanager
def _opened(path: str, *, task: str, split: str) -> Iterator[tuple[str, IO[bytes]]]:
    """The lines of a split, with the name of the file for messages."""
    if split not in SPLITS:
        raise DataError(f"split must be one of {', '.join(SPLITS)}, was: {split}")
    place = _downloaded(path, task=task) if "://" in path else Path(path)
    shown = redacted(path)
    if place.is_dir():
        loose = place / task / f"{split}.jsonl"
        if loose.is_file():
            with loose.open("rb") as lines:
                yield str(loose), lines
            return
        place, shown = place / f"{task}.zip", f"{shown}/{task}.zip"
    if not place.is_file():
        raise DataError(
            f"path={shown}: there is no such file; task {task} needs its official zip, or a folder "
            f"with {task}.zip or {task}/{split}.jsonl in it"
        )
    member = f"{task}/{split}.jsonl"
    try:
        with zipfile.ZipFile(place) as archive:
            if member not in archive.namelist():
                held = ", ".join(sorted(archive.namelist())[:8]) or "nothing"
                raise DataError(f"{shown}: split {split} is missing: no {member}; it has: {held}")
            with archive.open(member) as lines:
                yield f"{shown}, {member}", lines
    except _DAMAGE as fault:
        raise DataError(f"{shown}, {member}: cannot be read ({fault}); fetch it again") from None


def _downloaded(path: str, *, task: str) -> Path:
    """The archive at an address, in the cache of `datasets`."""
    import datasets

    address = path if path.partition("?")[0].endswith(".zip") else f"{path.rstrip('/')}/{task}.zip"
    try:
        return Path(datasets.DownloadManager().download(address))
    except (OSError, ValueError, datasets.exceptions.DatasetsError) as fault:
        raise DataError(
            f"path={redacted(address)}: {type(fault).__name__}: {redacted(str(fault))}. Check the "
            "address and the network (HF_HUB_OFFLINE), or set path= to a local zip"
        ) from fault
