"""How fast a training goes: tokens per second, model FLOPs utilisation (MFU), peak memory.

    MFU = tokens per second x FLOPs per token (train/fit/flops.py) / peak FLOPs of all devices

The peak of a GPU is its maker's for bfloat16; that of a CPU is measured by a matrix product at the
start. Without a peak (a GPU that is not in the table, or in float32) MFU is left out.
"""

from __future__ import annotations

import contextlib
import resource
import sys
import time
from collections import deque
from pathlib import Path

import lightning
import torch

from bipe import DecoderConfig
from train.fit.flops import peak_flops, step_flops

_SIZE, _TIMES = 768, 5  # of the matrix product that measures a CPU
_GIB = 1 << 30
_CLEAR = Path("/proc/self/clear_refs")


class Clock:
    """Measures tokens per second over the last `WINDOW` steps, and estimates the time left."""

    WINDOW = 20

    def __init__(self) -> None:
        self._begin = time.monotonic()
        self._marks: deque[tuple[float, float]] = deque(maxlen=self.WINDOW + 1)
        self._steps = 0

    def count(self, tokens: float) -> None:
        """Record the total number of tokens after a step."""
        self._marks.append((time.monotonic(), tokens))
        self._steps += 1

    def rate(self) -> float:
        if len(self._marks) < 2:
            return 0.0
        (t0, n0), (t1, n1) = self._marks[0], self._marks[-1]
        return (n1 - n0) / max(1e-9, t1 - t0)

    def seconds(self) -> float:
        return time.monotonic() - self._begin

    def left(self, step: int, steps: int) -> str:
        seconds = round(self.seconds() / max(1, self._steps) * (steps - step))
        return f"{seconds // 60}:{seconds % 60:02d} left"


class Utilisation:
    """The share of the devices' peak that a training uses."""

    def __init__(self, decoder: DecoderConfig, trainer: lightning.Trainer) -> None:
        self._decoder = decoder
        half = str(trainer.precision).startswith("bf16")
        peak = _peak(trainer.strategy.root_device, half=half)
        self._peak = None if peak is None else peak * trainer.world_size

    def mfu(self, tokens_per_second: float, *, keys: float) -> float | None:
        """Return the utilisation; keys: that a token attends to on average."""
        if self._peak is None or not tokens_per_second:
            return None
        flops = step_flops(self._decoder, row_length=1, keys=keys).model
        return round(tokens_per_second * flops / self._peak, 4)


def forget_peak_memory(device: torch.device) -> None:
    """Count peak memory from now on, so that a run of a sweep does not report that of another.

    Of a process only Linux does; elsewhere the peak stays that since its start.
    """
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    else:
        with contextlib.suppress(OSError):
            _CLEAR.write_text("5")  # proc_pid_clear_refs(5): resets the peak, and nothing else


def peak_memory_gib(device: torch.device) -> float:
    """Return the most memory of the run so far: of tensors on a GPU, else of the process."""
    if device.type == "cuda":
        used = torch.cuda.max_memory_allocated(device)
    else:
        used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        used *= 1 if sys.platform == "darwin" else 1024
    return round(used / _GIB, 3)


def _peak(device: torch.device, *, half: bool) -> float | None:
    if device.type == "cuda":
        return peak_flops(torch.cuda.get_device_name(device)) if half else None
    if device.type != "cpu":
        return None
    x = torch.ones(_SIZE, _SIZE, dtype=torch.bfloat16 if half else torch.float32)
    times = []
    for _ in range(_TIMES):
        begin = time.perf_counter()
        x @ x
        times.append(time.perf_counter() - begin)
    return 2 * _SIZE**3 / min(times)
