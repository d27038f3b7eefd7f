"""Checkpoints that survive a kill at any moment.

A file is written under a temporary name in its own folder (Lightning's writer uses the temporary
one: on another file system a kill would leave half a file), flushed and renamed; the manifest with
its sha256 follows. A checkpoint without a valid manifest is ignored. Those of sharded models are
folders (shards.py), by the same rules. reading.py reads them.
"""

import functools
import json
import math
import shutil
from pathlib import Path
from typing import Any

import lightning
import torch
from lightning.pytorch.plugins.io import TorchCheckpointIO
from torch import Tensor

from train.disk.files import Output, write_whole
from train.errors import RunError
from train.fit.checkpoints import checkpoints, manifest_of, shards, step_of
from train.fit.checkpoints.reading import fault_of, read, weights_of
from train.fit.checkpoints.shards import Background
from train.fit.parallel.sharded import full_state

BEST = "best.ckpt"


class AtomicCheckpointIO(TorchCheckpointIO):
    """Lightning's reader and writer, made atomic; background: where to write, if not at once."""

    def __init__(self, *, background: Background | None = None) -> None:
        super().__init__()
        self._background = background

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: Any, storage_options: Any | None = None
    ) -> None:
        write = functools.partial(self._write, path=Path(path))
        if self._background is None:
            write(checkpoint)
        else:
            self._background.write(checkpoint, write)

    def _write(self, checkpoint: dict[str, Any], path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        output = Output(path)
        with shards.discarded_on_failure(output):
            torch.save(checkpoint, output)  # type: ignore[arg-type]
            write_whole(manifest_of(path), json.dumps(output.commit()) + "\n")

    def load_checkpoint(
        self, path: Any, map_location: Any = None, weights_only: bool | None = None
    ) -> dict[str, Any]:
        return read(Path(path))

    def remove_checkpoint(self, path: Any) -> None:
        manifest_of(Path(path)).unlink(missing_ok=True)  # what a kill leaves is then no checkpoint
        if Path(path).is_dir():
            shutil.rmtree(path)
        else:
            Path(path).unlink(missing_ok=True)


class SaveCheckpoints(lightning.Callback):
    """Writes a checkpoint every few optimizer steps and at the end; keeps the newest `keep`.

    A checkpoint of a validated step is written after the validation, which a resumed run does not
    repeat. background: where checkpoints are written, if not at once.
    """

    def __init__(
        self,
        *,
        folder: Path,
        every: int,
        keep: int = 2,
        background: Background | None = None,
    ) -> None:
        self.folder, self.every, self.keep = folder, every, keep
        self._last, self._background = -1, background

    def on_train_start(self, trainer: lightning.Trainer, *_: Any) -> None:
        self._last = trainer.global_step

    def on_train_batch_end(self, trainer: lightning.Trainer, *_: Any) -> None:
        if self._background is not None:
            self._background.check()
        if trainer.global_step % self.every == 0 and not validation_follows(trainer):
            self.save(trainer)

    def on_validation_end(self, trainer: lightning.Trainer, *_: Any) -> None:
        if trainer.global_step % self.every == 0:
            self.save(trainer)

    def on_train_end(self, trainer: lightning.Trainer, *_: Any) -> None:
        self.save(trainer)
        self.wait(trainer)

    def wait(self, trainer: lightning.Trainer) -> None:
        """Wait until all checkpoints are written; every rank has to call it."""
        if self._background is not None:
            self._background.wait()
            trainer.strategy.barrier()
            if trainer.is_global_zero:
                self._remove_old()

    def save(self, trainer: lightning.Trainer) -> None:
        """Write the checkpoint of the present step, unless it is there."""
        if trainer.global_step == self._last:
            return
        self._last = trainer.global_step
        trainer.save_checkpoint(self.folder / f"step={self._last:08d}.ckpt")
        if trainer.is_global_zero:
            self._remove_old()

    def _remove_old(self) -> None:
        """Keep the newest `keep` that are whole; one that is being written makes one more."""
        # Those of later steps are damaged: the run was resumed from an earlier one.
        earlier = [path for path in checkpoints(self.folder) if step_of(path) <= self._last]
        for old in [path for path in earlier if manifest_of(path).is_file()][: -self.keep]:
            AtomicCheckpointIO().remove_checkpoint(old)


def validation_follows(trainer: lightning.Trainer) -> bool:
    """Return whether a validation follows the step that has just ended."""
    every = trainer.val_check_batch or math.inf
    return trainer.global_step % every == 0 and sum(trainer.num_val_batches) > 0


class SaveBest(lightning.Callback):
    """Writes the best weights so far to FOLDER/best.ckpt; to stand before all others.

    Those of averages put the weights back at the end of the epoch of a validation.
    """

    def __init__(self, *, folder: Path) -> None:
        self.path = folder / BEST
        self.loss, self.step = math.inf, -1

    def on_validation_epoch_end(self, trainer: lightning.Trainer, module: Any) -> None:
        loss = float(trainer.callback_metrics.get("validation/loss", math.inf))
        if loss < self.loss:
            self.loss, self.step = loss, trainer.global_step
            state = full_state(module)  # every rank has to help
            if trainer.is_global_zero:  # a file, written at once: it replaces the one before
                AtomicCheckpointIO().save_checkpoint({"state_dict": state}, self.path)

    def state_dict(self) -> dict[str, Any]:
        return {"loss": self.loss, "step": self.step}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.loss, self.step = float(state_dict["loss"]), int(state_dict["step"])

    def notes(self) -> dict[str, Any]:
        return {"best_step": self.step, "best_validation_loss": self.loss}

    def weights(self) -> dict[str, Tensor] | None:
        """Return the best weights, on the host; None without a validation; RunError if damaged."""
        if self.step < 0:
            return None
        if fault := fault_of(self.path):
            cure = "resume from an older checkpoint, or use the last weights (scrolls.select=last)"
            raise RunError(f"{self.path} cannot be used: {fault}; {cure}")
        return weights_of(self.path)
