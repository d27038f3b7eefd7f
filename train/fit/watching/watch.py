"""All that watches a training: metrics.csv, progress, loggers, and what is printed around it.

The training's side of its loggers: it writes into pipes, waits for nothing, and goes on.

A logger that dies, hangs, fills its disk or has no network is reported once and left alone.
"""

from __future__ import annotations

import contextlib
import json
import logging
import math
import os
import queue
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import lightning
import torch
from lightning.fabric.utilities.rank_zero import rank_zero_only
from lightning.pytorch.loggers import Logger

from bipe import Decoder
from segmenters.wording import counted
from train.config import encoding_name
from train.data.rows.datamodule import LMDataModule, table
from train.data.store.folder import override_of
from train.disk.files import read_numbers
from train.disk.manifest import redacted
from train.fit.watching.metrics import EachStep, Row

log = logging.getLogger("bipe")
_WAITING = 10_000  # messages that a logger may be behind
_END_S, _END_FAILED_S = 60.0, 10.0  # seconds that loggers have in all to finish
_WITHOUT = "training continues without it; metrics.csv has every number"


@contextlib.contextmanager
def watched(
    trainer: lightning.Trainer,
    model: Decoder,
    rows: LMDataModule,
    *,
    files: tuple[Path, Path],
    config: Mapping[str, Any],
    resumed_at: int | None,
) -> Iterator[None]:
    """Print what a run is and how it ended; files: its metrics and the folder of its model."""
    (metrics, written), steps = files, trainer.max_steps
    tracking, folder = cast(Tracking, trainer.logger), metrics.parent
    if rank_zero_only.rank == 0:  # type: ignore[attr-defined]
        lines = start_lines(trainer, model, rows, folder=folder, resumed_at=resumed_at)
        _show([*lines, *table(rows.statistics(steps=steps))])
    else:  # one process says which path of attention was chosen
        logging.getLogger("bipe.attention").setLevel(logging.WARNING)
    tracking.begin()
    failed = True
    try:
        yield
        failed = False
    finally:
        tracking.end(failed=failed)
    if not trainer.is_global_zero:
        return
    try:
        found = read_numbers(metrics)
        _show(end_lines(found, folder=folder, model=written, config=config))
    except Exception as fault:  # the model is written
        log.warning("%s is finished, but its numbers cannot be shown: %s", folder, fault)


def _show(lines: Sequence[str]) -> None:
    with contextlib.suppress(OSError):  # a log on a full disk, a pipe that is closed
        print("\n".join(lines), file=sys.stderr, flush=True)


class ProgressBar(EachStep):
    """Shows loss, rates and time left: a bar on a terminal, else a line every `every` steps."""

    def __init__(self, *, title: str, every: int = 50) -> None:
        super().__init__()
        self.title, self.every = title, every
        self._bar: Any = None

    def begin(self, trainer: lightning.Trainer) -> None:
        if sys.stderr.isatty():
            self._bar = _bar()
            self._task = self._bar.add_task(
                self.title, total=trainer.max_steps, completed=trainer.global_step, text=""
            )
            self._bar.start()

    def after_step(self, trainer: lightning.Trainer, module: Any) -> None:
        step, steps = trainer.global_step, trainer.max_steps
        if self._bar is not None:
            self._bar.update(self._task, completed=step, text=self._text(module.metrics))
        elif step % self.every == 0 or step == steps:
            text, left = self._text(module.metrics), self._clock.left(step, steps)
            _show([f"{self.title}  step {step}/{steps}  {text}  {left}"])

    def on_validation_end(self, trainer: lightning.Trainer, module: Any) -> None:
        if not trainer.is_global_zero:
            return
        text = f"{self.title}  step {trainer.global_step}/{trainer.max_steps}"
        text += f"  validation loss {float(trainer.callback_metrics['validation/loss']):.4f}"
        if self._bar is not None:
            self._bar.console.print(text, highlight=False)
        else:
            _show([text])

    def on_train_end(self, *_: Any) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    on_exception = on_train_end  # type: ignore[assignment]

    def _text(self, metrics: Any) -> str:
        text = f"loss {metrics['loss']:.3f}  lr {metrics['lr']:.1e}"
        text += f"  {self._clock.rate():,.0f} tokens/s"
        skipped = metrics["skipped_steps"]
        return text + (f"  {counted(skipped, 'step')} skipped" if skipped else "")


def _bar() -> Any:
    from rich import progress
    from rich.console import Console

    names = ("[bold]{task.description}", progress.BarColumn(), progress.MofNCompleteColumn())
    times = (progress.TimeElapsedColumn(), "left", progress.TimeRemainingColumn())
    return progress.Progress(*names, "{task.fields[text]}", *times, console=Console(stderr=True))


def devices(trainer: lightning.Trainer) -> str:
    """Return the number and kind of the devices: 8 x NVIDIA H100 80GB HBM3."""
    name = str(trainer.strategy.root_device.type)
    if name in ("cpu", "cuda"):
        threads = torch.get_num_threads()
        name = f"cpu ({threads} threads)" if name == "cpu" else torch.cuda.get_device_name()
    return f"{trainer.world_size} x {name}" if trainer.world_size > 1 else name


def start_lines(
    trainer: lightning.Trainer,
    model: Decoder,
    rows: LMDataModule,
    *,
    folder: Path,
    resumed_at: int | None,
) -> list[str]:
    """Return what the run is. resumed_at: the step of the checkpoint that it resumes."""
    steps = trainer.max_steps
    inputs = rows.stages.consumed(steps) * rows.row_length
    parameters = sum(each.numel() for each in model.parameters())
    per_step = rows.global_batch * rows.row_length
    on = counted(trainer.world_size, "device")
    lines = [
        f"device     {devices(trainer)}, precision {trainer.precision}",
        f"model      {encoding_name(model.config.encoding)}, {parameters:,} parameters, "
        f"vocabulary {model.config.vocab_size:,}",
        f"training   {counted(steps, 'step')} of {per_step:,} tokens "
        f"({counted(rows.global_batch, 'row')} of {rows.row_length:,}): {inputs:,} tokens",
        f"data       {', '.join(map(str, rows.sets.manifests))}",
        f"folder     {folder}",
    ]
    return lines + ([] if resumed_at is None else [f"resumed    at step {resumed_at} on {on}"])


def end_lines(
    rows: Sequence[Row], *, folder: Path, model: Path, config: Mapping[str, Any]
) -> list[str]:
    """Return how the run ended. rows: of metrics.csv."""
    lines = []
    if rows:
        last = rows[-1]
        seconds = round(last["seconds"])
        text = f"trained    {counted(last['step'], 'step')}, {last['tokens']:,} tokens in "
        text += f"{seconds // 3600}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
        text += f" ({last['tokens'] / max(1e-9, last['seconds']):,.0f} tokens/s)"
        lines.append(f"{text}, loss {last['loss']:.4f}")
        validated = [row for row in rows if row.get("validation_loss") is not None]
        if validated:
            found = validated[-1]
            lines.append(f"validated  loss {found['validation_loss']:.4f} at step {found['step']}")
    lines.append(f"model      {model}")
    if config.get("task"):  # bipe scrolls goes on
        return lines
    out, data = str(config.get("out", folder.parent)), config.get("data")
    words = [f"out={out}"] if folder.parent == Path(out) else [f"evaluate.runs={folder}"]
    if data and (word := override_of(data, out=out)):
        words.append(word)
    lines.append(f"next       bipe evaluate {shlex.join(words)}")
    lines.append(f"           bipe generate {shlex.quote(str(folder))} --prompt '...'")
    return lines


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
        # _read sees its end.
        with contextlib.suppress(OSError, ValueError), self._process.stdin as pipe:
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
