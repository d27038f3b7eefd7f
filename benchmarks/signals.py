"""Stop and kill trainings at random moments: they must come out as if nobody had.

    python -m benchmarks.signals [--times 5] [--kills 5] [--steps 150] [--worlds one ddp fsdp2]

For each kind of process group a small model trains undisturbed, and again for each signal: each
start is stopped at a random moment (the first process, one of them, or all), until `times` signals
have been sent; then it runs to its end. Statuses must be those promised, at most one step may be
lost, metrics and weights must be the same bit for bit. Likewise with SIGKILL of a random rank: the
others must be gone in time and name it, and the next start must leave no temporary file.
"""

from __future__ import annotations

import csv
import hashlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.workers import ROOT, children, parser_of

_TWO = ("trainer.accelerator=cpu", "trainer.devices=2", "trainer.precision=32-true")
_WORLDS = {
    "one": (),
    "ddp": ("trainer=ddp", *_TWO),
    "fsdp2": ("trainer=fsdp2", *_TWO),
    "fsdp2_async": ("trainer=fsdp2", "checkpoint_async=true", *_TWO),
}
_SIGNALS = ("SIGTERM", "SIGUSR1", "SIGINT")
_LIMIT = 300.0  # seconds for a process to end
_OF_THE_MACHINE = ("tokens_per_second", "mfu", "peak_memory_gib", "seconds")
_LOST = re.compile(r"bipe: rank (\d+)[^\n]*pid (\d+)")


class Study:
    """Trainings of one kind of process group in one scratch folder."""

    def __init__(self, folder: Path, world: str, *, steps: int, seed: int) -> None:
        self.folder, self.draw = folder, random.Random(f"{seed} {world}")
        self.words = (
            *("pretrain", "experiment=smoke", "data=data", f"steps={steps}", *_WORLDS[world]),
            *("rows.micro_batch=1", "checkpoint_every=10", "validate_every=7"),
            *("rows.validation_rows=16", "keep_checkpoints=3"),
        )

    def start(self, out: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "train.cli", *self.words, f"out={out}"],
            cwd=self.folder,
            env=os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
            text=True,
        )

    def whole(self, out: str) -> float:
        """Run to the end; the seconds from the first step on."""
        process = self.start(out)
        self.wait_for_step(process, out)
        begin = time.monotonic()
        _, error = process.communicate(timeout=_LIMIT)
        if process.returncode:
            raise SystemExit(f"{out}: {error[-2000:]}")
        return time.monotonic() - begin

    def run(self, out: str) -> Path:
        return self.folder / out / "bipe_rope"

    def wait_for_step(self, process: subprocess.Popen[str], out: str) -> None:
        """Wait for the first step of a start, or its end."""
        begun = last_step(self.run(out))
        while process.poll() is None and last_step(self.run(out)) <= begun:
            time.sleep(0.01)

    def disturbed(self, out: str, name: str, times: int, seconds: float) -> list[dict[str, Any]]:
        """Send a signal to each of `times` starts at a random moment, and run to the end."""
        found = []
        for number in range(times):
            process = self.start(out)
            if self.draw.random() < 0.1:  # while it is starting
                time.sleep(self.draw.uniform(0, 5))
            else:
                self.wait_for_step(process, out)
                time.sleep(self.draw.uniform(0, seconds / times))
            ranks = [process.pid, *children(process.pid)]
            to = self.draw.choice(["first", "one", "all"]) if name != "SIGKILL" else "one"
            targets = {"first": ranks[:1], "one": [self.draw.choice(ranks)], "all": ranks}[to]
            step, begin = last_step(self.run(out)), time.monotonic()
            for pid in targets:
                try:
                    os.kill(pid, signal.Signals[name])
                except ProcessLookupError:
                    continue
            _, error = process.communicate(timeout=_LIMIT)
            wait_for_end(ranks)
            kept = last_checkpoint(self.run(out))
            found.append({
                "number": number, "signal": name, "to": to, "ranks": len(ranks),
                "of": ranks.index(targets[0]), "status": process.returncode,
                "seconds": round(time.monotonic() - begin, 2), "step": step, "kept": kept,
                "lost": max(0, last_step(self.run(out)) - kept) if name != "SIGKILL" else None,
                "named": [int(pid) for _, pid in _LOST.findall(error)] == targets,
                "lines": error.count("\n"), "traceback": "Traceback" in error,
                "damaged": error.count("passed over"),
            })  # fmt: skip
            print(json.dumps(found[-1]), file=sys.stderr, flush=True)
        self.whole(out)
        return found


def _trained(folder: Path) -> dict[str, str]:
    """Return what a run measured, without times, and its last weights."""
    (metrics,) = folder.rglob("metrics.csv")
    with metrics.open(newline="") as file:
        rows = [
            {key: value for key, value in row.items() if key not in _OF_THE_MACHINE}
            for row in csv.DictReader(file)
        ]
    found = {"metrics": json.dumps(rows)}
    for path in sorted(folder.rglob("*.safetensors")):
        found[str(path.relative_to(folder))] = hashlib.sha256(path.read_bytes()).hexdigest()
    if len(found) < 2:
        raise SystemExit(f"{folder}: no weights")
    return found


def last_step(run: Path) -> int:
    try:
        with (run / "metrics.csv").open(newline="") as file:
            return max((int(row["step"]) for row in csv.DictReader(file) if row["step"]), default=0)
    except (OSError, ValueError):  # not there yet, or half a line
        return 0


def last_checkpoint(run: Path) -> int:
    folder = run / "checkpoints"
    whole = [path.with_suffix("") for path in folder.glob("step=*.json")]
    whole += [path.parent.with_suffix("") for path in folder.glob("step=*.ckpt/manifest.json")]
    return max((int(path.name.partition("=")[2]) for path in whole), default=0)


def wait_for_end(pids: list[int]) -> None:
    """Wait until none of some processes runs."""
    limit = time.monotonic() + _LIMIT
    while any(_runs(pid) for pid in pids):
        if time.monotonic() > limit:
            raise SystemExit(f"still there after {_LIMIT:.0f} s: {pids}")
        time.sleep(0.01)


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def temporary(folder: Path) -> list[str]:
    return [str(path) for path in folder.rglob(".*") if path.suffix == ".part"]


def summary(found: list[dict[str, Any]], *, same: bool, left: list[str]) -> dict[str, Any]:
    name = found[0]["signal"]
    statuses = sorted({one["status"] for one in found})
    made = {
        "signal": name, "times": len(found), "identical": same, "temporary": left,
        "statuses": statuses, "slowest": max(one["seconds"] for one in found),
        "tracebacks": sum(one["traceback"] for one in found),
        "damaged": sum(one["damaged"] for one in found),
    }  # fmt: skip
    # Before the handlers are there a signal ends a process as the system does.
    early, end = -signal.Signals[name], 128 + signal.Signals[name]
    if name == "SIGKILL":
        ran = [one for one in found if one["ranks"] > 1 and one["step"]]
        made["unnamed"] = sum(not one["named"] for one in ran if one["status"])
        made["right"] = same and not left and made["slowest"] < 60 and 0 not in statuses
    else:
        made["lost"] = max(one["lost"] for one in found)
        promised = {end, early, 0}
        made["right"] = same and not left and made["lost"] <= 1 and promised.issuperset(statuses)
    return made


def main() -> None:
    parser = parser_of(__doc__, times=5, kills=5, steps=150, seed=0)
    parser.add_argument("--worlds", nargs="+", choices=_WORLDS, default=list(_WORLDS))
    parser.add_argument("--signals", nargs="*", default=_SIGNALS)
    options = parser.parse_args()
    wrong = []
    with tempfile.TemporaryDirectory(prefix="signals-", ignore_cleanup_errors=True) as place:
        folder = Path(place)
        words = ["prepare", "experiment=smoke", "data=data", f"out={folder}"]
        command = [sys.executable, "-m", "train.cli", *words]
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True)
        for world in options.worlds:
            study = Study(folder, world, steps=options.steps, seed=options.seed)
            seconds = study.whole(f"{world}-whole")
            for name in [*options.signals, *(["SIGKILL"] if options.kills else [])]:
                out = f"{world}-{name}"
                times = options.kills if name == "SIGKILL" else options.times
                found = study.disturbed(out, name, times, seconds)
                same = _trained(study.run(f"{world}-whole")) == _trained(study.run(out))
                line = {"world": world, **summary(found, same=same, left=temporary(folder / out))}
                print(json.dumps(line), flush=True)
                wrong += [] if line["right"] else [line]
    if wrong:
        raise SystemExit(f"{len(wrong)} came out otherwise")


if __name__ == "__main__":
    main()
