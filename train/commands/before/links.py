"""How fast the processes of a training reach each other: all-reduce, as gradients travel by it.

Under torchrun or srun the processes are those that it started, on their devices; else they are
started here, on the CPU.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
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
        place = Path(folder)
        try:
            torch.multiprocessing.start_processes(  # type: ignore[no-untyped-call]
                _one, args=(ranks, str(place)), nprocs=ranks, start_method="spawn"
            )
            seconds, speed = map(float, (place / "found").read_text().split())
        except Exception as fault:
            reason = str(fault).strip().splitlines()[-1]
            raise RunError(
                f"{ranks} processes could not connect to each other: {reason}"
            ) from fault
    return Links(ranks=ranks, backend="gloo", seconds=seconds, bytes_per_second=speed)


def measure_started(world: World) -> Links | None:
    """Measure between the processes that torchrun or srun started; a result on rank 0 only."""
    device, backend = torch.device("cpu"), "gloo"
    if torch.cuda.is_available():
        device, backend = torch.device("cuda", rank() % world.local), "nccl"
        torch.cuda.set_device(device)
    with _group(backend, init_method="env://", size=world.size, own=rank()):
        seconds, speed = _measured(device)
    found = Links(ranks=world.size, backend=backend, seconds=seconds, bytes_per_second=speed)
    return found if rank() == 0 else None


def _one(own: int, ranks: int, folder: str) -> None:
    """Run one of the processes started here."""
    torch.set_num_threads(1)
    with _group("gloo", init_method=f"file://{folder}/store", size=ranks, own=own):
        found = _measured(torch.device("cpu"))
    if own == 0:
        Path(folder, "found").write_text(" ".join(map(str, found)))


@contextlib.contextmanager
def _group(backend: str, *, init_method: str, size: int, own: int) -> Iterator[None]:
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    dist.init_process_group(
        backend, init_method=init_method, world_size=size, rank=own, timeout=_PATIENCE
    )
    try:
        yield
    finally:
        dist.destroy_process_group()


def _measured(device: torch.device) -> tuple[float, float]:
    """Return seconds of a small all-reduce, and bytes per second of a large one."""
    small, large = (_time(torch.ones(n, device=device)) for n in (_SMALL, _LARGE))
    return small, 4 * _LARGE / large


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
