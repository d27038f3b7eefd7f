"""A logger in a process of its own: `python -m train.fit.watching.recorder`.

It reads one JSON object per line and ends with its input, so that a killed training leaves a
finished log. What it says is one JSON string per line. Signals to the whole job are for the
training, which ends this process when it is done. At the end it draws the curves of the run, and
what was evaluated while training, from the run's files; it loads no torch.

RUN/loggers/NAME.json keeps what was recorded last: a resumed run, which repeats some steps bit for
bit, records each step once.
"""

from __future__ import annotations

import io
import json
import os
import signal
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bipe.build import TARGET, build
from train.config.sections import LOGGER
from train.disk.files import read_json, read_lines, read_numbers, unsynced, write_whole
from train.fit.watching.loggers import About, OfLightning, RunLogger

FOLDER = "loggers"


class Recorder:
    """Hands messages to one logger, and remembers the last step of each kind of numbers."""

    def __init__(self, begin: Mapping[str, Any]) -> None:
        self._folder = Path(begin["folder"])
        self._state_file = self._folder / FOLDER / f"{begin['label']}.json"
        told = {name: begin[name] for name in ("name", "config", "facts")}
        self._about = About(**told, folder=self._folder, state=read_json(self._state_file) or {})
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

    def _store(self) -> None:
        self._state_file.parent.mkdir(exist_ok=True)
        with unsynced():
            write_whole(self._state_file, json.dumps(self._about.state))


def made(description: Mapping[str, Any], *, allowed: tuple[str, ...]) -> RunLogger:
    """Return the logger that a configuration describes; only foreign ones load torch."""
    ours = description[TARGET].startswith(f"{RunLogger.__module__}.")
    found = build(description, RunLogger if ours else LOGGER, allowed=allowed)
    return found if isinstance(found, RunLogger) else OfLightning(found)


def run(lines: Iterator[str]) -> Iterator[str]:
    """Do what the lines ask, and yield what there is to tell; the end of the lines is an end."""
    recorder = Recorder(json.loads(next(lines)))
    yield recorder.begin()
    for line in lines:
        asked = json.loads(line)
        if asked.pop("do") == "end":
            yield recorder.end(**asked)
            return
        recorder.numbers(**asked)
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


Lines = Mapping[str, Sequence[tuple[float, float]]]
_INCHES, _DPI = (6.0, 3.6), 120
_MOST = 12  # lines in a figure


def figures(folder: Path) -> dict[str, bytes]:
    rows = read_numbers(folder / "metrics.csv")
    losses = {"training": _points(rows, "loss"), "validation": _points(rows, "validation_loss")}
    places = [name for name in (rows[0] if rows else ()) if name.startswith("loss/token/")]
    by_place = {name.rpartition("/")[2] + "+": _points(rows, name) for name in places}
    subjects: dict[str, tuple[str, Lines]] = {
        "loss": ("loss, nats per token", losses),
        "loss_by_token_index": ("loss, by token index in the document", by_place),
        "perplexity": ("perplexity", _evaluated(folder / "evaluation.jsonl")),
    }
    drawn = {name: each for name, each in subjects.items() if any(each[1].values())}
    return {f"figures/{name}": _png(lines, y_name=y) for name, (y, lines) in drawn.items()}


def _points(rows: Iterable[Mapping[str, Any]], name: str) -> list[tuple[float, float]]:
    return [(row["step"], row[name]) for row in rows if row.get(name) is not None]


def _evaluated(path: Path) -> Lines:
    found: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for row in read_lines(path):
        if row.get("measure") == "perplexity" and row.get("step") and row.get("value"):
            found[f"{row.get('source')}, {row.get('length')}"].append((row["step"], row["value"]))
    return found


def _png(lines: Lines, *, y_name: str) -> bytes:
    from matplotlib.figure import Figure

    figure = Figure(figsize=_INCHES, dpi=_DPI, layout="constrained")
    axes = figure.subplots()
    for name, points in [(name, points) for name, points in lines.items() if points][:_MOST]:
        axes.plot(*zip(*sorted(points), strict=True), label=name, marker="." * (len(points) < 30))
    axes.set_xlabel("step")
    axes.set_ylabel(y_name)
    axes.legend(fontsize="small", frameon=False)
    held = io.BytesIO()
    figure.savefig(held, format="png")
    return held.getvalue()


if __name__ == "__main__":
    main()
