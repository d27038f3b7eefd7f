"""Kill preparations at random: the data must come out as if nobody had.

    python -m benchmarks.endurance FILE.jsonl.gz ... [--kills 5] [--seed 0]

Each file is a source of rows with a `text`. They are prepared undisturbed, and again by processes
that are killed with SIGKILL, whole groups and single workers in turn; every file must have the same
sha256, and `bipe verify` must find no fault. Trainings are killed by benchmarks/signals.py.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.workers import ROOT, children, parser_of

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


class Endurance:
    """The runs of one corpus in one scratch folder."""

    def __init__(self, folder: Path, files: list[Path], *, kills: int, seed: int) -> None:
        self.folder, self.kills, self.draw = folder, kills, random.Random(seed)
        config = folder / "conf" / "corpus"
        config.mkdir(parents=True)
        sources = "".join(
            _SOURCE.format(name=file.name.partition(".")[0], path=file.resolve()) for file in files
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
                victims = children(process.pid) if number % 2 else []
                if victims:  # a worker alone: the command itself must go on
                    os.kill(self.draw.choice(victims), signal.SIGKILL)
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


def content(folder: Path) -> dict[str, str]:
    """sha256 of every file below a folder."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def main() -> None:
    parser = parser_of(__doc__, kills=5, seed=0)
    parser.add_argument("files", type=Path, nargs="+")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="endurance-") as folder:
        work = Endurance(Path(folder), options.files, kills=options.kills, seed=options.seed)
        prepared = work.prepare()
    print(json.dumps(prepared))
    if not prepared["identical"]:
        raise SystemExit("what was killed came out otherwise")


if __name__ == "__main__":
    main()
