"""The record of a run: its sessions, over every resume.

RUN/sessions.jsonl has one line per session, which is written when it starts, and completed when it
ends; that of a killed session is completed by the next one. Nothing here loads torch, so that
`bipe status` is instant.
"""

import datetime
import json
import os
import re
import socket
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from train.disk.files import read_lines, write_whole
from train.disk.manifest import redacted
from train.fit import runs
from train.fit.runs import METRICS, SESSIONS
from train.stop import Stopped

_TAIL = 1000  # lines of metrics.csv
_VALIDATION = "validation_loss"
FINISHED, KILLED, STOPPED = "finished", "killed", "stopped by "

# The words of a call of a command's function, which sys.argv has not: train.pretrain(steps=500).
CALLED: ContextVar[tuple[str, ...]] = ContextVar("CALLED", default=())


@dataclass(kw_only=True)
class Session:
    """One start of a run. Steps are optimizer steps; times are UTC.

    words: the command line, without secrets. devices: how many, and what they are. changed: the
    keys in which the configuration differs from that of the first session, with both values.
    how: how it ended: finished, stopped by a callback, the name of a signal, an error, or killed.
    """

    words: list[str]
    host: str = field(default_factory=socket.gethostname)
    pid: int = field(default_factory=os.getpid)
    world_size: int = 1
    devices: str = ""
    strategy: str = ""
    precision: str = ""
    versions: Mapping[str, str | None] = field(default_factory=dict)
    started: str = field(default_factory=lambda: _now())
    start_step: int = 0
    steps: int | None = None
    changed: list[str] = field(default_factory=list)
    ended: str | None = None
    end_step: int | None = None
    how: str | None = None


@contextmanager
def recorded(folder: Path, session: Session) -> Iterator[None]:
    """Record a session of a run around the block, which sets `end_step` and, if short, `how`."""
    before = read_sessions(folder)
    for line in before:
        if line.get("how") is None:
            line.update(how=KILLED, end_step=last_metrics(folder).get("step"))
    _write(folder, [*before, asdict(session)])
    try:
        yield
        if session.end_step == session.steps:
            session.how = FINISHED
    except BaseException as fault:
        session.how = session.how or _how(fault)
        raise
    finally:
        session.ended = _now()
        with suppress(Exception):  # a full disk, or the folder was withdrawn: the fault counts
            if (folder / SESSIONS).exists():
                _write(folder, [*before, asdict(session)])


def read_sessions(folder: Path) -> list[dict[str, Any]]:
    return read_lines(folder / SESSIONS)


def last_metrics(folder: Path) -> dict[str, float]:
    """Return the last whole line of metrics.csv, without empty numbers, and the last validation."""
    try:
        whole = (folder / METRICS).read_text(encoding="utf-8").rpartition("\n")[0]
    except (OSError, ValueError):
        return {}
    head, *lines = whole.split("\n")
    values: dict[str, float] = {}
    for line in reversed(lines[-_TAIL:]):
        cells = dict(zip(head.split(","), line.split(","), strict=False))
        for name in [_VALIDATION] if values else cells:
            with suppress(ValueError, KeyError):
                text = cells[name]
                values.setdefault(name, int(text) if text.isdigit() else float(text))
        if _VALIDATION in values:
            break
    return values


def command_line(command: str) -> list[str]:
    words = [word.lstrip("+") for word in CALLED.get() or sys.argv[1:]]
    if words[:1] == ["finish"]:
        command = words.pop(0)
    elif words[:1] == [command]:  # in a sweep the words are as typed, with the command before them
        del words[0]
    return ["bipe", command, *map(_without_secret, words)]


def changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Return how a run is resumed otherwise than it began, with both values."""
    aside = {"if_exists", "name", "out", "corpus", "evaluate", "generate", "report", "statistics"}
    free = sorted((runs.FREE | {*runs.PLAN, "rows"}) - aside)
    was, now = (redacted({key: config.get(key) for key in free}) for config in (old, new))
    return runs.changes_of(was, now)


def _without_secret(word: str) -> str:
    key, equals, value = word.partition("=")
    name = key.rpartition(".")[2]
    return f"{key}={redacted(value, name=name)}" if equals else str(redacted(word))


# What a rank meets whose peers are gone; other errors of NCCL may be its own.
_LOST = re.compile(r"gloo/transport|ncclRemoteError|Application timeout caused pair closure")


def _how(fault: BaseException) -> str:
    if isinstance(fault, Stopped):
        return fault.signal.name
    if isinstance(fault, KeyboardInterrupt):
        return "SIGINT"
    text = " ".join(str(redacted(str(fault))).split())
    if _LOST.search(text):
        return "another rank ended"
    return f"{type(fault).__name__}: {text}"[:300]


def _write(folder: Path, lines: list[dict[str, Any]]) -> None:
    write_whole(folder / SESSIONS, "".join(f"{json.dumps(line)}\n" for line in lines))


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
