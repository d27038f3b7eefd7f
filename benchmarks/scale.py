"""Train several encodings side by side on one GPU within a given time, and measure them.

    python -m benchmarks.scale text FOLDER --prose PATH --latex PATH --proofs PATH
    python -m benchmarks.scale run FOLDER --out WORK [--seconds 480] [--results FILE.json]
        [--encodings rope bipe_rope ...] [--seeds 0] [--plan 'model.width=768 ...']

`text` writes one FOLDER/NAME.jsonl.xz a source: those given (.jsonl or .jsonl.gz with a key `text`)
and `code` from the installed packages. They travel packed; `run` needs no network.

`run` prepares them, trains all models together for some steps to learn how fast the slowest is
among the others, and gives all of them the same schedule, as long as the time allows and no source
is read more than 1.5 times. Each is a process of its own: one that fails leaves the others alone,
and its log says why. The results are written anew whenever a model has been measured. What was
finished before an interruption stays: the same command goes on.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import lzma
import os
import random
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from benchmarks.workers import machine

SEGMENTERS = {"prose": "sentences", "latex": "latex", "proofs": "coq", "code": "lines"}
PACKAGES = [
    *("torch", "sympy", "pandas", "scipy", "numpy", "transformers", "sklearn", "jax"),
    *("matplotlib", "lightning"),
]
ENCODINGS = ["rope", "bipe_rope", "alibi", "bipe_alibi", "fox", "fox_segments"]
MOST_PASSES = 1.5
SHARES = {"prepare": 0.1, "rehearse": 0.12, "train": 0.6}  # of the time; the rest is for evaluation
REHEARSED = 30  # steps, of which the last third is timed
# 27M weights and 17M of embeddings, on a GPU of 80 GB.
PLAN = {
    "prepare": {
        "corpus.tokenizer.vocab_size": "16384",
        "corpus.split.validation": "0.03",
        "corpus.split.test": "0.15",
    },
    "pretrain": {
        "model.width": "512",
        "model.n_layer": "8",
        "model.n_head": "8",
        "model.mlp_width": "1536",
        "row_length": "1024",
        "rows.global_batch": "32",
        "rows.micro_batch": "32",
        "rows.validation_rows": "64",
        "optimizer.lr": "1e-3",
        "compile": "true",
        "validate_every": "null",
    },
    "evaluate": {
        "row_length": "1024",
        "evaluate.lengths": "[1,2,4,8,16]",
        "evaluate.documents": "12",
        "evaluate.probes": "[]",
    },
}


def pack(folder: Path, given: dict[str, Path], most: float) -> None:
    """Write the text of each source, at most so many characters of each, in a drawn order."""
    folder.mkdir(parents=True, exist_ok=True)
    sources: dict[str, Iterable[dict[str, str]]] = {n: _rows(p) for n, p in given.items()}
    for name, rows in (sources | {"code": _installed()}).items():
        drawn, written = list(rows), 0
        random.Random(0).shuffle(drawn)
        part = folder / f"{name}.part"
        with lzma.open(part, "wt", encoding="utf-8") as file:
            for row in drawn:
                if written < most:
                    file.write(json.dumps(row) + "\n")
                    written += len(row["text"])
        part.rename(folder / f"{name}.jsonl.xz")
        print(f"{name}: {written:,} characters")


def _rows(path: Path) -> Iterator[dict[str, str]]:
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8") as file:
        for number, line in enumerate(file):
            row = json.loads(line)
            text = row["text"]
            if path.name.startswith("prose"):  # books are wrapped at 72 columns
                text = re.sub(r"(?<!\n)\n(?!\n)", " ", text)
            yield {"text": text, "id": str(row.get("id", number))}


def _installed() -> Iterator[dict[str, str]]:
    for package in PACKAGES:
        found = find_spec(package)
        for place in (found and found.submodule_search_locations) or ():
            for path in sorted(Path(place).rglob("*.py")):
                text = path.read_text(encoding="utf-8", errors="ignore")
                if len(text) >= 2000:
                    yield {"text": text, "id": str(path.relative_to(place))}


@dataclass
class Scale:
    """One run of the benchmark: where it works, what it trains, and when its time is up."""

    texts: Path
    out: Path
    results: Path
    names: list[str]  # encoding and seed: `rope_0`
    plan: dict[str, dict[str, str]]  # the overrides of each command
    seconds: float

    def __post_init__(self) -> None:
        self._began, self._lock = time.monotonic(), Lock()
        self.out.mkdir(parents=True, exist_ok=True)
        self.facts: dict[str, Any] = {
            "machine": machine(),
            "cores": os.cpu_count(),
            "plan": self.plan,
            "failed": {},
        }

    def run(self) -> dict[str, Any]:
        """Prepare, rehearse, train and evaluate; return the results."""
        self._prepare()
        steps = self._steps()
        self.facts["tokens"] = steps * self._tokens_per_step()
        print(f"{len(self.names)} models, {steps:,} steps each", flush=True)
        with ThreadPoolExecutor(len(self.names)) as pool:
            list(pool.map(self._train_and_measure, self.names))
        return self._write()

    def _prepare(self) -> None:
        corpus = {"defaults": [], "_target_": "train.data.Corpus"}
        sources: dict[str, Any] = {}
        for name in self._sources():
            unpacked = self.out / "text" / f"{name}.jsonl"
            if not unpacked.exists():
                unpacked.parent.mkdir(exist_ok=True)
                part = unpacked.with_suffix(".part")
                part.write_bytes(lzma.decompress((self.texts / f"{name}.jsonl.xz").read_bytes()))
                part.rename(unpacked)
            segmenter = {f"/segmenter@sources.{name}.segmenter": SEGMENTERS[name]}
            documents = {"_target_": "train.data.JSONL", "path": str(unpacked), "text_key": "text"}
            documents |= {"kind": "code"} if name == "code" else {}
            corpus["defaults"] += [segmenter]
            sources[name] = {"_target_": "train.data.Source", "documents": documents}
        tokenizer = {"_target_": "train.data.TrainBPE", "sample_characters": 4_000_000}
        split = {"_target_": "train.data.Split"}
        corpus["defaults"] += ["_self_"]
        corpus |= {"tokenizer": tokenizer, "split": split}
        conf = self.out / "conf" / "corpus"
        conf.mkdir(parents=True, exist_ok=True)
        # YAML holds JSON.
        (conf / "scale.yaml").write_text(json.dumps(corpus | {"sources": sources}, indent=1))
        words = ["corpus=scale", f"out={self.out}"]
        words += [f"engine.workers={max((os.cpu_count() or 2) - 2, 1)}"]
        self._bipe("prepare", words, log="prepare", limit=self.seconds * SHARES["prepare"] * 3)

    def _sources(self) -> list[str]:
        found = [name for name in SEGMENTERS if (self.texts / f"{name}.jsonl.xz").exists()]
        if not found:
            raise SystemExit(f"{self.texts} has no NAME.jsonl.xz of {', '.join(SEGMENTERS)}")
        return found

    def _steps(self) -> int:
        """Find the steps of all models from their speed side by side; keep them for next time."""
        kept = self.out / "steps.json"
        if kept.exists():
            self.facts |= json.loads(kept.read_text())
            return int(self.facts["steps"])
        folder = self.out / "rehearsal"

        def rehearse(name: str) -> None:
            words = self._words(name, folder)
            words += [f"steps={REHEARSED}", "schedule.warmup=1", "log_every=1"]
            self._try(name, "pretrain", words, "rehearsal", self.seconds * SHARES["rehearse"] * 3)

        with ThreadPoolExecutor(len(self.names)) as pool:
            list(pool.map(rehearse, self.names))
        rates = {name: _rate(folder / name / "metrics.csv") for name in self.names}
        slowest = min((rate for rate in rates.values() if rate), default=None)
        if slowest is None:
            raise SystemExit(f"no model trained: see {self.out}/*.rehearsal.log")
        per_step, tokens = self._tokens_per_step(), self._tokens()
        steps = int(slowest * self.seconds * SHARES["train"] / per_step)
        steps = max(1, min(steps, int(MOST_PASSES * sum(tokens.values()) / per_step)))
        found = {"steps": steps, "rehearsed_tokens_per_second": rates}
        kept.with_suffix(".part").write_text(json.dumps(found))
        kept.with_suffix(".part").replace(kept)
        self.facts |= found
        return steps

    def _train_and_measure(self, name: str) -> None:
        folder = self.out / "runs"
        words = self._words(name, folder)
        steps = self.facts["steps"]
        words += [f"steps={steps}", f"schedule.warmup={max(steps // 12, 1)}"]
        words += [f"checkpoint_every={max(steps // 4, 1)}"]
        if not self._try(name, "pretrain", words, "train", self.seconds * SHARES["train"] * 1.5):
            return
        words = [f"out={folder}", f"data={self._data}", f"evaluate.runs={folder / name}"]
        left = max(self.seconds * 1.2 - (time.monotonic() - self._began), 60)
        self._try(name, "evaluate", words, "evaluation", left)
        self._write()

    def _words(self, name: str, folder: Path) -> list[str]:
        encoding, _, seed = name.rpartition("_")
        tokens = self._tokens()
        shares = ", ".join(f"{n}: {tokens[n] / sum(tokens.values()):.4f}" for n in tokens)
        words = [f"encoding={encoding}", f"seed={seed}", f"name={name}", f"out={folder}"]
        words += [f"data={self._data}", f"rows.sources={{{shares}}}", "log_every=50"]
        return words

    def _try(self, name: str, command: str, words: list[str], log: str, limit: float) -> bool:
        """Run a command of one model; what becomes of it is no business of the others."""
        try:
            self._bipe(command, words, log=f"{name}.{log}", limit=limit)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as failure:
            self.facts["failed"][name] = f"{log}: {type(failure).__name__}"
            print(f"{name}: {log} failed, see {self.out}/{name}.{log}.log", flush=True)
            return False
        return True

    def _bipe(self, command: str, words: list[str], *, log: str, limit: float) -> None:
        plan = [f"{key}={value}" for key, value in self.plan[command].items()]
        typed = [command, "--config-dir", str(self.out / "conf"), *plan, *words]
        with (self.out / f"{log}.log").open("w") as file:
            subprocess.run(
                [sys.executable, "-m", "train.cli", *typed],
                stdout=file, stderr=subprocess.STDOUT, timeout=limit, check=True,
            )  # fmt: skip

    @property
    def _data(self) -> Path:
        return self.out / "data"

    def _tokens(self) -> dict[str, int]:
        """Count the training tokens of each source."""
        found = {}
        for name in self._sources():
            manifest = self._data / name / "train" / "manifest.json"
            found[name] = json.loads(manifest.read_text())["counts"]["tokens"]
        return found

    def _tokens_per_step(self) -> int:
        plan = self.plan["pretrain"]
        return int(plan["row_length"]) * int(plan["rows.global_batch"])

    def _write(self) -> dict[str, Any]:
        with self._lock:
            measured = {name: _rows_of(self.out / "runs" / name) for name in self.names}
            measured = {name: rows for name, rows in measured.items() if rows}
            found = self.facts | {"perplexity": _perplexities(measured), "paired": paired(measured)}
            part = self.results.with_suffix(".part")
            part.write_text(json.dumps(found, indent=1) + "\n")
            part.replace(self.results)
        return found


def _rate(path: Path) -> float | None:
    """Tokens per second over the last third of a rehearsal."""
    if not path.exists():
        return None
    with path.open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["tokens_per_second"]]
    last = [float(row["tokens_per_second"]) for row in rows[-(REHEARSED // 3) :]]
    return float(np.median(last)) if last else None


def _rows_of(run: Path) -> list[dict[str, Any]]:
    path = run / "evaluation.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def _perplexities(measured: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """Perplexity, [value, low, high], by source, model and length in tokens."""
    found: dict[str, Any] = {}
    for name, rows in measured.items():
        for row in sorted(
            (r for r in rows if r.get("measure") == "perplexity"), key=lambda r: r["length"]
        ):
            values = [round(row[key], 4) for key in ("value", "low", "high") if row.get(key)]
            found.setdefault(row["source"], {}).setdefault(name, {})[str(row["length"])] = values
    return found


def paired(measured: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """Perplexity over that of the first model, with 95% intervals drawn from the same documents."""
    losses = {name: _losses(rows) for name, rows in measured.items()}
    found: dict[str, Any] = {}
    for name in list(losses)[1:]:
        for cell, (other, tokens) in losses[name].items():
            first = losses[next(iter(losses))].get(cell)
            if first is None or len(first[0]) != len(other):
                continue
            drawn = np.random.default_rng(0).integers(len(other), size=(2000, len(other)))
            more = other - first[0]  # nats
            low, high = np.quantile(more[drawn].sum(1) / tokens[drawn].sum(1), [0.025, 0.975])
            ends = np.exp([more.sum() / tokens.sum(), low, high])
            place = found.setdefault(cell[0], {}).setdefault(name, {})
            place[str(cell[1])] = [round(float(end), 4) for end in ends]
    return found


def _losses(rows: list[dict[str, Any]]) -> dict[tuple[str, int], tuple[np.ndarray, np.ndarray]]:
    """Return the loss in nats and the scored tokens of each document, by source and length."""
    found: dict[tuple[str, int], tuple[dict[int, float], dict[int, float]]] = {}
    for row in rows:
        if row.get("measure") in ("document_nll", "document_tokens"):
            cell = found.setdefault((row["source"], row["length"]), ({}, {}))
            cell[row["measure"] == "document_tokens"][row["number"]] = row["value"]
    return {
        cell: (np.array([nll[n] for n in sorted(nll)]), np.array([of[n] for n in sorted(nll)]))
        for cell, (nll, of) in found.items()
        if nll.keys() == of.keys()
    }


def main(words: list[str] | None = None) -> None:
    """Run the command line."""
    assert __doc__ is not None
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    packing = commands.add_parser("text", help="pack the text of each source")
    packing.add_argument("folder", type=Path)
    for name in ("prose", "latex", "proofs"):
        packing.add_argument(f"--{name}", type=Path)
    packing.add_argument("--characters", type=float, default=5e7, help="of each source, at most")
    running = commands.add_parser("run", help="prepare, train and measure")
    running.add_argument("texts", type=Path)
    running.add_argument("--out", type=Path, required=True)
    running.add_argument("--seconds", type=float, default=480.0)
    running.add_argument("--results", type=Path, help="default: OUT/results.json")
    running.add_argument("--encodings", nargs="+", default=ENCODINGS)
    running.add_argument("--seeds", nargs="+", type=int, default=[0])
    running.add_argument("--plan", default="", help="overrides of the plan")
    asked = parser.parse_args(words)
    if asked.command == "text":
        given = {n: getattr(asked, n) for n in ("prose", "latex", "proofs") if getattr(asked, n)}
        pack(asked.folder, given, asked.characters)
        return
    plan = {command: dict(keys) for command, keys in PLAN.items()}
    for key, _, value in (word.partition("=") for word in shlex.split(asked.plan)):
        for command in [c for c in plan if key in plan[c]] or ["pretrain"]:
            plan[command][key] = value
    Scale(
        asked.texts, asked.out, asked.results or asked.out / "results.json",
        [f"{encoding}_{seed}" for seed in asked.seeds for encoding in asked.encodings],
        plan, asked.seconds,
    ).run()  # fmt: skip


if __name__ == "__main__":
    main()
