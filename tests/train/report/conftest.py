"""Synthetic run folders and statistics for the report's tests: plausible shapes, seeded noise.

None of these numbers was measured; they only look like measurements.
"""

import json
import math
import random
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from train.report.load import load_runs, load_statistics

MODELS = (("RoPE", "flat"), ("RoPE", "bilevel"), ("ALiBi", "flat"), ("ALiBi", "bilevel"))
SOURCES = ("prose", "code", "proofs")
LENGTHS = (512, 1024, 2048, 4096, 8192)
DEPTHS = (0.0, 0.25, 0.5, 0.75, 1.0)
_BASE = {"prose": 42.0, "code": 7.5, "proofs": 4.8}
_RISE = {("RoPE", "flat"): 0.42, ("RoPE", "bilevel"): 0.16}  # growth an octave
_EDGES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)


@pytest.fixture
def make(tmp_path):
    """Makers of synthetic inputs: contents, folders of this test, and loaded records."""

    def runs(*evaluations):
        return write_runs(tmp_path / "runs", list(evaluations) or four())

    def data(content=None):
        return write_data(tmp_path / "data", content or statistics())

    return SimpleNamespace(
        evaluation=evaluation,
        statistics=statistics,
        four=four,
        runs=runs,
        data=data,
        loaded=lambda *evaluations: load_runs(runs(*evaluations)),
        loaded_data=lambda content=None: load_statistics(data(content)),
    )


def four() -> list[dict[str, Any]]:
    """RoPE and ALiBi, flat and bilevel."""
    return [evaluation(family=family, levels=levels) for family, levels in MODELS]


def evaluation(
    *,
    family: str = "RoPE",
    levels: str = "flat",
    name: str | None = None,
    sources: tuple[str, ...] = SOURCES,
    seed: int = 0,
    passkey: bool = True,
) -> dict[str, Any]:
    """The content of one evaluation.json."""
    draw = random.Random(f"{family} {levels} {seed}")
    label = name or (family if levels == "flat" else f"BiPE-{family}")
    rise = _RISE.get((family, levels), 0.03)
    return {
        "format": "bipe-evaluation/1",
        "model": {
            "name": label,
            "encoding": {"_target_": f"bipe.encodings.{levels}", "inter": {"theta": 10000.0}},
            "levels": levels,
            "family": family,
            "parameters": 1_320_000 + 16_384 * (levels == "bilevel"),
            "config": {"n_layer": 4, "n_head": 4, "width": 128},
        },
        "training": {
            "row_length": 512,
            "tokens": 1_536_000,
            "steps": 188,
            "seconds": draw.uniform(95, 130),
            "seed": seed,
            "sources": {source: 1 / len(sources) for source in sources},
            "curve": [
                [8192 * step, 2.6 + 5.6 * math.exp(-step / 34) + draw.gauss(0, 0.05)]
                for step in range(1, 188, 3)
            ],
            "skipped_steps": 0,
            "clipped_share": draw.uniform(0, 0.3),
        },
        "perplexity": {
            "protocol": "Documents of at least the length, cut to it; every token weighs the same.",
            "sources": {source: _scores(source, rise, draw) for source in sources},
        },
        "passkey": _passkey(rise, draw) if passkey else None,
        "environment": {
            "python": "3.11.9",
            "torch": "2.13.0",
            "lightning": "2.6.6",
            "platform": "Linux",
            "cpu": "Example CPU at 2.0 GHz",
            "threads": 2,
            "bipe": "0.1.0",
            "created": "2026-01-31T12:00:00Z",
        },
        "config": {
            "seed": seed,
            "model": {"encoding": label, "width": 128},
            "trainer": {"max_steps": 188, "precision": "32"},
        },
    }


def statistics(*, sources: tuple[str, ...] = SOURCES) -> dict[str, Any]:
    """The contents of statistics.json and of manifest.json, as far as the report reads them."""
    draw = random.Random("statistics")
    return {
        "statistics": {
            "segment_edges": list(_EDGES),
            "sources": {source: _source(source, draw) for source in sources},
        },
        "manifest": {"sources": {source: _told(source) for source in sources}},
    }


def write_runs(folder: Path, evaluations: list[dict[str, Any]]) -> list[Path]:
    """One run folder an evaluation, in their order."""
    runs = []
    for index, held in enumerate(evaluations):
        run = folder / f"run{index}"
        run.mkdir(parents=True)
        (run / "evaluation.json").write_text(json.dumps(held), encoding="utf-8")
        runs.append(run)
    return runs


def write_data(folder: Path, held: dict[str, Any]) -> Path:
    """A data folder with its statistics.json and manifest.json."""
    folder.mkdir(parents=True)
    for name, content in held.items():
        (folder / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
    return folder


def _scores(source: str, rise: float, draw: random.Random) -> dict[str, Any]:
    base = _BASE.get(source, 20.0) * draw.uniform(0.95, 1.1)
    perplexity = [base * math.exp(rise * i) * draw.uniform(0.98, 1.02) for i in range(5)]
    edges = [0, 16, 32, 64, 128, 256, 512, *range(1024, 8193, 512)]
    middles = [(a + b) / 2 for a, b in pairwise(edges)]
    return {
        "lengths": list(LENGTHS),
        "perplexity": perplexity,
        "bits_per_byte": [math.log2(value) / 3.4 for value in perplexity],
        "nll": [math.log(value) for value in perplexity],
        "tokens_scored": [length * 12 for length in LENGTHS],
        "documents": [12] * 5,
        "by_position": {
            "length": 8192,
            "edges": edges,
            "nll": [_nll(base, rise, middle) + draw.gauss(0, 0.04) for middle in middles],
            "tokens": [12 * (b - a) for a, b in pairwise(edges)],
        },
    }


def _nll(base: float, rise: float, position: float) -> float:
    return math.log(base) + 1.5 / math.sqrt(position) + rise * max(0, math.log2(position / 512))


def _passkey(rise: float, draw: random.Random) -> dict[str, Any]:
    def share(length: int, depth: float) -> float:
        found = 0.95 * math.exp(-rise * 3 * math.log2(length / 512)) * (0.6 + 0.4 * depth)
        return round(10 * max(0.05, min(1, found + draw.gauss(0, 0.08)))) / 10

    accuracy = [[share(length, depth) for depth in DEPTHS] for length in LENGTHS]
    return {
        "protocol": "Five digits hidden at a depth; greedy decoding.",
        "lengths": list(LENGTHS),
        "depths": list(DEPTHS),
        "accuracy": accuracy,
        "exact": [[round(cell**3, 1) for cell in row] for row in accuracy],
        "trials": 10,
        "chance": 0.1,
    }


def _told(source: str) -> dict[str, Any]:
    split = {"documents": 400, "tokens": 800_000, "segments": 33_000, "bytes": 3_000_000}
    return {
        "licence": "public domain",
        "provenance": "made up by a test",
        "segmenter": {"segmenter": f"{source} rules", "version": 1},
        "splits": dict.fromkeys(("train", "validation", "test"), split),
    }


def _source(source: str, draw: random.Random) -> dict[str, Any]:
    centre = {"prose": 3.1, "code": 2.3, "proofs": 2.8}.get(source, 2.6)
    text, cuts = _sample(source)
    edges = (1, *(2**power for power in range(8, 16)), None)
    return {
        "tokens_per_segment": _distribution(centre, draw),
        "by_document_length": [
            _bucket(low, high, _distribution(centre, draw), draw) for low, high in pairwise(edges)
        ],
        "sample": {"document": f"{source}/0001", "split": "test", "text": text, "cuts": cuts},
    }


def _bucket(
    low: int, high: int | None, lengths: dict[str, Any], draw: random.Random
) -> dict[str, Any]:
    each = (low + (high or 3 * low)) / 2 / lengths["mean"]
    documents = draw.randint(20, 400)
    return {
        "from": low,
        "to": high,
        "documents": documents,
        "segments_per_document": each,
        **lengths,
    }


def _distribution(centre: float, draw: random.Random) -> dict[str, Any]:
    lengths = sorted(max(1, round(draw.lognormvariate(centre, 0.65))) for _ in range(4000))
    above = (*_EDGES[1:], math.inf)
    return {
        "segments": len(lengths),
        "mean": sum(lengths) / len(lengths),
        "percentiles": {str(rank): lengths[40 * rank - 1] for rank in (5, 50, 95)},
        "max": lengths[-1],
        "share_of_length_1": lengths.count(1) / len(lengths),
        "histogram": [
            sum(low <= length < high for length in lengths)
            for low, high in zip(_EDGES, above, strict=True)
        ],
    }


def _sample(source: str) -> tuple[str, list[int]]:
    pieces = {
        "code": [
            "def area(radius):\n",
            "    square = radius ** 2\n",
            "\n",
            "\treturn pi * square\n",
        ],
        "proofs": ["(2+3)*4-6/2 =", " 5*4-6/2 =", " 20-6/2 =", " 20-3 =", " 17\n"],
    }.get(
        source,
        ["The lamp was lit. ", "Nobody had seen it done!  ", "\u201cWho?\u201d she said.\n\n"],
    )
    pieces = pieces * 5
    cuts = [0]
    for piece in pieces:
        cuts.append(cuts[-1] + len(piece))
    return "".join(pieces), cuts
