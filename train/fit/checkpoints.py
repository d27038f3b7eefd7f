"""Checkpoints that a kill cannot spoil.

A file is written under a temporary name in its own folder, flushed, and renamed; its sha256 is in
the manifest beside it, which is written the same way and last. So a checkpoint is there whole or
not at all, and `latest_checkpoint` returns the newest one that is whole. (Lightning's own writer
goes through the temporary folder of the machine: on another file system a kill leaves half a file
under the final name.)
"""

from __future__ import annotations

import json
import logging
import os
import re
from pathlib import Path
from typing import Any

import lightning
import torch
from lightning.pytorch.plugins.io import TorchCheckpointIO

from train.disk.files import Output, sha256, write_whole
from train.errors import DataError

log = logging.getLogger(__name__)

_NAME = re.compile(r"step=(\d+)\.ckpt")


class AtomicCheckpointIO(TorchCheckpointIO):
    """Lightning's writer and reader of checkpoints, made safe; tensors and plain data only."""

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: Any, storage_options: Any | None = None
    ) -> None:
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        output = Output(path)
        try:
            torch.save(checkpoint, output)  # type: ignore[arg-type]
            digest = output.commit()
        except BaseException as error:
            output.discard()
            # torch ends its archive even after a failed write, and that fails in other words.
            if isinstance(error.__context__, DataError):
                raise error.__context__ from None
            raise
        write_whole(_manifest(path), json.dumps(digest) + "\n")

    def load_checkpoint(
        self, path: Any, map_location: Any = None, weights_only: bool | None = None
    ) -> dict[str, Any]:
        return torch.load(path, map_location=map_location or "cpu", weights_only=True)

    def remove_checkpoint(self, path: Any) -> None:
        _manifest(Path(path)).unlink(missing_ok=True)
        Path(path).unlink(missing_ok=True)


class SaveCheckpoints(lightning.Callback):
    """Write a checkpoint every so many optimizer steps and at the end; keep the newest few.

    every: optimizer steps. keep: how many stay. validate_every: optimizer steps between two
    validations, None for one at the end: a checkpoint of the same step is written after it, since
    a run that resumes there does not validate again.
    """

    def __init__(
        self,
        *,
        folder: str | os.PathLike[str],
        every: int,
        keep: int = 2,
        validate_every: int | None = None,
    ) -> None:
        if every < 1 or keep < 1:
            raise ValueError(f"every and keep must be at least 1, were: {every} and {keep}")
        self.folder = Path(folder)
        self.every = every
        self.keep = keep
        self.validate_every = validate_every
        self._last = -1

    def on_train_start(self, trainer: lightning.Trainer, module: lightning.LightningModule) -> None:
        self._last = trainer.global_step

    def on_train_batch_end(
        self, trainer: lightning.Trainer, module: lightning.LightningModule, *_: Any
    ) -> None:
        if not self._validates(trainer):
            self._save_if_due(trainer)

    def on_validation_end(
        self, trainer: lightning.Trainer, module: lightning.LightningModule
    ) -> None:
        self._save_if_due(trainer)

    def on_train_end(self, trainer: lightning.Trainer, module: lightning.LightningModule) -> None:
        if trainer.global_step != self._last:
            self._save(trainer)

    def _validates(self, trainer: lightning.Trainer) -> bool:
        """Whether a validation follows this step."""
        step, every = trainer.global_step, self.validate_every or trainer.max_steps
        return step % every == 0 and sum(trainer.num_val_batches) > 0

    def _save_if_due(self, trainer: lightning.Trainer) -> None:
        step = trainer.global_step
        if step != self._last and step % self.every == 0:
            self._save(trainer)

    def _save(self, trainer: lightning.Trainer) -> None:
        self._last = trainer.global_step
        trainer.save_checkpoint(self.folder / f"step={self._last:08d}.ckpt")
        if trainer.is_global_zero:
            for old in checkpoints(self.folder)[: -self.keep]:
                _manifest(old).unlink(missing_ok=True)
                old.unlink()


def checkpoints(folder: Path) -> list[Path]:
    """All checkpoints of a folder, oldest first."""
    return sorted(path for path in folder.glob("step=*.ckpt") if _NAME.fullmatch(path.name))


def latest_checkpoint(folder: Path) -> Path | None:
    """The newest checkpoint that is whole; spoiled ones are named in the log and passed over."""
    for path in reversed(checkpoints(folder)):
        fault = fault_of(path)
        if fault is None:
            return path
        log.warning("%s is passed over: %s", path, fault)
    return None


def _manifest(path: Path) -> Path:
    return path.with_suffix(".json")


def fault_of(path: Path) -> str | None:
    """What is wrong with a checkpoint, or None."""
    try:
        expected = json.loads(_manifest(path).read_text())["sha256"]
    except (OSError, ValueError, TypeError, KeyError):
        return "it has no manifest (the run was stopped while it was written)"
    if sha256(path) != expected:
        return "its checksum is not the one in its manifest"
    return None
