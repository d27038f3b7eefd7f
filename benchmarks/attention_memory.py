"""Memory and packing: what attention paths hold beyond their inputs, and what packed rows cost.

    python -m benchmarks.attention_memory [--documents 6] [--json FILE]

Memory: the peak of a forward and backward pass beyond what was there before, each length in a
process of its own; the exponent says how it grows from the shortest to the longest (1: linear in
tokens, 2: a T x T tensor). Packing: the time of a row of several documents against plain causal
attention over the whole row (torch's scaled_dot_product_attention), CPU time, in turns.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import statistics
import time
from pathlib import Path

import torch
import torch.nn.functional as F

from benchmarks.workers import machine, write
from bipe import Positions
from bipe.attention.dispatch import choose_attention
from bipe.encodings import ALiBi

HEADS, WIDTH, SEGMENT = 8, 64, 25
PATHS = ("plain causal", "causal", "bias_row", "banded", "augmented", "masked")
LENGTHS = (2048, 4096, 8192)
_PACKED_LENGTH = 2048


def attention(path: str, at: Positions):  # type: ignore[no-untyped-def]
    """Return the attention of a path, with BiPE-ALiBi's bias where the path takes one."""
    if path == "plain causal":
        return lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True)
    bias = None
    if path != "causal":
        bias = ALiBi(n_head=HEADS, multiplier=96.0).bias(at.inter, at.inter)
    return choose_attention(bias=bias, q_at=at, k_at=at, path=path)


def inputs(length: int, *, documents: int = 1) -> tuple[list[torch.Tensor], Positions]:
    torch.manual_seed(0)
    marks = (torch.rand(1, length) < 1 / SEGMENT).to(torch.uint8) << 1
    marks[0, torch.arange(documents) * length // documents] = 3
    at = Positions.from_marks(marks, packed=documents > 1)
    rows = torch.randn(3, 1, length, HEADS, WIDTH).transpose(2, 3)
    return [x.clone().requires_grad_() for x in rows], at


def peak(path: str, length: int) -> float:
    """MiB beyond inputs that a forward and backward pass needs at most."""
    torch.set_num_threads(1)
    warm, at = inputs(256)
    attention(path, at)(*warm).sum().backward()
    qkv, at = inputs(length)
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew here
    before = status("VmRSS")
    attention(path, at)(*qkv).sum().backward()
    return (status("VmHWM") - before) / 1024


def status(name: str) -> int:
    """Return a figure of this process in KiB (Linux)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name))


def memory() -> dict[str, dict]:
    found = {}
    for path in PATHS:
        sizes = []
        for length in LENGTHS:
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                sizes.append(pool.apply(peak, (path, length)))
        exponent = math.log(sizes[-1] / sizes[0]) / math.log(LENGTHS[-1] / LENGTHS[0])
        found[path] = {"mib": dict(zip(LENGTHS, sizes, strict=True)), "exponent": exponent}
        shown = "  ".join(f"T={t}: {mib:.0f} MiB" for t, mib in found[path]["mib"].items())
        print(f"{path:<14} {shown}  exponent {exponent:.2f}", flush=True)
    return found


def packing(documents: int, *, rounds: int = 7) -> dict[str, float]:
    qkv, at = inputs(_PACKED_LENGTH, documents=documents)
    runs = {path: attention(path, at) for path in ("plain causal", "causal", "banded")}
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds + 1):
        for name, run in runs.items():
            begin = time.process_time()
            run(*qkv).sum().backward()
            seconds[name].append(time.process_time() - begin)
    medians = {name: statistics.median(each[1:]) for name, each in seconds.items()}
    ratios = {name: s / medians["plain causal"] for name, s in medians.items()}
    for name, title in (("causal", "BiPE-RoPE"), ("banded", "BiPE-ALiBi")):
        print(f"{documents} documents, T={_PACKED_LENGTH}, {title}: {ratios[name]:.2f} x")
    return ratios


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--documents", type=int, default=6)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    results = {"machine": machine(), "packing": packing(options.documents), "memory": memory()}
    write(options.json, results)


if __name__ == "__main__":
    main()
