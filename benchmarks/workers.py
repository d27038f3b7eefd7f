"""What benchmarks share: calls that take turns, candidates in processes of their own, JSON.

    A candidate may need another interpreter (a release that asks for old libraries), and none
    should heat the caches of another. The parent starts them all, then asks each in turn for one
    measurement; a candidate that cannot be built says why and is left out.

A worker is the same script called with `--worker NAME`; it prints one JSON line when it is ready
and one for every line that it reads.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import multiprocessing
import os
import platform
import resource
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).parents[1]
NICEST = 19
_LIBC = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1


def parser_of(doc: str | None, **numbers: int) -> argparse.ArgumentParser:
    """Return a parser of whole numbers by name, with their defaults, and of `--json`."""
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, default in numbers.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=default)
    parser.add_argument("--json", type=Path)
    return parser


def chosen(names: Sequence[str], only: Sequence[str] | None) -> list[str]:
    """Return the candidates, or those of `--only`; one that there is not ends the program."""
    if unknown := [name for name in only or () if name not in names]:
        known = "; ".join(names)
        sys.exit(f"--only {unknown[0]!r}: there is no such candidate; there are: {known}")
    return [name for name in names if not only or name in only]


def cpu_seconds(run: Callable[[], object]) -> float:
    begin = time.process_time()
    run()
    return time.process_time() - begin


def wall_seconds(run: Callable[[], object]) -> float:
    begin = time.perf_counter()
    run()
    return time.perf_counter() - begin


def medians(
    *runs: Callable[[], object],
    rounds: int,
    seconds: Callable[[Callable[[], object]], float] = cpu_seconds,
) -> list[float]:
    """Return the median seconds of each call; they take turns, the first turn left out."""
    turns = [[seconds(run) for run in runs] for _ in range(rounds + 1)]
    return [statistics.median(each) for each in zip(*turns[1:], strict=True)]


def alone(work: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function in a fresh process."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(work, arguments)


def children(pid: int, *, deep: bool = True) -> list[int]:
    """Return the processes below one, by /proc; deep: theirs, too."""
    path = Path(f"/proc/{pid}/task/{pid}/children")
    own = [int(child) for child in path.read_text().split()] if path.exists() else []
    return own + [inner for child in own if deep for inner in children(child)]


def peak_mib() -> float:
    """Return the peak memory of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def serve(build: Callable[[], Callable[[], None]], *, threads: int) -> None:
    """Be a worker: build what is measured, then measure one call for each line of the input."""
    torch.set_num_threads(threads)
    try:
        run = build()
        run()  # compile and warm up
    except Exception as fault:
        print(json.dumps({"fault": f"{type(fault).__name__}: {fault}"[:300]}), flush=True)
        return
    print(json.dumps({"ready": torch.__version__}), flush=True)
    for _ in sys.stdin:
        found = _on_cuda(run) if torch.cuda.is_available() else _on_cpu(run)
        print(json.dumps(found), flush=True)


def _on_cpu(run: Callable[[], None]) -> dict[str, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    run()
    return {
        "wall": time.perf_counter() - wall,
        "cpu": time.process_time() - cpu,
        "peak_mib": peak_mib(),
    }


def _on_cuda(run: Callable[[], None]) -> dict[str, float]:
    """Return the names for the device: its time for the CPU's, its memory for all.

    One call is not measured, since the device may have slept; then as many as fit in a second.
    Memory goes back, for the other candidates are on the same device.
    """
    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.reset_peak_memory_stats()
    calls = max(1, min(10, int(1 / _timed(run, 1, start, stop)["wall"])))
    found = _timed(run, calls, start, stop)
    peak = torch.cuda.max_memory_allocated() / 2**20
    torch.cuda.empty_cache()
    return {**found, "peak_mib": peak}


def _timed(run: Callable[[], None], calls: int, start: Any, stop: Any) -> dict[str, float]:
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

    def __init__(self, name: str, command: Sequence[str]) -> None:
        self.name = name
        search = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
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


def compare(
    names: Sequence[str], *, rounds: int, interpreters: Mapping[str, str] = {}
) -> dict[str, dict[str, float]]:
    """Let workers of the script that runs take turns; return the medians of their figures.

    interpreters: of candidates that need another one. Candidates with a fault are left out, but
    not all of them.
    """
    script = sys.modules["__main__"].__spec__.name  # type: ignore[union-attr]
    workers = []
    for name in names:
        words = ["-m", script, *sys.argv[1:], "--worker", name]
        workers.append(Worker(name, [interpreters.get(name, sys.executable), *words]))
    found: dict[str, list[dict[str, float]]] = {}
    try:
        for worker in workers:  # one at a time: compiling takes all cores
            if worker.wait():
                found[worker.name] = []
            else:
                print(f"left out: {worker.name}: {worker.fault}", file=sys.stderr)
        if not found:
            sys.exit("no candidate could be measured")
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
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else next(names)
    return {"device": device, "torch": torch.__version__, "python": platform.python_version()}


def write(path: Path | None, results: Mapping[str, Any]) -> None:
    """Save results as JSON where a path is given, else print what they were measured on."""
    if path is None:
        print(results["machine"])
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


def begin_apart(nice: int = NICEST) -> None:
    """Let the process that is about to start end with its parent and come after all others.

    Linux shares cores out among sessions first (sched_autogroup), whatever their processes have:
    so it is a session of its own. nice: of that session, 0 to take a share like any other.
    """
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    os.setsid()
    lowest_priority()
    group = Path("/proc/self/autogroup")
    while group.exists():
        try:
            group.write_text(f"{nice}")
            return
        except BlockingIOError:  # without root, Linux allows ten of these a second
            time.sleep(0.2)


def lowest_priority() -> None:
    """Let this process and its children have only what no other process of the session wants."""
    os.nice(NICEST)
    if hasattr(os, "SCHED_IDLE"):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
