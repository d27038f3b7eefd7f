"""Far methods against plain causal attention of the same shape: time and memory.

    python -m benchmarks.far [--time 4096] [--segments] [--only NAME ...] [--json FILE]

Time: CPU time of a forward and of a forward and backward pass of attention, the rotation included,
in turns with the peer: RoPE and torch's scaled_dot_product_attention with is_causal=True. Medians.
Memory: the peak of a forward and backward pass beyond what was there before, each length in a
process of its own; the exponent says how it grows (1: linear in tokens, 2: a T x T tensor).
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

from benchmarks.attention_memory import SEGMENT, WIDTH, inputs, status
from benchmarks.workers import machine, write
from bipe.attention.eager import Attention
from bipe.attention.passes import pass_attention
from bipe.encodings import Bilevel, Flat, Learned, RoPE
from bipe.encodings.far import Far
from bipe.extension import (
    Blockwise,
    Clip,
    DualChunk,
    LeakyReRoPE,
    LogN,
    ReRoPE,
    SelfExtend,
    Separators,
    Window,
)
from bipe.positions import Positions

ORIGINAL = 512  # tokens of a training row
LENGTHS = (2048, 8192)
METHODS: dict[str, Callable[[int], Far]] = {
    "ReRoPE": lambda n: ReRoPE(**ReRoPE.fitted(n)),
    "LeakyReRoPE": lambda n: LeakyReRoPE(factor=16.0, **LeakyReRoPE.fitted(n)),
    "SelfExtend": lambda n: SelfExtend(group=32, **SelfExtend.fitted(n)),
    "DualChunk": lambda n: DualChunk(**DualChunk.fitted(n)),
    "Clip": lambda n: Clip(**Clip.fitted(n)),
    "Window": lambda n: Window(**Window.fitted(n)),
    "Separators": lambda n: Separators(window=ORIGINAL),
    "Blockwise": lambda n: Blockwise(**Blockwise.fitted(n)),
    "LogN": lambda n: LogN(**LogN.fitted(n)),
}


def attention(name: str, at: Positions, *, segments: bool) -> Attention:
    """Return what is timed: the peer, or a method fitted to a training row."""
    rope = RoPE(head_width=WIDTH)
    if name not in METHODS:
        turn = rope.rotation(at.inter if segments else at.token).to(torch.float32)
        return lambda q, k, v: F.scaled_dot_product_attention(
            turn.query(q), turn.key(k), v, is_causal=True
        )
    far = METHODS[name](ORIGINAL // SEGMENT if segments else ORIGINAL)
    scheme = (
        Bilevel(intra=Learned(width=8, length=8), inter=rope, far=far)
        if segments
        else Flat(encoding=rope, far=far)
    )
    return pass_attention(scheme, q_at=at, k_at=at, dtype=torch.float32)


def times(
    names: list[str], length: int, *, segments: bool, rounds: int
) -> dict[str, dict[str, float]]:
    """Ratios to the peer, forward and with the backward pass."""
    qkv, at = inputs(length)
    runs = {name: attention(name, at, segments=segments) for name in names}
    forward: dict[str, list[float]] = {name: [] for name in runs}
    both: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds + 1):
        for name, run in runs.items():
            begin = time.process_time()
            with torch.no_grad():
                run(*qkv)
            middle = time.process_time()
            run(*qkv).sum().backward()
            forward[name].append(middle - begin)
            both[name].append(time.process_time() - middle)
    found = {}
    for name in runs:
        ratios = [
            statistics.median(each[name][1:]) / statistics.median(each["plain"][1:])
            for each in (forward, both)
        ]
        found[name] = {"forward": ratios[0], "forward_and_backward": ratios[1]}
        print(f"T={length} {name:<12} forward {ratios[0]:.2f} x, with backward {ratios[1]:.2f} x")
    return found


def peak(name: str, length: int, segments: bool) -> float:
    """MiB beyond inputs that a forward and backward pass needs at most."""
    torch.set_num_threads(1)
    warm, at = inputs(256)
    attention(name, at, segments=segments)(*warm).sum().backward()
    qkv, at = inputs(length)
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew here
    before = status("VmRSS")
    attention(name, at, segments=segments)(*qkv).sum().backward()
    return (status("VmHWM") - before) / 1024


def memory(names: list[str], *, segments: bool) -> dict[str, dict[str, Any]]:
    found = {}
    for name in names:
        sizes = []
        for length in LENGTHS:
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                sizes.append(pool.apply(peak, (name, length, segments)))
        exponent = math.log(sizes[-1] / sizes[0]) / math.log(LENGTHS[-1] / LENGTHS[0])
        found[name] = {"mib": dict(zip(LENGTHS, sizes, strict=True)), "exponent": exponent}
        shown = "  ".join(f"T={t}: {mib:.0f} MiB" for t, mib in found[name]["mib"].items())
        print(f"{name:<12} {shown}  exponent {exponent:.2f}", flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--time", type=int, default=4096, help="tokens")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--segments", action="store_true", help="distances of segments")
    parser.add_argument("--only", nargs="+", default=[*METHODS], choices=[*METHODS])
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    names = ["plain", *options.only]
    results = {
        "machine": machine(),
        "times": times(names, options.time, segments=options.segments, rounds=options.rounds),
        "memory": memory(names, segments=options.segments),
    }
    write(options.json, results)


if __name__ == "__main__":
    main()
