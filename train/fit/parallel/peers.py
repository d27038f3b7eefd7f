"""Ranks that watch each other: when one is gone, the others end within a minute and name it.

Each has one idle TCP connection to rank 0; whoever leaves in order says so. The kernel closes that
of a killed process at once, and probes it (keepalive), so that a lost machine is found in about
half a minute. Nothing sends heartbeats: a rank that is busy for minutes inside one call, even with
Python's lock, is not taken for dead. (A store of torch lives in rank 0, and NCCL waits 10 minutes.)

Lightning's own launcher of a machine's further processes kills everybody as soon as one child ends
with a status that is not 0, also when all are about to end since they were asked to. `Launcher`
keeps signals back until a child can handle them (stop.stopping lets them in).
"""

import contextlib
import json
import logging
import os
import secrets
import selectors
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from lightning.pytorch.strategies.launchers import _SubprocessScriptLauncher

from train import stop

log = logging.getLogger(__name__)

EXIT_LOST = 75  # EX_TEMPFAIL: run it again
_JOIN = 120.0  # seconds for all ranks to connect
_GREETING, _LONGEST = 10.0, 4096  # seconds, and characters, for a rank to say who it is
_PATIENCE = 10.0  # seconds in which the death of a rank follows the error that it causes
_PROBES = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 4, "TCP_USER_TIMEOUT": 30_000}


class Peers:
    """The connections of one rank. Every rank makes it at the same point, and closes it in the end.

    share: broadcasts from rank 0. ending: what to do before this process ends.
    """

    def __init__(
        self,
        *,
        rank: int,
        world: int,
        share: Callable[[Any], Any],
        ending: Callable[[], object] = lambda: None,
    ) -> None:
        self._me = {"rank": rank, "host": socket.gethostname(), "pid": os.getpid()}
        self._links: dict[socket.socket, Mapping[str, Any]] = {}
        self._ending, self._over, self._verdict = ending, threading.Event(), threading.Event()
        try:
            if rank == 0:
                self._gather(world, share)
            else:
                host, port, key, who = share(None)
                link = socket.create_connection((host, port), timeout=_JOIN)
                _send(link, self._me | {"key": key})
                self._links[_probed(link)] = who
        except OSError as fault:
            log.warning("ranks cannot watch each other (%s): a lost one may go unnoticed", fault)
        threading.Thread(target=self._watch, name="peers", daemon=True).start()

    def close(self) -> None:
        if not self._over.is_set():
            self._over.set()
            self._tell({"left": True})

    def failed(self, error: BaseException, *, status: int) -> None:
        """Tell the others that this rank ends by an error; if another is gone, end by that."""
        if self._over.is_set():
            return
        # A lost rank shows in the collectives of the others a moment before its connection closes.
        if isinstance(error, RuntimeError) and self._verdict.wait(_PATIENCE):
            time.sleep(_JOIN)  # long enough: the thread ends this process
        text = str(error).partition("\n")[0]
        self._tell({"of": self._me, "error": f"{type(error).__name__}: {text}", "status": status})
        self._over.set()

    def _gather(self, world: int, share: Callable[[Any], Any]) -> None:
        dual, key = socket.has_dualstack_ipv6(), secrets.token_hex(8)
        family = socket.AF_INET6 if dual else socket.AF_INET
        with socket.create_server(("", 0), family=family, dualstack_ipv6=dual) as server:
            host = os.environ.get("MASTER_ADDR", "localhost")
            share((host, server.getsockname()[1], key, self._me))
            limit = time.monotonic() + _JOIN
            while len(self._links) < world - 1:
                server.settimeout(max(0.1, limit - time.monotonic()))
                link, _ = server.accept()
                if (hello := _greeting(link, key)) is None:
                    link.close()
                else:
                    self._links[_probed(link)] = hello

    def _watch(self) -> None:
        with selectors.DefaultSelector() as selector:
            for link in self._links:
                selector.register(link, selectors.EVENT_READ)
            while not self._over.is_set() and selector.get_map():
                for key, _ in selector.select(timeout=1.0):
                    of: Any = key.fileobj
                    told = _received(of)
                    if told.get("left"):
                        selector.unregister(of)
                    elif not self._over.is_set():
                        self._end(told or {"of": self._links[of]})

    def _end(self, found: dict[str, Any]) -> None:
        self._verdict.set()
        rank = self._me["rank"]
        if rank == 0:
            self._tell(found)
        # Rank 0 speaks; if it is killed, one rank of each machine does.
        killed = found["of"]["rank"] == 0 and "error" not in found
        speaks = rank == 0 or (killed and (rank == 1 or os.environ.get("LOCAL_RANK") == "0"))
        text = f"\nbipe: {_described(found)}" if speaks else ""
        stop.end_process(found.get("status", EXIT_LOST), text, before=self._ending)

    def _tell(self, message: Mapping[str, Any]) -> None:
        for link in self._links:
            with contextlib.suppress(OSError):
                _send(link, message)


def _described(found: Mapping[str, Any]) -> str:
    of = found["of"]
    how = "was killed, or its machine was lost"
    if "error" in found:
        how = f"ended by an error: {found['error']}"
    return (
        f"rank {of['rank']} ({of['host']}, pid {of['pid']}) {how}; the other ranks end "
        "too. Run the same command again to resume from the last checkpoint"
    )


def _greeting(link: socket.socket, key: str) -> dict[str, Any] | None:
    """Return who a rank says it is; None for a stranger, such as a scanner of ports."""
    link.settimeout(_GREETING)
    with contextlib.suppress(OSError, ValueError, RecursionError):
        hello = json.loads(link.makefile().readline(_LONGEST))
        if isinstance(hello, dict) and hello.pop("key", None) == key:
            return hello
    return None


def _probed(link: socket.socket) -> socket.socket:
    """Have the kernel probe the other end of an idle connection."""
    link.settimeout(None)
    link.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _PROBES.items():
        if hasattr(socket, name):
            link.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return link


def _send(link: socket.socket, message: Mapping[str, Any]) -> None:
    link.sendall(json.dumps(message).encode() + b"\n")


def _received(link: socket.socket) -> dict[str, Any]:
    """Return the next message; an empty one if the other end is gone."""
    data = b""
    with contextlib.suppress(OSError):
        while not data.endswith(b"\n") and (piece := link.recv(1 << 16)):
            data += piece
    found: dict[str, Any] = json.loads(data.splitlines()[0]) if data.endswith(b"\n") else {}
    return found


_LOOK = 0.5  # seconds
_ENDING = 20.0  # seconds for children to end by themselves
_PARENT = "BIPE_PARENT"


class Launcher(_SubprocessScriptLauncher):
    """Starts one process for each further device, and ends with them."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._over = threading.Event()

    def launch(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if self.cluster_environment.creates_processes_externally:
            return super().launch(function, *args, **kwargs)
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, stop.SIGNALS)  # inherited by the children
        os.environ[_PARENT] = str(os.getpid())
        try:
            self._call_children_scripts()
        finally:
            del os.environ[_PARENT]
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        threading.Thread(target=self._watch, name="children", daemon=True).start()
        kwargs.pop("trainer", None)
        return function(*args, **kwargs)

    def end(self) -> None:
        """Wait for the children, which end by themselves; kill those that do not."""
        self._over.set()
        limit = time.monotonic() + _ENDING
        for child in self.procs:
            try:
                child.wait(max(0.1, limit - time.monotonic()))
            except subprocess.TimeoutExpired:
                child.kill()

    def _watch(self) -> None:
        """End this process if a child ends too early to be missed by the other ranks."""
        while not self._over.wait(_LOOK):
            for number, child in enumerate(self.procs, start=1):
                if child.poll():  # neither None, which is running, nor 0
                    time.sleep(_ENDING / 4)  # ranks that know each other know more
                    if not self._over.is_set():
                        self._lost(number, child)

    def _lost(self, number: int, child: subprocess.Popen[Any]) -> None:
        status = child.returncode
        how = f"was killed by {signal.Signals(-status).name}" if status < 0 else f"ended ({status})"
        told = f"bipe: rank {number} of this machine (pid {child.pid}) {how}; the others end too"
        stop.end_process(status if status > 0 else EXIT_LOST, told, before=self._kill)

    def _kill(self) -> None:
        for child in self.procs:
            child.kill()


def end_with_parent() -> None:
    """End this process, if Lightning started it, soon after the one that did."""
    parent = os.environ.get(_PARENT)

    def watch() -> None:
        while str(os.getppid()) == parent:
            time.sleep(_LOOK)
        time.sleep(_ENDING / 4)  # ranks that know each other name the dead one first
        os._exit(EXIT_LOST)

    if parent is not None:
        threading.Thread(target=watch, name="parent", daemon=True).start()
