"""Attention paths against plain causal attention of the same shape, forward and backward.

    python -m benchmarks.attention [--time 1024 4096] [--dtype float32 bfloat16] [--json FILE]

Peer: torch's scaled_dot_product_attention with is_causal=True, interleaved with every path in the
same run. Figures are medians of CPU time (of event time on CUDA) and the ratio to the peer, with
denormal numbers flushed to 0, as in the commands of bipe, and kept, as in programs that do not call
torch.set_flush_denormal: the softmax of far keys has many in float32.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.workers import machine
from bipe import Positions
from bipe.attention.dispatch import choose_attention
from bipe.encodings import ALiBi, Bilevel, Learned, RoPE

SEGMENT = 25  # tokens
ON_CUDA = 10  # calls that are timed together


def measure(run: Callable[..., Tensor], qkv: list[Tensor], *, backward: bool = True) -> float:
    """Seconds of one forward pass, and one backward pass."""

    def once() -> None:
        total = run(*qkv).sum()
        if backward:
            total.backward()

    if qkv[0].is_cuda:
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(ON_CUDA):
            once()
        stop.record()
        torch.cuda.synchronize()
        return start.elapsed_time(stop) / 1000 / ON_CUDA
    begin = time.process_time()
    once()
    return time.process_time() - begin


def candidates(at: Positions, *, n_head: int, head_width: int) -> dict[str, Callable]:
    """Return what is timed, by name; the peer first."""
    rotation = RoPE(head_width=head_width).to(at.inter.device).rotation(at.inter)
    rotation = rotation.to(torch.float32)
    alibi = ALiBi(n_head=n_head, multiplier=96.0)
    bilevel = Bilevel(intra=Learned(width=8, length=8), inter=alibi).to(at.inter.device)
    bias = bilevel.bias(at, at)
    plain = choose_attention(bias=None, q_at=at, k_at=at)
    paths = ["flex"] if at.inter.is_cuda else ["bias_row", "banded"]
    return {
        "plain causal": lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        "BiPE-RoPE": lambda q, k, v: plain(rotation.query(q), rotation.key(k), v),
        **{
            f"BiPE-ALiBi, {path}": choose_attention(bias=bias, q_at=at, k_at=at, path=path)
            for path in (*paths, "augmented")
        },
        "BiPE-ALiBi, dense mask": choose_attention(bias=bias, q_at=at, k_at=at, path="masked"),
    }


def compare(*, length: int, dtype: torch.dtype, repeats: int, shape: tuple[int, int, int]) -> dict:
    """Medians and ratios for one length and dtype."""
    batch, n_head, head_width = shape
    device = "cuda" if torch.cuda.is_available() else "cpu"
    marks = (torch.rand(batch, length) < 1 / SEGMENT).to(torch.uint8) << 1
    at = Positions.from_marks(marks.to(device), packed=False)
    runs = candidates(at, n_head=n_head, head_width=head_width)
    qkv = [
        torch.randn(batch, length, n_head, head_width, dtype=dtype, device=device)
        .transpose(1, 2)
        .requires_grad_()
        for _ in range(3)
    ]
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for turn in range(repeats + 1):
        for name, run in runs.items():
            elapsed = measure(run, qkv)
            if turn:  # the first round warms up
                seconds[name].append(elapsed)
    medians = {name: statistics.median(times) for name, times in seconds.items()}
    peer = medians["plain causal"]
    return {name: {"milliseconds": 1000 * s, "ratio": s / peer} for name, s in medians.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--time", type=int, nargs="+", default=[1024, 4096], help="tokens")
    parser.add_argument("--dtype", nargs="+", default=["float32", "bfloat16"])
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--head-width", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    shape = (options.batch, options.heads, options.head_width)
    results: dict = {"machine": machine(), "cases": []}
    for length in options.time:
        for dtype in options.dtype:
            found = {}
            for denormals in ("kept", "flushed"):  # flushed: as commands of bipe do
                if denormals == "kept" and torch.cuda.is_available():
                    continue  # kernels of a GPU are not slower with them
                torch.set_flush_denormal(denormals == "flushed")
                found[denormals] = compare(
                    length=length, dtype=getattr(torch, dtype), repeats=options.repeats, shape=shape
                )
                case = {"time": length, "dtype": dtype, "denormals": denormals}
                results["cases"].append({**case, "paths": found[denormals]})
            print(
                f"T = {length}, {dtype}, batch x heads x width = {shape}; denormals flushed, kept"
            )
            for name, figures in found["flushed"].items():
                both = [figures, *(kept[name] for kept in [found.get("kept")] if kept)]
                shown = (f"{f['milliseconds']:9.2f} ms {f['ratio']:5.2f} x" for f in both)
                print(f"  {name:<24} {'  '.join(shown)}")
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
