"""What a training prints before its first step and after its last one, and what it warns of."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import lightning
import torch

from bipe import Decoder
from train.config import encoding_name
from train.data.rows.datamodule import LMDataModule
from train.fit.watching.metrics import Row


def devices(trainer: lightning.Trainer) -> str:
    """Return the number and kind of the devices: 8 x NVIDIA H100 80GB HBM3."""
    kind = str(trainer.strategy.root_device.type)
    name = torch.cuda.get_device_name() if kind == "cuda" else kind
    if kind == "cpu":
        name = f"cpu ({torch.get_num_threads()} threads)"
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
    count = trainer.world_size
    on = f"{count} device{'s' * (count > 1)}"
    lines = [
        f"device     {devices(trainer)}, precision {trainer.precision}",
        f"model      {encoding_name(model.config.encoding)}, {parameters:,} parameters, "
        f"vocabulary {model.config.vocab_size:,}",
        f"training   {steps:,} steps of {per_step:,} tokens ({rows.global_batch} rows of "
        f"{rows.row_length:,}): {inputs:,} tokens",
        f"data       {', '.join(map(str, rows.sets.manifests))}",
        f"folder     {folder}",
    ]
    return lines + ([] if resumed_at is None else [f"resumed    at step {resumed_at} on {on}"])


def warnings_of(
    *, steps: int, validate_every: int | None, schedule: Mapping[str, Any]
) -> list[str]:
    """Return what is allowed, and rarely meant."""
    found = []
    warmup = schedule.get("warmup")
    if isinstance(warmup, int) and warmup >= steps:
        found.append(
            f"schedule.warmup={warmup} is not below steps={steps}: the learning rate only rises; "
            f"set schedule.warmup={max(1, steps // 10)}"
        )
    if validate_every is not None and validate_every > steps:
        found.append(
            f"validate_every={validate_every} is above steps={steps}: there will be no validation "
            "loss; validate_every=null validates at the end"
        )
    return found


def end_lines(
    rows: Sequence[Row], *, folder: Path, model: Path, config: Mapping[str, Any]
) -> list[str]:
    """Return how the run ended. rows: of metrics.csv. config: for the next command."""
    lines = []
    if rows:
        last = rows[-1]
        seconds = round(last["seconds"])
        text = f"trained    {last['step']:,} steps, {last['tokens']:,} tokens in "
        text += f"{seconds // 3600}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
        text += f" ({last['tokens'] / max(1e-9, last['seconds']):,.0f} tokens/s)"
        lines.append(f"{text}, loss {last['loss']:.4f}")
        validated = [row for row in rows if row.get("validation_loss") is not None]
        if validated:
            found = validated[-1]
            lines.append(f"validated  loss {found['validation_loss']:.4f} at step {found['step']}")
    lines.append(f"model      {model}")
    out, data = str(config.get("out", folder.parent)), config.get("data")
    words = [f"out={out}"] if folder.parent == Path(out) else [f"evaluate.runs={folder}"]
    if isinstance(data, str) and Path(data) != Path(out) / "data":
        words.append(f"data={data}")
    lines.append(f"next       bipe evaluate {shlex.join(words)}")
    lines.append(f"           bipe generate {shlex.join([str(folder)])} --prompt '...'")
    return lines
