"""One process per folder: a lock that ends with its process, based on the library `filelock`.

The lock is a file that names its holder, who renews it: so it also works where the file system has
no locks, and between hosts. On the host of the holder a file that a killed process left counts for
nothing; from another host nobody can tell at once, so one waits for the holder to renew it.
"""

import os
import signal
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from filelock import LeaseCompromise, SoftFileLease, Timeout

from bipe.sealing import is_running, process_facts, process_space
from train.disk.files import writing
from train.errors import DataError

LEASE = 60.0  # seconds without renewal after which a holder on another host counts as dead
_GRACE = 10.0  # more seconds to wait for it, since clocks and disks are late
_AT_ONCE = 0.5  # seconds, in which the file of a dead holder on this host is replaced
_NAMESPACE = "?pidns-"  # filelock adds the namespace of process numbers to a host's name


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """Who holds a lock; seen: seconds since the epoch of the last renewal.

    start: filelock's token of the moment when the process began, which tells a number that was used
    again; None where a system has none. On Linux its low 64 bits are clock ticks since the boot.
    """

    pid: int
    start: int | None
    host: str
    since: str
    command: str
    seen: float

    @property
    def here(self) -> bool:
        """Whether process numbers of this host are those of the holder."""
        return self.host == socket.gethostname()

    @property
    def alive(self) -> bool:
        """Whether the holder runs, as far as can be told without waiting."""
        if self.here:
            began = process_facts(self.pid)[19:20]  # field 22: clock ticks since the boot
            same = self.start is None or began in ([], [str(self.start % 2**64)])
            return same and is_running(self.pid)
        return time.time() - self.seen < 2 * LEASE

    def __str__(self) -> str:
        since = f" since {self.since}" * bool(self.since)
        return f"{self.command or 'a process'} (process {self.pid} on {self.host}{since})"


@contextmanager
def locked(path: Path, *, what: str, command: str = "bipe prepare") -> Iterator[None]:
    """Hold the lock at `path` for the block; DataError names who holds `what` if it is taken."""
    lease = SoftFileLease(
        path, lease_duration=LEASE, on_compromise=_end_this_process, poll_interval=0.05
    )
    with writing(path):
        _acquire(lease, path, what)
    try:
        with suppress(OSError), path.open("a", encoding="utf-8") as file:  # for messages only
            file.write(f"since={time.strftime('%Y-%m-%d %H:%M:%S')}\ncommand={command}\n")
        yield
    finally:
        lease.release()


def holder(path: Path) -> Holder | None:
    """Return who holds a lock, dead or alive; None if nobody does."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        seen = path.stat().st_mtime
        facts = dict(line.split("=", 1) for line in lines if "=" in line)
        host, _, namespace = facts["host"].partition(_NAMESPACE)
        if namespace and namespace != process_space():
            host = f"{host} (in a container)"
        return Holder(
            pid=int(facts["pid"]),
            start=int(facts["start"]) if "start" in facts else None,
            host=host,
            since=facts.get("since", ""),
            command=facts.get("command", ""),
            seen=seen,
        )
    except (OSError, ValueError, KeyError):  # gone, or killed while writing
        return None


def _acquire(lease: SoftFileLease, path: Path, what: str) -> None:
    for patience in (lambda: _AT_ONCE, lambda: _patience(path, what)):
        with suppress(Timeout):
            lease.acquire(timeout=patience())
            return
    raise DataError(
        f"{what} is in use by {holder(path) or 'another process'}. Wait for it, or stop it; if it "
        f"is dead, remove {path}"
    )


def _patience(path: Path, what: str) -> float:
    """Return the seconds to wait for a lock that is taken."""
    facts = holder(path)
    if facts is None:  # it is just being written or released, or its writer was killed
        time.sleep(_AT_ONCE)
        facts = holder(path)
    if facts is None:
        path.unlink(missing_ok=True)
        return _AT_ONCE
    if not facts.here:
        print(
            f"{what} is in use by {facts}: waiting up to {LEASE:.0f} s to see if it is alive",
            file=sys.stderr,
            flush=True,
        )
        return LEASE + _GRACE
    if not facts.alive:  # a dead process whose parent never asked for its status
        path.unlink(missing_ok=True)
    return 0 if facts.alive else _AT_ONCE


def _end_this_process(loss: LeaseCompromise) -> None:
    """Stop as on SIGTERM if another process has taken the lock: only one may write there."""
    if loss.reason == "owner-changed":
        print(f"{loss.lock_file}: taken by another process; this one stops", file=sys.stderr)
        os.kill(os.getpid(), signal.SIGTERM)
