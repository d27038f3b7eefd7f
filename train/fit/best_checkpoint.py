"""The weights of the step with the lowest validation loss, kept beside the checkpoints."""

from __future__ import annotations

import logging
import math
from pathlib import Path
from typing import Any

import lightning
import torch
from torch import Tensor

from train.errors import RunError
from train.fit.checkpoints import fault_of

log = logging.getLogger(__name__)

BEST = "best.ckpt"


class SaveBest(lightning.Callback):
    """Write FOLDER/best.ckpt, weights alone, after each validation that was better than all before.

    Its state is in the checkpoints: a run that is resumed goes on comparing with what was best.
    Stands before SaveCheckpoints among the callbacks, so that the checkpoint of a step knows of it.
    """

    def __init__(self, *, folder: Path) -> None:
        self.path = folder / BEST
        self.loss, self.step = math.inf, -1

    def on_validation_end(
        self, trainer: lightning.Trainer, module: lightning.LightningModule
    ) -> None:
        loss = float(trainer.callback_metrics.get("validation/loss", math.inf))
        if loss < self.loss:
            self.loss, self.step = loss, trainer.global_step
            trainer.save_checkpoint(self.path, weights_only=True)

    def state_dict(self) -> dict[str, Any]:
        return {"loss": self.loss, "step": self.step}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.loss, self.step = float(state_dict["loss"]), int(state_dict["step"])

    def notes(self) -> dict[str, Any]:
        """What the notes of a model say of its choice."""
        return {"best_step": self.step, "best_validation_loss": self.loss}

    def weights(self) -> dict[str, Tensor] | None:
        """The best weights, on the host; None if nothing was validated."""
        if self.step < 0:
            return None
        fault = fault_of(self.path)
        if fault is not None:
            raise RunError(
                f"{self.path} cannot be used: {fault}; resume from an older checkpoint, or take "
                "the last weights (scrolls.select=last)"
            )
        state = torch.load(self.path, map_location="cpu", weights_only=True)["state_dict"]
        return {name.removeprefix("model."): value for name, value in state.items()}
