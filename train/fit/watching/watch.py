"""What is printed before, during and after a training, and its loggers in between."""

from __future__ import annotations

import contextlib
import logging
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import lightning
import torch
from lightning.fabric.utilities.rank_zero import rank_zero_only

from bipe import Decoder
from segmenters.wording import counted
from train.config import encoding_name
from train.data.rows.datamodule import LMDataModule
from train.data.rows.order import table
from train.data.store.folder import override_of
from train.disk.files import read_numbers
from train.fit.watching.each_step import EachStep
from train.fit.watching.loggers import Loggers
from train.fit.watching.metrics import Row

log = logging.getLogger("bipe")


@contextlib.contextmanager
def watched(
    trainer: lightning.Trainer,
    model: Decoder,
    rows: LMDataModule,
    *,
    files: tuple[Path, Path],
    config: Mapping[str, Any],
    facts: Callable[[], Mapping[str, Any]],
    allowed: tuple[str, ...],
    resumed_at: int | None,
) -> Iterator[None]:
    """Print what a run is and how it ended, and give the trainer its loggers for the block.

    files: the metrics of the run and the folder of its model. facts: returns those on code and
    machine, for loggers. allowed: see bipe.build.
    """
    (metrics, model_folder), steps = files, trainer.max_steps
    folder = metrics.parent
    if rank_zero_only.rank == 0:  # type: ignore[attr-defined]
        lines = start_lines(trainer, model, rows, folder=folder, resumed_at=resumed_at)
        _show([*lines, *table(rows.statistics(steps=steps))])
    else:  # one process says which path of attention was chosen
        logging.getLogger("bipe.attention").setLevel(logging.WARNING)
    loggers = Loggers(config.get("logger") or {}, folder=folder, allowed=allowed)
    trainer.loggers = loggers.all
    if trainer.loggers and trainer.is_global_zero:
        described = {**config, "bipe": facts()}
        for logger in trainer.loggers:
            logger.log_hyperparams(described)
    failed = True
    try:
        yield
        failed = False
    finally:
        loggers.close(failed=failed)
    if not trainer.is_global_zero or trainer.global_step < int(config["steps"]):
        return  # another rank says it, or it is not finished
    try:
        rows_of_metrics = read_numbers(metrics)
        _show(end_lines(rows_of_metrics, folder=folder, model=model_folder, config=config))
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
    parameters = sum(parameter.numel() for parameter in model.parameters())
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
        took = timedelta(seconds=round(last["seconds"]))
        text = f"trained    {counted(last['step'], 'step')}, {last['tokens']:,} tokens in {took}"
        text += f" ({last['tokens'] / max(1e-9, last['seconds']):,.0f} tokens/s)"
        lines.append(f"{text}, loss {last['loss']:.4f}")
        validated = [row for row in rows if row.get("validation_loss") is not None]
        if validated:
            row = validated[-1]
            text = f"validated  loss {row['validation_loss']:.4f} at step {row['step']}"
            behind = "" if row["step"] == last["step"] else ", not of the model that is written"
            lines.append(text + behind)
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
