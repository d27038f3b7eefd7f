"""Synthetic runs and data for the report's tests: plausible shapes, seeded noise.

None of these numbers was measured; they only look like measurements.
"""

import json
import math
import random
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from safetensors.numpy import save_file

from bipe.checkpoint import write_config
from train.evals.rows import FILE, Journal, Row
from train.fit.checkpoints import Place
from train.report.load import load

MODELS = (("RoPE", False), ("RoPE", True), ("ALiBi", False), ("ALiBi", True))
SOURCES = ("prose", "code")
LENGTHS = (512, 1024, 8192)
DEPTHS = (0.0, 0.5, 1.0)
EDGES = (1, 4, 16, 64)
ENVIRONMENT = {"bipe": "0.1.0", "cpu": "Example CPU", "threads": 2, "created": "2026-01-31"}


@dataclass
class Made:
    """A run folder to be written: change what a test is about."""

    name: str
    family: str = "RoPE"
    bilevel: bool = False
    seed: int | None = 0
    rows: list[Row] = field(default_factory=list)
    config: dict = field(default_factory=dict)
    notes: dict = field(default_factory=lambda: {
        "row_length": 512, "tokens": 1_536_000, "steps": 188, "sources": {"prose": 3, "code": 1},
        "skipped_steps": 0,
    })  # fmt: skip
    losses: tuple = (5.0, 4.0, 3.5)
    environment: dict = field(default_factory=lambda: dict(ENVIRONMENT))
    width: int = 8

    def change(self, measure, value, **at):
        """Replace the value of the rows of a measure at a place."""
        self.rows = [
            replace(row, value=value, low=None, high=None)
            if row.measure == measure and all(getattr(row, k) == v for k, v in at.items()) else row
            for row in self.rows
        ]  # fmt: skip
        return self

    def write(self, folder: Path) -> Path:
        inter = {"_target_": f"bipe.encodings.{self.family}", "head_width": 4}
        learned = {"_target_": "bipe.encodings.Learned", "width": 8, "length": 8}
        both = {"_target_": "bipe.encodings.Bilevel", "intra": learned, "inter": inter}
        decoder = {"width": self.width, "encoding": both if self.bilevel else inter}
        (folder / "model").mkdir(parents=True)
        save_file({"w": np.zeros((4, 2), np.float32)}, folder / "model" / "model.safetensors")
        write_config(folder / "model", {"decoder": decoder, "notes": self.notes})
        seed = {} if self.seed is None else {"seed": self.seed}
        (folder / "config.yaml").write_text(json.dumps(seed | self.config))
        head = "tokens,loss,seconds,clamped_share,peak_memory_gib\n"
        lines = [f"{8192 * (i + 1)},{loss},{10.0 * (i + 1)},0.1,{1.25 - 0.25 * (i % 2)}\n"
                 for i, loss in enumerate(self.losses)]  # fmt: skip
        (folder / "metrics.csv").write_text(head + "".join(lines))
        if self.rows:
            Journal(folder / FILE).append("cell", self.rows)
            (folder / "environment.json").write_text(json.dumps(self.environment))
        return folder


@pytest.fixture
def make(tmp_path):
    """Makers of runs, of folders of them, of the results of these, and of a data folder."""

    def folders(*made, place="runs"):
        return [one.write(tmp_path / place / one.name) for one in made or four()]

    def data(content=None):
        folder = tmp_path / "data"
        folder.mkdir(parents=True)
        for name, held in (content or statistics()).items():
            (folder / f"{name}.json").write_text(json.dumps(held))
        return folder

    return SimpleNamespace(
        run=run, four=four, folders=folders, data=data, statistics=statistics, Made=Made,
        results=lambda *made, **told: load(map(Place.of, folders(*made)), **told),
    )  # fmt: skip


def four() -> list[Made]:
    """RoPE and ALiBi, flat and bilevel."""
    return [run(family, bilevel) for family, bilevel in MODELS]


def run(family="RoPE", bilevel=False, *, seed=0, name=None, factor=1.0, sources=SOURCES) -> Made:
    """Return a run with perplexity, loss by position, a passkey and the cost of its training."""
    draw = random.Random(f"{family} {bilevel} {seed}")
    rows = []
    for source in sources:
        base = 40 * factor * draw.uniform(0.95, 1.05)
        for octave, length in enumerate(LENGTHS):
            value = base * 1.2**octave
            at = Row(source=source, length=length, measure="", value=None, note="Windows of text.")
            for measure, unit, number in (
                ("nll", "nats/token", math.log(value)), ("documents", "documents", 12),
                ("bits_per_byte", "bits/byte", math.log2(value) / 3.4),
                ("tokens_scored", "tokens", 12 * length),
            ):  # fmt: skip
                rows.append(replace(at, measure=measure, unit=unit, value=number))
            rows.append(replace(at, measure="perplexity", value=value, low=value * 0.9,
                                high=value * 1.1))  # fmt: skip
        for start, stop in pairwise((0, 256, 512, 4096, 8192)):
            at = Row(source=source, length=8192, start=start, stop=stop, measure="nll_by_position",
                     unit="nats/token", value=math.log(base) + 1 / (1 + start))  # fmt: skip
            rows += [at, replace(at, measure="tokens_by_position", value=12 * (stop - start))]
    rows += probe("passkey", [[draw.randint(0, 10) / 10 for _ in DEPTHS] for _ in LENGTHS])
    label = f"bipe_{family}" if bilevel else family
    return Made(name=name or f"{label}_{seed}".lower(), family=family, bilevel=bilevel, seed=seed,
                rows=rows, config={"model": label, "steps": 188})  # fmt: skip


def probe(task, accuracy, *, lengths=LENGTHS, depths=DEPTHS, **other):
    """Return the rows of a probe; other: further measures, one number for all cells."""
    rows = []
    for length, line in zip(lengths, accuracy, strict=True):
        for depth, value in zip(depths, line, strict=True):
            at = Row(task=task, source="prose", length=length, depth=depth, measure="accuracy",
                     unit="share", value=value, note="Five digits <hidden>.")  # fmt: skip
            rows += [at, replace(at, measure="trials", unit="trials", value=10),
                     replace(at, measure="chance", value=0.1)]  # fmt: skip
            rows += [replace(at, measure=name, unit="", value=held) for name, held in other.items()]
    return rows


def statistics(*, sources=SOURCES):
    """Return the contents of statistics.json and of manifest.json, as the report reads them."""
    lengths = {"segments": 100, "mean": 12.5, "percentiles": {"5": 2, "50": 10, "95": 40},
               "max": 70, "share_of_length_1": 0.01, "histogram": [10, 50, 35, 5]}  # fmt: skip
    buckets = [{"from": low, "to": high, "documents": 20, "segments_per_document": low / 12.5,
                **lengths} for low, high in ((1, 256), (256, 512), (512, None))]  # fmt: skip
    text, cuts = "The lamp was lit. Nobody  saw\tit!\n\u201cWho?\u201d\n", [0, 18, 34, 41]
    sample = {"document": "a/0001", "split": "test", "text": text, "cuts": cuts}
    split = {"documents": 400, "tokens": 800_000, "bytes": 3_000_000}
    stated = {
        "licence": "public domain",
        "provenance": "made up by a test",
        "segmenter": {"segmenter": "rules"},
        "splits": {"train": split, "test": split},
    }
    held = {"tokens_per_segment": lengths, "by_document_length": buckets, "sample": sample}
    whole = {"statistics": {"segment_edges": list(EDGES), "sources": dict.fromkeys(sources, held)},
             "manifest": {"sources": dict.fromkeys(sources, stated)}}  # fmt: skip
    return json.loads(json.dumps(whole))
