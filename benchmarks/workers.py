"""Candidates of a benchmark, each in a process of its own, taking turns.

    A candidate may need another interpreter (a release that asks for old libraries), and none
    should heat the caches of another. The parent starts them all, then asks each in turn for one
    measurement; a candidate that cannot be built says why and is left out.

A worker is the same script called with `--worker NAME`; it prints one JSON line when it is ready
and one for every line that it reads.
"""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any


def serve(build: Callable[[], Callable[[], None]], *, threads: int, cuda: bool = False) -> None:
    """Be a worker: build what is measured, then measure one call for each line of the input."""
    import torch

    torch.set_num_threads(threads)
    try:
        run = build()
        run()  # compile and warm up
    except Exception as fault:
        print(json.dumps({"fault": f"{type(fault).__name__}: {fault}"[:300]}), flush=True)
        return
    print(json.dumps({"ready": torch.__version__}), flush=True)
    for _ in sys.stdin:
        print(json.dumps(_on_cuda(run) if cuda else _on_cpu(run)), flush=True)


def _on_cpu(run: Callable[[], None]) -> dict[str, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    run()
    return {
        "wall": time.perf_counter() - wall,
        "cpu": time.process_time() - cpu,
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def _on_cuda(run: Callable[[], None]) -> dict[str, float]:
    """Return the names for the device: its time for the CPU's, its memory for all.

    One call is not measured, since the device may have slept; then as many as fit in a second.
    Memory goes back, for the other candidates are on the same device.
    """
    import torch

    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.reset_peak_memory_stats()
    calls = max(1, min(10, int(1 / _timed(run, 1, start, stop)["wall"])))
    found = _timed(run, calls, start, stop)
    peak = torch.cuda.max_memory_allocated() / 2**20
    torch.cuda.empty_cache()
    return {**found, "peak_mib": peak}


def _timed(run: Callable[[], None], calls: int, start: Any, stop: Any) -> dict[str, float]:
    import torch

    torch.cuda.synchronize()
    wall = time.perf_counter()
    start.record()
    for _ in range(calls):
        run()
    stop.record()
    torch.cuda.synchronize()
    wall = time.perf_counter() - wall
    return {"wall": wall / calls, "cpu": start.elapsed_time(stop) / 1000 / calls}


class Worker:
    """The parent's end of a worker process."""

    def __init__(self, name: str, command: Sequence[str], *, path: Sequence[str] = ()) -> None:
        import os

        self.name = name
        search = os.pathsep.join([*path, *filter(None, [os.environ.get("PYTHONPATH")])])
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "PYTHONPATH": search},
        )
        self.fault: str | None = None

    def wait(self) -> bool:
        """Whether it could be built; `fault` says why not."""
        answer = self._answer()
        self.fault = answer.get("fault")
        return self.fault is None

    def measure(self) -> dict[str, float]:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return self._answer()

    def close(self) -> None:
        self.process.kill()
        self.process.wait()

    def _answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("{"):
                return json.loads(line)
        return {"fault": "the process ended"}


def take_turns(workers: Sequence[Worker], *, rounds: int) -> dict[str, dict[str, float]]:
    """Medians of each worker's figures over the rounds; workers with a fault are left out."""
    found: dict[str, list[dict[str, float]]] = {}
    try:
        for worker in workers:  # one at a time: compiling takes all cores
            if worker.wait():
                found[worker.name] = []
            else:
                print(f"left out: {worker.name}: {worker.fault}", file=sys.stderr)
        for _ in range(rounds):
            for worker in workers:
                if worker.name in found:
                    found[worker.name].append(worker.measure())
    finally:
        for worker in workers:
            worker.close()
    return {
        name: {key: statistics.median(each[key] for each in figures) for key in figures[0]}
        for name, figures in found.items()
    }


def machine() -> dict[str, Any]:
    """Return what the figures were measured on."""
    import platform

    import torch

    names = [
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else names[0]
    return {"device": device, "torch": torch.__version__, "python": platform.python_version()}


def write(path: Path | None, results: Mapping[str, Any]) -> None:
    """Save results as JSON where a path is given."""
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
