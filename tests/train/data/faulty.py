"""A disk that fails: at the n-th write, fsync, close, rename or opening of a file to be written."""

import errno
import os
from pathlib import Path

OPERATIONS = ("open", "write", "fsync", "rename")


class FaultyDisk:
    """Counts what is done to files that are written; the fault comes at number `fail_at`.

    fail_at: from 0; None never. error: an errno. Afterwards the disk works again, for what tidies
    up, unless it `stays` broken.
    """

    def __init__(self, monkeypatch, *, fail_at=None, error=errno.EIO, stays=False):
        self.fail_at, self.error, self.stays = fail_at, error, stays
        self.count = 0
        self.done = []
        for owner, name, replacement in (
            (Path, "open", self._open),
            (Path, "replace", self._touching("rename")),
            (os, "fsync", self._touching("fsync")),
        ):
            monkeypatch.setattr(owner, name, replacement(getattr(owner, name)))

    @property
    def failed(self):
        return self.fail_at is not None and self.count > self.fail_at

    def touch(self, operation, path):
        number, self.count = self.count, self.count + 1
        self.done.append(operation)
        if number == self.fail_at or (self.stays and self.failed):
            raise OSError(self.error, os.strerror(self.error), str(path))

    def _open(self, whole):
        def opened(path, mode="r", *arguments, **options):
            if "w" not in mode:
                return whole(path, mode, *arguments, **options)
            self.touch("open", path)
            return FaultyFile(whole(path, mode, *arguments, **options), self, path)

        return opened

    def _touching(self, operation):
        def replacement(whole):
            def touched(path, *arguments):
                self.touch(operation, path)
                return whole(path, *arguments)

            return touched

        return replacement


class FaultyFile:
    """A file on such a disk; a failing write has written half."""

    def __init__(self, file, disk, path):
        self._file, self._disk, self._path = file, disk, path

    def write(self, data):
        try:
            self._disk.touch("write", self._path)
        except OSError:
            self._file.write(data[: len(data) // 2])
            raise
        return self._file.write(data)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._file.close()

    def __getattr__(self, name):
        return getattr(self._file, name)
