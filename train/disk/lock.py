"""One run to a folder: a lock that dies with its process.

The lock is a file that names its holder (host, process, start time), and a lock of the operating
system on it, which vanishes with the process. A file alone, left by a run that was killed, holds
nobody up; one from another host counts, since nobody here can tell whether that run is alive.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from train.errors import DataError

try:
    import fcntl
except ImportError:  # Windows: the file alone
    fcntl = None  # type: ignore[assignment]


@contextmanager
def locked(path: Path, *, what: str) -> Iterator[None]:
    """Hold the lock at `path` for the block; DataError names the holder of one that is held.

    what: the folder that is locked, for the message.
    """
    descriptor = _acquire(path, what)
    try:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(_identity()).encode(), 0)
        yield
    finally:
        # Removed while held: who opened it meanwhile sees that the file is gone, and starts over.
        path.unlink(missing_ok=True)
        os.close(descriptor)


def _acquire(path: Path, what: str) -> int:
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            free = _lock(descriptor)
            if free and not _still_there(descriptor, path):
                os.close(descriptor)
                continue
            holder = _read(descriptor)
            if not free or (holder is not None and _alive(holder)):
                raise DataError(f"{what} is being prepared by {_told(holder, path)}")
        except BaseException:
            with suppress(OSError):
                os.close(descriptor)
            raise
        return descriptor


def _lock(descriptor: int) -> bool:
    if fcntl is None:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks: what the file says has to do
        return True
    return True


def _still_there(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _identity() -> dict[str, Any]:
    pid = os.getpid()
    return {
        "host": socket.gethostname(),
        "pid": pid,
        "started": _started(pid),
        "since": time.strftime("%Y-%m-%d %H:%M:%S"),
    }


def _read(descriptor: int) -> dict[str, Any] | None:
    try:
        holder = json.loads(os.pread(descriptor, 4096, 0))
    except ValueError:  # empty, or killed while writing
        return None
    return holder if isinstance(holder, dict) and {"host", "pid"} <= holder.keys() else None


def _alive(holder: dict[str, Any]) -> bool:
    if holder["host"] != socket.gethostname():
        return True
    pid = int(holder["pid"])
    if pid == os.getpid():
        return False  # a lock of this very process would be held by the system as well
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # somebody else's process
        pass
    return holder.get("started") == _started(pid)


def _started(pid: int) -> str | None:
    """When a process started, in ticks since the boot; None where the system does not say.

    Process numbers are used again, so that a number alone does not name a process.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    return stat.rpartition(")")[2].split()[19]


def _told(holder: dict[str, Any] | None, path: Path) -> str:
    if holder is None:
        return "another run; wait for it"
    return (
        f"process {holder['pid']} on {holder['host']} since {holder.get('since')}. Wait for it; "
        f"if that run is dead, remove {path}"
    )
