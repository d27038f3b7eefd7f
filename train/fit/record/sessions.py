"""What a run was trained with, over every resume: one line of RUN/sessions.jsonl per session.

A line is written when a session starts, and completed when it ends. That of a killed session is
completed by the next one.
"""

import datetime
import json
import os
import socket
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from train.data.store.folder import differences
from train.disk.files import write_whole
from train.disk.manifest import redacted
from train.fit.runs import FREE, METRICS, SESSIONS
from train.stop import Stopped

_LONGEST = 300  # characters of an error
_TAIL = 1 << 16  # bytes of metrics.csv
_VALIDATION = "validation_loss"
FINISHED, KILLED = "finished", "killed"


@dataclass(kw_only=True)
class Session:
    """One start of a run. Steps are optimizer steps; times are UTC.

    words: the command line, without secrets. devices: how many, and what they are. changed: the
    keys in which the configuration differs from that of the first session, with both values.
    how: how it ended: finished, the name of a signal, an error, or killed.
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
    """Record a session of a run around the block, which sets `end_step`."""
    before = read_sessions(folder)
    for line in before:
        if line.get("how") is None:
            line.update(how=KILLED, end_step=last_metrics(folder).get("step"))
    _write(folder, [*before, asdict(session)])
    try:
        yield
        session.how = FINISHED
    except BaseException as fault:
        session.how = _how(fault)
        raise
    finally:
        session.ended = _now()
        with suppress(Exception):  # a full disk, or the folder was withdrawn: the fault counts
            if (folder / SESSIONS).exists():
                _write(folder, [*before, asdict(session)])


def read_sessions(folder: Path) -> list[dict[str, Any]]:
    """Return the sessions of a run, without lines that cannot be read."""
    found = []
    with suppress(OSError):
        for line in (folder / SESSIONS).read_bytes().splitlines():
            with suppress(ValueError):
                found.append(json.loads(line))
    return [line for line in found if isinstance(line, dict)]


def last_metrics(folder: Path) -> dict[str, float]:
    """Return the numbers of the last whole line of a run's metrics.csv, without empty ones.

    The validation loss is the last one in the last lines.
    """
    try:
        with (folder / METRICS).open("rb") as file:
            head = file.readline().decode().strip().split(",")
            start = file.tell()
            size = file.seek(0, os.SEEK_END)
            file.seek(max(start, size - _TAIL))
            lines = file.read().rpartition(b"\n")[0].decode().split("\n")
    except (OSError, ValueError):
        return {}
    found: dict[str, float] = {}
    for line in reversed(lines[1:] if size - _TAIL > start else lines):
        cells = dict(zip(head, line.split(","), strict=False))
        wanted = head if not found else [_VALIDATION]
        for name in wanted:
            with suppress(ValueError, KeyError):
                found.setdefault(name, _number(cells[name]))
        if _VALIDATION in found:
            break
    return found


def command_line(command: str) -> list[str]:
    """Return the words that this process was started with, without secrets."""
    words = [
        f"--{word[2:]}" if word.startswith("--") else word.lstrip("+") for word in sys.argv[1:]
    ]
    return ["bipe", command, *map(_without_secret, words)]


def changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Return how the keys differ that may change when a run is resumed, with both values."""
    free = FREE - {"if_exists", "name", "out"}
    was, now = ({key: redacted(each).get(key) for key in sorted(free)} for each in (old, new))
    return list(differences(was, now))


def _without_secret(word: str) -> str:
    key, equals, value = word.partition("=")
    name = key.rpartition(".")[2]
    return f"{key}{equals}{redacted(value, name=name)}" if equals else str(redacted(word))


def _how(fault: BaseException) -> str:
    if isinstance(fault, Stopped):
        return fault.signal.name
    if isinstance(fault, KeyboardInterrupt):
        return "SIGINT"
    text = " ".join(str(redacted(str(fault))).split())
    return f"{type(fault).__name__}: {text}"[:_LONGEST]


def _number(text: str) -> float:
    return int(text) if text.isdigit() else float(text)


def _write(folder: Path, lines: list[dict[str, Any]]) -> None:
    write_whole(folder / SESSIONS, "".join(f"{json.dumps(line)}\n" for line in lines))


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
