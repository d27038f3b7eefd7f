"""How fast the processes of a training reach each other: all-reduce, as gradients travel by it.

Under torchrun or srun the processes are those that it started, on their devices; else they are
started here, on the CPU.
"""

from __future__ import annotations

import datetime
import json
import os
import statistics
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
import torch.distributed as dist

from train.errors import RunError
from train.ranks import World, rank

_SMALL, _LARGE = 1, 4 << 20  # float32 numbers
_TIMES = 10
_PATIENCE = datetime.timedelta(seconds=60)


@dataclass(frozen=True, slots=True, kw_only=True)
class Links:
    """seconds: of an all-reduce of one number. bytes_per_second: of a large one, on each rank."""

    ranks: int
    backend: str
    seconds: float
    bytes_per_second: float


def measure_here(ranks: int) -> Links:
    """Start processes on this machine and measure; RunError if they do not find each other."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            torch.multiprocessing.start_processes(  # type: ignore[no-untyped-call]
                _one, args=(ranks, folder), nprocs=ranks, start_method="spawn"
            )
            return Links(**json.loads(Path(folder, "found").read_text()))
        except Exception as fault:
            reason = str(fault).strip().splitlines()[-1]
            raise RunError(
                f"{ranks} processes could not connect to each other: {reason}"
            ) from fault


def measure_started(world: World) -> Links | None:
    """Measure between the processes that torchrun or srun started; a result on rank 0 only."""
    device, backend = torch.device("cpu"), "gloo"
    if torch.cuda.is_available():
        device, backend = torch.device("cuda", rank() % world.local), "nccl"
        torch.cuda.set_device(device)
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    found = _measured(device, backend, "env://", own=rank(), size=world.size)
    return found if rank() == 0 else None


def _one(own: int, ranks: int, folder: str) -> None:
    """Run one of the processes started here, which meet in a file."""
    torch.set_num_threads(1)
    store = f"file://{folder}/store"
    found = _measured(torch.device("cpu"), "gloo", store, own=own, size=ranks)
    if own == 0:
        Path(folder, "found").write_text(json.dumps(asdict(found)))


def _measured(device: torch.device, backend: str, meet: str, *, own: int, size: int) -> Links:
    dist.init_process_group(backend, init_method=meet, world_size=size, rank=own, timeout=_PATIENCE)
    try:
        small, large = (_time(torch.ones(n, device=device)) for n in (_SMALL, _LARGE))
    finally:
        dist.destroy_process_group()
    speed = 4 * _LARGE / large
    return Links(ranks=size, backend=backend, seconds=small, bytes_per_second=speed)


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
