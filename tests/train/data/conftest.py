"""Faults of the machine, for the tests of the data room."""

import errno
import os
from pathlib import Path

import pytest

ROOM = 4096  # bytes


class SmallFile:
    """A file opened for writing on a disk that has no room for more."""

    def __init__(self, file):
        self._file = file
        self._written = 0

    def write(self, data):
        self._written += len(data)
        if self._written > ROOM:
            raise OSError(errno.ENOSPC, "No space left on device")
        return self._file.write(data)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._file.close()

    def __getattr__(self, name):
        return getattr(self._file, name)


@pytest.fixture(scope="module", autouse=True)
def no_fsync():
    """Hundreds of files are written, and nobody pulls the plug; tests of fsync set their own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        yield


@pytest.fixture
def small_files(monkeypatch):
    """Refuse to write beyond a few bytes of a file, as a full disk does.

    A limit of the system's own (RLIMIT_FSIZE) would hold for the log of the tests as well.
    """
    whole = Path.open

    def opened(self, mode="r", *arguments, **options):
        file = whole(self, mode, *arguments, **options)
        return SmallFile(file) if "w" in mode else file

    monkeypatch.setattr(Path, "open", opened)
