"""One run per folder: a lock that ends with its process, based on the library `filelock`.

The lock is the system's (flock), on a file that names its holder, so a file that a killed run left
blocks nobody. On a file system without such locks the file itself is the lock; `filelock` takes it
over if its process is dead. A file from another host always counts, since nobody here can tell
whether that run is alive.
"""

import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import BaseFileLock, FileLock, SoftFileLock, Timeout

from train.errors import DataError


@contextmanager
def locked(path: Path, *, what: str) -> Iterator[None]:
    """Hold the lock at `path` for the block; DataError says who holds `what` if it is taken."""
    there = path.exists()
    lock: BaseFileLock = FileLock(path, timeout=0, fallback_to_soft=False)
    try:
        try:
            lock.acquire()
        except Timeout:
            raise
        except OSError:  # a file system without locks; the errors vary
            if not there:
                path.unlink(missing_ok=True)
            lock = SoftFileLock(path, timeout=0)
            lock.acquire()
    except Timeout:
        raise _held(path, what) from None
    try:
        if not isinstance(lock, SoftFileLock):
            if _holder(path)[1] not in ("", socket.gethostname()):
                raise _held(path, what)
            with suppress(OSError):  # only for the messages of other runs
                path.write_text(f"{os.getpid()}\n{socket.gethostname()}\n")
        try:
            yield
        finally:
            # Removed while held: a process that has opened it sees that it is gone, and retries.
            path.unlink(missing_ok=True)
    finally:
        lock.release()


def _holder(path: Path) -> tuple[str, str]:
    """Return the process and the host that a lock file names, or empty strings."""
    try:
        pid, host = path.read_text(encoding="utf-8").splitlines()[:2]
    except (OSError, ValueError):  # gone, or killed while writing
        return "", ""
    return pid, host


def _held(path: Path, what: str) -> DataError:
    pid, host = _holder(path)
    if not pid:
        return DataError(f"{what} is being prepared by another run; wait for it")
    with suppress(OSError):
        since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(path.stat().st_mtime))
        host = f"{host} since {since}"
    return DataError(
        f"{what} is being prepared by process {pid} on {host}. Wait for it; if that run is dead, "
        f"remove {path}"
    )
