"""Writing files that are whole or absent, and saying so when the disk is full.

A file is written under a temporary name in its own folder, synchronised and renamed, so that no
reader ever sees a part of it. `full_disk` turns the errors of a disk without room into one that
names the path and the cure, `writing` those of any disk.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from train.disk.checksum import Checksum
from train.errors import DataError

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_synced = ContextVar("synced", default=True)


class Output:
    """A file that grows under a temporary name, hashed on the way.

    Nothing is at `path` before `commit`, and nothing is left of it after `discard`.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._part = path.with_name(f".{path.name}.part")
        self._checksum = Checksum()
        with writing(path):
            self._file = self._part.open("wb")

    @property
    def size(self) -> int:
        """Bytes written so far."""
        return self._checksum.size

    def write(self, data: bytes | memoryview) -> None:
        with writing(self.path):
            self._file.write(data)
        self._checksum.update(data)

    def flush(self) -> None:
        """For writers that want one (torch.save); `commit` does what matters."""

    def commit(self) -> dict[str, Any]:
        """Put the file in its place; return its size (bytes) and checksums."""
        with writing(self.path):
            self._file.flush()
            _sync(self._file.fileno())
            self._file.close()
            self._part.replace(self.path)
        return self._checksum.digest()

    def discard(self) -> None:
        """Remove what was written, committed or not."""
        with suppress(OSError):  # closing flushes, which a full disk refuses once more
            self._file.close()
        remove(self._part)
        remove(self.path)


def write_whole(path: Path, text: str) -> None:
    """Write a text file that is whole or absent."""
    part = path.with_name(f".{path.name}.part")
    try:
        with writing(path):
            with part.open("w", encoding="utf-8", newline="\n") as file:
                file.write(text)
                file.flush()
                _sync(file.fileno())
            part.replace(path)
    except BaseException:
        remove(part)
        raise
    with writing(path):
        sync_folder(path.parent)


def remove(path: Path) -> None:
    """Remove a file if it is there and can be removed; what follows a fault must not hide it."""
    with suppress(OSError):
        path.unlink()


def _sync(descriptor: int) -> None:
    if _synced.get():
        os.fsync(descriptor)


def sync_folder(folder: Path) -> None:
    """Make renames in a folder survive a loss of power, where the system can."""
    if os.name != "posix" or not _synced.get():
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def unsynced() -> Iterator[None]:
    """Do not wait for the disk in the block: for files that are checked before they are used.

    They are whole or absent all the same when a process is killed, if not when the power fails.
    Eight milliseconds a file are more than a small one takes to make.
    """
    before = _synced.set(False)
    try:
        yield
    finally:
        _synced.reset(before)


@contextmanager
def full_disk(path: Path) -> Iterator[None]:
    """Raise DataError naming `path` where the disk has no room."""
    try:
        yield
    except OSError as fault:
        if fault.errno not in _FULL:
            raise
        raise DataError(
            f"{path}: no room is left to write it ({fault.strerror}). Free space, or set data= "
            "or out= to a folder on another disk, then run again; what was half-written has been "
            "removed"
        ) from fault


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Raise DataError naming `path` where it cannot be written, whatever the reason."""
    try:
        with full_disk(path):
            yield
    except OSError as fault:
        raise DataError(
            f"{path}: cannot be written ({fault.strerror or fault}). Check the disk and the "
            "permissions, or set data= or out= to another folder, then run again; what was "
            "half-written has been removed"
        ) from fault
