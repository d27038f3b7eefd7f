"""Checkpoints that survive a kill at any moment.

A file is written under a temporary name in its own folder, flushed and renamed; the manifest with
its sha256 follows in the same way. A checkpoint without a valid manifest is ignored. (Lightning's
writer uses the temporary folder: on another file system a kill would leave half a file.)
Sharded models are written as folders (parallel/shards.py), by the same rules.
"""

import functools
import json
import logging
import math
import pickle
import re
import shutil
from pathlib import Path
from typing import Any

import lightning
import torch
from lightning.pytorch.loops.fit_loop import _FitLoop
from lightning.pytorch.plugins.io import TorchCheckpointIO
from torch import Tensor

from bipe.extension.lora import merged
from train.disk.files import Output, sha256, write_whole
from train.errors import RunError
from train.fit.parallel import shards
from train.fit.parallel.sharded import full_state
from train.fit.parallel.shards import Background

log = logging.getLogger(__name__)

BEST = "best.ckpt"
_NAME = re.compile(r"step=(\d+)\.ckpt")


class AtomicCheckpointIO(TorchCheckpointIO):
    """Lightning's checkpoint reader and writer, made atomic; loads tensors and plain data only.

    background: where to write while training goes on; None: at once.
    """

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
            write_whole(_manifest(path), json.dumps(output.commit()) + "\n")

    def load_checkpoint(
        self, path: Any, map_location: Any = None, weights_only: bool | None = None
    ) -> dict[str, Any]:
        if Path(path).is_dir():
            return shards.load_whole(Path(path))
        return _read(Path(path), map_location or "cpu")

    def remove_checkpoint(self, path: Any) -> None:
        if Path(path).is_dir():
            shards.remove(Path(path))
        else:
            _manifest(Path(path)).unlink(missing_ok=True)
            Path(path).unlink(missing_ok=True)


class SaveCheckpoints(lightning.Callback):
    """Writes a checkpoint every few optimizer steps and at the end; keeps the newest `keep`.

    validate_every: optimizer steps between two validations; None: one at the end. A checkpoint of
    a validated step is written after the validation, since a resumed run does not repeat it. If the
    run has to stop before, the checkpoint says that its validation is due.
    background: where checkpoints are written, if not at once; a training ends when they are there.
    """

    def __init__(
        self,
        *,
        folder: Path,
        every: int,
        keep: int = 2,
        validate_every: int | None = None,
        background: Background | None = None,
    ) -> None:
        self.folder, self.every, self.keep = folder, every, keep
        self.validate_every, self._background = validate_every, background
        self._last, self._due = -1, False

    def on_train_start(self, trainer: lightning.Trainer, *_: Any) -> None:
        self._last = trainer.global_step

    def on_train_batch_end(self, trainer: lightning.Trainer, *_: Any) -> None:
        if self._background is not None:
            self._background.check()
        if trainer.global_step % self.every == 0 and not self.validates(trainer):
            self.save(trainer)

    def on_validation_end(self, trainer: lightning.Trainer, *_: Any) -> None:
        trainer.fit_loop.due = False  # type: ignore[attr-defined]
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

    def validates(self, trainer: lightning.Trainer) -> bool:
        """Return whether a validation follows the present step."""
        every = self.validate_every or trainer.max_steps
        return trainer.global_step % every == 0 and sum(trainer.num_val_batches) > 0

    def save(self, trainer: lightning.Trainer, *, validation_due: bool = False) -> None:
        """Write the checkpoint of the present step, unless it is there."""
        if trainer.global_step == self._last:
            return
        self._last, self._due = trainer.global_step, validation_due
        trainer.save_checkpoint(self.folder / f"step={self._last:08d}.ckpt")
        self._due = False
        if trainer.is_global_zero:
            self._remove_old()

    def _remove_old(self) -> None:
        """Keep the newest `keep` that are whole; one that is being written makes one more.

        Those of later steps are damaged: the run was resumed from an earlier one.
        """
        there = [path for path in checkpoints(self.folder) if _ended(path)]
        for old in [path for path in there if step_of(path) <= self._last][: -self.keep]:
            AtomicCheckpointIO().remove_checkpoint(old)

    def state_dict(self) -> dict[str, Any]:
        return {"validation_due": self._due}

    def on_load_checkpoint(
        self, trainer: lightning.Trainer, module: Any, checkpoint: dict[str, Any]
    ) -> None:
        """Begin with a validation that is due: tell Lightning that it was left in the middle."""
        loops = checkpoint["loops"]["fit_loop"]
        validated = _counts(loops["epoch_loop.val_loop.batch_progress"])
        if not checkpoint["callbacks"].get(self.state_key, {}).get("validation_due"):
            # After one that was due, Lightning's totals look for ever like the middle of another.
            validated[0].update(dict.fromkeys(validated[0], validated[0]["completed"]))
            return
        trainer.fit_loop.due = True  # type: ignore[attr-defined]
        for counts in _counts(loops["epoch_loop.batch_progress"]):
            counts["completed"] = counts["processed"]
        for counts in validated:
            counts |= {"ready": 1, "started": 1, "processed": 0, "completed": 0}


class FitLoop(_FitLoop):
    """Lightning's loop, which also does the validation that is due after the last step."""

    due = False

    @property
    def done(self) -> bool:
        return super().done and not self.due


def _counts(progress: dict[str, Any]) -> tuple[dict[str, int], dict[str, int]]:
    return progress["total"], progress["current"]


class SaveBest(lightning.Callback):
    """Writes the weights to FOLDER/best.ckpt after each validation with the lowest loss so far.

    Its state is in the checkpoints, so that a resumed run compares with the earlier best. It must
    come before SaveCheckpoints among the callbacks: the checkpoint of a step then includes it.
    """

    def __init__(self, *, folder: Path) -> None:
        self.path = folder / BEST
        self.loss, self.step = math.inf, -1

    def on_validation_end(self, trainer: lightning.Trainer, module: Any) -> None:
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
            raise RunError(
                f"{self.path} cannot be used: {fault}; resume from an older checkpoint, or use "
                "the last weights (scrolls.select=last)"
            )
        return weights_of(self.path)


def weights_of(path: Path) -> dict[str, Tensor]:
    """Return the model's weights from a checkpoint, on the host."""
    if path.is_dir():
        state = shards.load_whole(path, weights_only=True)["state_dict"]
    else:
        state = _read(path, "cpu")["state_dict"]
    return merged({name.removeprefix("model."): value for name, value in state.items()})


def _read(path: Path, map_location: Any) -> dict[str, Any]:
    """Load tensors and plain data; RunError for a file that holds more, such as code."""
    try:
        found: dict[str, Any] = torch.load(path, map_location=map_location, weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError, KeyError) as fault:
        why = str(fault).partition("\n")[0]
        raise RunError(
            f"{path}: is not a checkpoint of tensors and plain data ({why}); remove it to "
            "use the previous one"
        ) from fault
    return found


def step_of(path: Path) -> int:
    return int(path.stem.rpartition("=")[2])


def checkpoints(folder: Path) -> list[Path]:
    """Return all checkpoints of a folder, oldest first."""
    return sorted(path for path in folder.glob("step=*.ckpt") if _NAME.fullmatch(path.name))


def latest_checkpoint(folder: Path) -> Path | None:
    """Return the newest complete checkpoint; log the damaged ones."""
    for path in reversed(checkpoints(folder)):
        if not (fault := fault_of(path)):
            return path
        log.warning("%s is skipped: %s", path, fault)
    return None


def remove_unfinished(folder: Path) -> None:
    """Remove what a kill left of checkpoints; only for the holder of a run."""
    for part in [*folder.glob(".*.part"), *(p for p in folder.glob("*.ckpt") if not _ended(p))]:
        if part.is_dir():
            shutil.rmtree(part)
        else:
            part.unlink()


def _ended(path: Path) -> bool:
    """Return whether a checkpoint was written to its end."""
    return (path / shards.MANIFEST if path.is_dir() else _manifest(path)).is_file()


def _manifest(path: Path) -> Path:
    return path.with_suffix(".json")


def fault_of(path: Path) -> str | None:
    """Return why a checkpoint cannot be used, by its size and checksum, or None."""
    if path.is_dir():
        return shards.fault_of(path)
    try:
        expected = json.loads(_manifest(path).read_text())["sha256"]
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return "it has no manifest (the run was stopped while it was written)"
    if sha256(path) != expected:
        return "its checksum is not the one in its manifest"
    return None
