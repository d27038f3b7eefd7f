"""The processes of one machine's further devices, which Lightning starts from the first.

Lightning's own launcher kills everybody as soon as one child ends with a status that is not 0, also
when all are about to end since they were asked to, and forgets what a child that is starting is
told by Ctrl-C. Here signals wait until a child can handle them (stop.stopping lets them in), and a
child ends with its parent.
"""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from typing import Any

from lightning.pytorch.strategies.launchers import _SubprocessScriptLauncher

from train import stop
from train.fit.parallel.peers import EXIT_LOST

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
                if child.poll():
                    time.sleep(_ENDING / 4)  # ranks that know each other know more (peers.py)
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
