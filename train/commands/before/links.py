"""How fast the processes of a training reach each other: all-reduce, as gradients travel by it.

Under torchrun or srun the processes are those that it started, on their devices; else they are
started here, on the CPU.
"""

from __future__ import annotations

import datetime
import multiprocessing
import os
import statistics
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import torch
import torch.distributed as dist

from train.errors import RunError
from train.ranks import rank, world

_SMALL, _LARGE = 1, 4 << 20  # float32 numbers
_TIMES = 10
_PATIENCE = datetime.timedelta(seconds=60)


def measured(ranks: int) -> str:
    """Return how fast processes are that torchrun or srun started, or else are started here.

    ranks: their number here. Raises RunError if these do not find each other.
    """
    started = world()
    if started is not None:
        device = None
        if torch.cuda.is_available():
            device = torch.device("cuda", rank() % started.local)
            torch.cuda.set_device(device)
        os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
        return _measured(rank(), meet="env://", size=started.size, device=device)
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder, ProcessPoolExecutor(ranks, context) as pool:
        meet = f"file://{folder}/store"
        try:
            return next(pool.map(partial(_measured, meet=meet, size=ranks), range(ranks)))
        except Exception as fault:
            reason = str(fault).strip().splitlines()[-1]
            raise RunError(
                f"{ranks} processes could not connect to each other: {reason}"
            ) from fault


def _measured(own: int, *, meet: str, size: int, device: torch.device | None = None) -> str:
    """Measure as one of the processes, which meet in a file or as their environment says."""
    if meet != "env://":
        torch.set_num_threads(1)
    backend = "gloo" if device is None else "nccl"
    dist.init_process_group(backend, init_method=meet, world_size=size, rank=own, timeout=_PATIENCE)
    try:
        small, large = (_time(torch.ones(n, device=device)) for n in (_SMALL, _LARGE))
    finally:
        dist.destroy_process_group()
    speed = 4 * _LARGE / large / 1e6
    return (
        f"{size} processes with {backend}: {small * 1e6:,.0f} us per all-reduce of one number, "
        f"{speed:,.0f} MB/s for 16 MB"
    )


def _time(numbers: torch.Tensor) -> float:
    times = []
    for _ in range(_TIMES + 1):  # the first one connects
        dist.barrier()
        begin = time.perf_counter()
        dist.all_reduce(numbers)
        if numbers.is_cuda:
            torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    return statistics.median(times[1:])
