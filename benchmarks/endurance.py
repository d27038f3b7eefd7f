"""Kill everything at random: data and training must come out as if nobody had.

    python -m benchmarks.endurance FILE.jsonl.gz ... [--kills 5] [--steps 60] [--seed 0]

Each file is a source of rows with a `text`. They are prepared undisturbed, and again by processes
that are killed with SIGKILL, whole groups and single workers in turn; every file must have the same
sha256, and `bipe verify` must find no fault. Then a small model trains on a mixture of all sources,
undisturbed and killed likewise: metrics and the last weights must be the same, bit for bit.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
_SOURCE = """
  {name}:
    _target_: train.data.Source
    documents:
      _target_: train.data.JSONL
      path: {path}
      pattern: "*"
      text_key: text
    segmenter: {{_target_: segmenters.Auto}}
"""
_CORPUS = """
_target_: train.data.Corpus
split: {{_target_: train.data.Split, validation: 0.05, test: 0.05}}
tokenizer:
  _target_: train.data.TrainBPE
  vocab_size: 8192
  sample_characters: 900000
sources:{sources}
"""
_OF_THE_MACHINE = ("tokens_per_second", "mfu", "peak_memory_gib", "seconds")
_SIZES = ("row_length=256", "rows.global_batch=8", "rows.micro_batch=4", "rows.validation_rows=8")
_TRAINING = ("model=tiny", "trainer=cpu", "log_every=1", "checkpoint_every=7", *_SIZES)


class Endurance:
    """The runs of one corpus in one scratch folder."""

    def __init__(self, folder: Path, files: list[Path], *, kills: int, seed: int) -> None:
        self.folder, self.kills, self.draw = folder, kills, random.Random(seed)
        config = folder / "conf" / "corpus"
        config.mkdir(parents=True)
        self.names = [file.name.partition(".")[0] for file in files]
        sources = "".join(
            _SOURCE.format(name=name, path=file.resolve())
            for name, file in zip(self.names, files, strict=True)
        )
        (config / "endurance.yaml").write_text(_CORPUS.format(sources=sources), encoding="utf-8")

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        config = [] if words[0] == "verify" else ["--config-dir", str(self.folder / "conf")]
        return subprocess.Popen(
            [sys.executable, "-m", "train.cli", *words, *config],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

    def run(self, *words: str) -> float:
        """Run a command to its end; the seconds that it took."""
        begin = time.perf_counter()
        process = self.start(*words)
        _, error = process.communicate()
        if process.returncode:
            raise SystemExit(f"{' '.join(words)}: {error.decode()[-2000:]}")
        return time.perf_counter() - begin

    def run_killed(self, *words: str, seconds: float) -> int:
        """Run a command that is killed again and again, then to its end; how often it was killed.

        seconds: what it takes undisturbed, within which the moments are drawn.
        """
        killed = 0
        for number in range(self.kills):
            process = self.start(*words)
            try:
                process.communicate(timeout=self.draw.uniform(0.2, 1.0) * seconds)
            except subprocess.TimeoutExpired:
                killed += 1
                victims = _children(process.pid) if number % 2 else []
                if victims:  # a worker alone: the command itself must go on
                    os.kill(self.draw.choice(victims), signal.SIGKILL)
                    process.communicate()
                else:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.communicate()
        self.run(*words)
        return killed

    def prepare(self) -> dict[str, Any]:
        words = ("prepare", "corpus=endurance")
        seconds = self.run(*words, "out=whole")
        killed = self.run_killed(*words, "out=killed", seconds=seconds)
        whole, broken = (content(self.folder / out / "data") for out in ("whole", "killed"))
        for out in ("whole", "killed"):
            self.run("verify", f"{out}/data")
        again = self.run(*words, "out=whole")
        return {
            "seconds": seconds,
            "kills": killed,
            "files": len(whole),
            "identical": whole == broken,
            "megabytes": sum(f.stat().st_size for f in (self.folder / "whole").rglob("*")) / 1e6,
            "seconds_again": again,
        }

    def train(self, steps: int) -> dict[str, Any]:
        weights = ",".join(f"{name}: {1 + place}" for place, name in enumerate(self.names))
        words = ("pretrain", "data=whole/data", f"steps={steps}", f"rows.sources={{{weights}}}")
        words = (*words, *_TRAINING)
        seconds = self.run(*words, "out=trained")
        killed = self.run_killed(*words, "out=trained_killed", seconds=seconds)
        whole, broken = (_trained(self.folder / out) for out in ("trained", "trained_killed"))
        other = [name for name in {*whole, *broken} if whole.get(name) != broken.get(name)]
        figures = {"seconds": seconds, "kills": killed, "steps": steps}
        return {**figures, "identical": not other, "other": sorted(other)}


def content(folder: Path) -> dict[str, str]:
    """sha256 of every file below a folder."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def _trained(folder: Path) -> dict[str, str]:
    """Return what a run measured, without times, and its last weights."""
    import csv

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


def _children(pid: int) -> list[int]:
    """Return the processes below one, by /proc."""
    path = Path(f"/proc/{pid}/task/{pid}/children")
    children = [int(child) for child in path.read_text().split()] if path.exists() else []
    return [*children, *(grandchild for child in children for grandchild in _children(child))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="endurance-"))
    try:
        work = Endurance(folder, options.files, kills=options.kills, seed=options.seed)
        prepared = work.prepare()
        print(json.dumps({"prepare": prepared}), flush=True)
        trained = work.train(options.steps)
        print(json.dumps({"train": trained}), flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if not (prepared["identical"] and trained["identical"]):
        raise SystemExit("what was killed came out otherwise")


if __name__ == "__main__":
    main()
