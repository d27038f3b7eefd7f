"""Steps that are skipped because the gradient is not finite, decided and counted on the device.

To ask the device whether a norm is finite waits for it, in every step. A fused optimizer decides
by itself: told by `found_inf`, as torch.amp.GradScaler tells it, its kernels change neither weights
nor moments nor the count of steps. Other optimizers, and sharded parameters, whose kernels take no
plain tensor beside them, have their gradients dropped after the device was asked.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

_LOOK_EVERY = 10  # steps, where to look waits for the device


class TrainingDiverged(RuntimeError):
    """The loss was not finite for too many steps in a row."""


class SkippedSteps:
    """How many steps were skipped, in all and in a row; on the device until somebody asks.

    patience: so many skipped steps in a row end the run.
    """

    def __init__(self, *, patience: int) -> None:
        self.patience = patience
        self._counts = torch.zeros(3, dtype=torch.int64)  # in all, in a row, at most in a row

    @property
    def total(self) -> Tensor:
        """In all, on the device."""
        return self._counts[0]

    def state(self) -> tuple[int, int]:
        """In all and in a row, for a checkpoint."""
        total, row, _ = self._counts.tolist()
        return total, row

    def load(self, state: Sequence[int]) -> None:
        self._counts = torch.tensor([state[0], state[1], state[1]])

    def skip_unless(
        self, finite: Tensor, *, optimizer: torch.optim.Optimizer, parameters: list[nn.Parameter]
    ) -> None:
        """Let the optimizer pass over this step if its gradient is not finite; count it then."""
        found = ~finite
        if _decides(optimizer, parameters):
            optimizer.found_inf = found.float()  # type: ignore[attr-defined]
        elif found:
            for parameter in parameters:
                parameter.grad = None  # the optimizer passes over parameters without one
        counts = self._counts.to(finite.device)
        row = (counts[1] + 1) * found
        self._counts = torch.stack((counts[0] + found, row, torch.maximum(counts[2], row)))

    def check(self, step: int, *, last: bool) -> None:
        """Raise TrainingDiverged if too many steps in a row were skipped.

        step: the one that is being made. Where to look waits for the device, only some steps do.
        """
        if self._counts.device.type != "cpu" and step % _LOOK_EVERY and not last:
            return
        longest = int(self._counts[2])
        if longest >= self.patience:
            raise TrainingDiverged(
                f"loss or gradient was not finite for {longest} steps in a row (patience), last at "
                f"step {step}: lower optimizer.lr, raise schedule.warmup, or resume from an older "
                "checkpoint"
            )


def _decides(optimizer: torch.optim.Optimizer, parameters: list[nn.Parameter]) -> bool:
    """Whether the kernels of the optimizer heed `found_inf`."""
    fused = getattr(optimizer, "_step_supports_amp_scaling", False)
    return fused and not any(isinstance(parameter, DTensor) for parameter in parameters)
