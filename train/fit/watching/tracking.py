"""The training's side of its loggers: it writes into pipes, waits for nothing, and goes on.

A logger that dies, hangs, fills its disk or has no network is reported once and left alone.
"""

from __future__ import annotations

import json
import logging
import math
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from lightning.fabric.utilities.rank_zero import rank_zero_only
from lightning.pytorch.loggers import Logger

from train.disk.manifest import redacted
from train.fit.watching.metrics import Row

log = logging.getLogger("bipe")

_WAITING = 10_000  # messages that a logger may be behind
_END_S, _END_FAILED_S = 60.0, 10.0  # seconds that loggers have in all to finish
_WITHOUT = "training continues without it; metrics.csv has every number"


class Tracking(Logger):
    """All loggers of a run. As a logger of Lightning's, it serves callbacks that ask for one.

    loggers: descriptions by name. facts: returns those on code and machine. allowed: see
    bipe.build.
    """

    def __init__(
        self,
        *,
        loggers: Mapping[str, Any],
        folder: Path,
        config: Mapping[str, Any],
        facts: Callable[[], Mapping[str, Any]],
        allowed: tuple[str, ...],
    ) -> None:
        super().__init__()
        self._processes: list[_Process] = []
        self._loggers, self._facts = loggers, facts
        self._about: dict[str, Any] = {"do": "begin", "folder": str(folder.resolve())}
        self._about |= {"name": folder.name, "config": redacted(config), "allowed": allowed}

    @property
    def name(self) -> str:
        return str(self._about["name"])

    @property
    def version(self) -> str:
        return ""

    @rank_zero_only
    def begin(self) -> None:
        if self._loggers:
            self._about["facts"] = self._facts()
        self._processes = [
            _Process(self._about | {"logger": each, "label": label})
            for label, each in self._loggers.items()
        ]

    @rank_zero_only
    def send(self, row: Row, step: int, *, kind: str = "train") -> None:
        """Give numbers of a step to all loggers; kind begins their names."""
        if "validation_loss" in row:
            kind, row = "validation", {"loss": row["validation_loss"]}
        values = {
            f"{kind}/{name}": float(value)
            for name, value in row.items()
            if name != "step" and isinstance(value, int | float) and math.isfinite(value)
        }
        for each in self._processes:
            each.send({"do": "numbers", "kind": kind, "values": values, "step": step})

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        """Take the numbers of a callback of Lightning's; it counts steps from 0."""
        self.send(dict(metrics), (step or 0) + 1, kind="callbacks")

    def log_hyperparams(self, params: Any, *args: Any, **kwargs: Any) -> None:
        """Do nothing: loggers have the whole configuration."""

    @rank_zero_only
    def end(self, *, failed: bool) -> None:
        for each in self._processes:
            each.send({"do": "end", "failed": failed})
        left = _END_FAILED_S if failed else _END_S
        for each in self._processes:
            left = each.join(left)
        self._processes = []


class _Process:
    def __init__(self, begin: Mapping[str, Any]) -> None:
        self._label = f"logger.{begin['label']}"
        self._told = self._ending = False
        self._messages: queue.Queue[str | None] = queue.Queue(_WAITING)
        # A service of wandb that another run here started would take this run's id for in use.
        around = {name: value for name, value in os.environ.items() if name != "WANDB_SERVICE"}
        around["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
        self._process: subprocess.Popen[str] | None = None
        self._reader = threading.Thread(target=self._read, name=self._label, daemon=True)
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "train.fit.watching.recorder"],
                env=around,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                start_new_session=True,  # Ctrl-C is for the training
            )
            self._reader.start()
            threading.Thread(target=self._write, name=self._label, daemon=True).start()
        except Exception as error:  # whatever it is: only records are lost
            self._give_up(f"cannot be started ({error})")
            if self._process is not None:
                self._process.communicate()  # it was killed
                self._process = None
        self.send(begin)

    def send(self, message: Mapping[str, Any]) -> None:
        if self._process is None or self._told:
            return
        self._ending = self._ending or message["do"] == "end"
        try:
            self._messages.put_nowait(json.dumps(message, default=str))
        except queue.Full:
            self._give_up("does not keep up")
        except Exception as error:
            self._give_up(f"cannot be told of {message['do']} ({error})")

    def join(self, seconds: float) -> float:
        """Wait for the process at most so long; return the seconds that are left."""
        if self._process is None:
            return seconds
        begin = time.monotonic()
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._give_up(f"did not finish within {seconds:.0f} s")
        self._reader.join(1.0)
        return max(1.0, seconds - (time.monotonic() - begin))

    def _write(self) -> None:
        """Pass messages on, in a thread of its own: a full pipe waits here."""
        assert self._process is not None and self._process.stdin is not None
        with suppress(OSError, ValueError), self._process.stdin as pipe:  # _read sees its end
            while (message := self._messages.get()) is not None:
                pipe.write(f"{message}\n")
                pipe.flush()
                if json.loads(message)["do"] == "end":
                    return

    def _read(self) -> None:
        """Report what the process says, and its end if that was not asked for."""
        assert self._process is not None and self._process.stdout is not None
        failure = ""
        with self._process.stdout as pipe:
            for said in map(json.loads, pipe):
                if said.startswith("failed: "):
                    failure = said
                else:
                    log.info("%s: %s", self._label, said)
        status = self._process.wait()
        if failure or status or not self._ending:
            self._give_up(failure or f"ended with status {status}")

    def _give_up(self, reason: str) -> None:
        if self._told:
            return
        self._told = True
        log.warning("%s %s; %s", self._label, reason, _WITHOUT)
        if self._process is not None:
            self._process.kill()
        while not self._messages.empty():
            self._messages.get_nowait()
        self._messages.put_nowait(None)
