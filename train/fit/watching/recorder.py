"""A logger in a process of its own: `python -m train.fit.watching.recorder`.

It reads one JSON object per line and ends with its input, so that a killed training leaves a
finished log. What it says is one JSON string per line. Signals to the whole job are for the
training, which ends this process when it is done.

RUN/loggers/NAME.json keeps what was recorded last: a resumed run, which repeats some steps bit for
bit, records each step once.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from train.fit.watching import loggers
from train.fit.watching.figures import figures
from train.fit.watching.loggers import About, OfLightning, RunLogger

FOLDER = "loggers"
_OURS = f"{RunLogger.__module__}."


class Recorder:
    """Hands messages to one logger, and remembers the last step of each kind of numbers."""

    def __init__(self, begin: Mapping[str, Any]) -> None:
        self._folder = Path(begin["folder"])
        self._state_file = self._folder / FOLDER / f"{begin['label']}.json"
        self._about = About(
            folder=self._folder,
            name=begin["name"],
            config=begin["config"],
            facts=begin["facts"],
            state=self._stored(),
        )
        self._logger = made(begin["logger"], allowed=tuple(begin["allowed"]))

    def begin(self) -> str:
        told = self._logger.begin(self._about)
        self._store()
        return told

    def numbers(self, *, kind: str, values: Mapping[str, float], step: int) -> None:
        steps = self._about.state.setdefault("step", {})
        if step > steps.get(kind, -1):
            self._logger.numbers(values, step)
            steps[kind] = step
            self._store()

    def end(self, *, failed: bool) -> str:
        last = max(self._about.state.get("step", {}).values(), default=0)
        try:
            for name, png in figures(self._folder).items():
                self._logger.figure(name, png, last)
        finally:
            told = self._logger.end(failed=failed)
        return told

    def _stored(self) -> dict[str, Any]:
        try:
            state = json.loads(self._state_file.read_text())
        except (OSError, ValueError):
            return {}
        return state if isinstance(state, dict) else {}

    def _store(self) -> None:
        self._state_file.parent.mkdir(exist_ok=True)
        half = self._state_file.with_suffix(f".{os.getpid()}")
        half.write_text(json.dumps(self._about.state))
        half.replace(self._state_file)


def made(description: Mapping[str, Any], *, allowed: tuple[str, ...]) -> RunLogger:
    """Return the logger that a configuration describes; only foreign ones load torch."""
    target = description["_target_"]
    if target.startswith(_OURS):
        kind = getattr(loggers, target.removeprefix(_OURS))
        logger: RunLogger = kind(**{k: v for k, v in description.items() if k != "_target_"})
        return logger
    from bipe.build import build
    from train.config.check import LOGGER

    found = build(description, LOGGER, allowed=allowed)
    return found if isinstance(found, RunLogger) else OfLightning(found)


def run(lines: Iterable[str]) -> Iterable[str]:
    """Do what the lines ask, and yield what there is to tell; the end of the lines is an end."""
    recorder: Recorder | None = None
    for line in lines:
        asked = json.loads(line)
        do = asked.pop("do")
        if do == "begin":
            recorder = Recorder(asked)
            yield recorder.begin()
        elif recorder is not None and do == "numbers":
            recorder.numbers(**asked)
        elif recorder is not None and do == "end":
            yield recorder.end(**asked)
            return
    if recorder is not None:
        yield recorder.end(failed=True)


def main() -> None:
    """Serve the standard input; exit without the exit handlers of packages, which may hang."""
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2"):
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    # What packages and their own processes print is not for the user.
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    status = 0
    try:
        for told in filter(None, run(sys.stdin)):
            print(json.dumps(told), file=out, flush=True)
    except BaseException as error:
        text = str(error).strip().partition("\n")[0]
        print(json.dumps(f"failed: {type(error).__name__}: {text}"), file=out, flush=True)
        status = 1
    os._exit(status)


if __name__ == "__main__":
    main()
