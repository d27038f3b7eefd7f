"""Attention against plain causal attention of the same shape: time and memory.

    python -m benchmarks.attention [paths] [--time 1024 4096] [--documents 6]
    python -m benchmarks.attention encodings [--time 8192] [--only "kerple, segments" ...]
    python -m benchmarks.attention far [--segments]
        [--dtype float32 bfloat16] [--denormals flushed kept] [--memory 2048 8192] [--json FILE]

paths: of BiPE-RoPE and BiPE-ALiBi. encodings: those with a bias, over tokens and over segments.
far: methods for long texts, fitted to rows of 512 tokens; the rotation included, in the peer too.

Peer: torch's scaled_dot_product_attention with is_causal=True, interleaved with every candidate in
the same run. Figures are medians of CPU time (of event time on CUDA), forward and with the backward
pass, and the ratio to the peer, with denormal numbers flushed to 0, as in the commands of bipe, and
kept, as in programs that do not call torch.set_flush_denormal: the softmax of far keys has many in
float32. --documents: in each row. --memory: the peak of a forward and backward pass beyond what was
there before, each length in a process of its own; the exponent says how it grows from the shortest
to the longest (1: linear in tokens, 2: a T x T tensor).
"""

from __future__ import annotations

import argparse
import functools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.models import described
from benchmarks.workers import alone, chosen, cpu_seconds, machine, medians, parser_of, write
from bipe import Positions
from bipe.attention.dispatch import InLayer, choose_attention
from bipe.attention.heads import Attention
from bipe.attention.passes import pass_attention
from bipe.build import build
from bipe.encodings import ALiBi, Bilevel, Flat, Learned, NoPE, RoPE
from bipe.extension import distances

SEGMENT, ORIGINAL = 25, 512  # tokens: of a segment, and of a training row
ON_CUDA = 10  # calls that are timed together
PEER = "plain causal"
ON_CPU, ON_GPU = (("bias_row", "banded", "augmented", "masked"), ("flex", "augmented", "masked"))
KINDS = "t5 kerple kerple_power sandwich fire tupe alibi fox cable"
KINDS += " shaw transformer_xl xlnet tener deberta cope"
FAR: dict[str, dict[str, Any]] = {
    "ReRoPE": {},
    "LeakyReRoPE": {"factor": 16.0},
    "SelfExtend": {"group": 32},
    "DualChunk": {},
    "Clip": {},
    "Window": {},
    "Separators": {"window": ORIGINAL},
    "Blockwise": {},
    "LogN": {},
}
Make = Callable[[str, Positions, argparse.Namespace], Attention]


def path_of(name: str, at: Positions, given: argparse.Namespace) -> Attention:
    """Return BiPE-RoPE, or BiPE-ALiBi by a path; what it needs is made once for all layers."""
    choose = functools.partial(choose_attention, q_at=at, k_at=at)
    if name == "BiPE-RoPE":
        rope = RoPE(head_width=given.head_width).to(at.inter.device)
        turn, plain = rope.rotation(at.inter).to(torch.float32), choose(bias=None)
        return lambda q, k, v: plain(turn.query(q), turn.key(k), v)
    alibi = ALiBi(n_head=given.heads, multiplier=96.0).to(at.inter.device)
    return choose(bias=alibi.bias(at.inter, at.inter), path=name.removeprefix("BiPE-ALiBi, "))


def encoding_of(name: str, at: Positions, given: argparse.Namespace) -> Attention:
    """Return all that a layer does between its projections, biases included."""
    name, _, over = name.partition(", ")
    width = given.heads * given.head_width
    encoding = build(described(name, 512, width=width, n_head=given.heads, n_layer=1))
    encoding.to(at.inter.device)
    scheme = Bilevel(intra=NoPE(), inter=encoding) if over else Flat(encoding=encoding)
    x = torch.randn(*at.inter.shape, width, device=at.inter.device)

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        bias = scheme.bias(at, at)
        if bias is not None and any(leaf.layered for leaf in bias.leaves()):
            layer = InLayer(bias=bias, q_at=at, k_at=at, path="auto", layer=0)
            return layer(q, layer.with_gates(k, x), v)
        return choose_attention(bias=bias, q_at=at, k_at=at)(q, k, v)

    return attend


def far_of(name: str, at: Positions, given: argparse.Namespace) -> Attention:
    """Return a method fitted to a training row, or the peer with its rotation."""
    rope = RoPE(head_width=given.head_width).to(at.inter.device)
    if name == PEER:
        turn = rope.rotation(at.inter if given.segments else at.token).to(torch.float32)
        return lambda q, k, v: plain(turn.query(q), turn.key(k), v)
    kind = getattr(distances, name)
    fitted = kind.fitted(ORIGINAL // SEGMENT if given.segments else ORIGINAL)
    far = kind(**{**fitted, **FAR[name]})
    scheme: Any = Flat(encoding=rope, far=far)
    if given.segments:
        scheme = Bilevel(intra=Learned(width=8, length=8), inter=rope, far=far)
    return pass_attention(scheme, q_at=at, k_at=at, dtype=torch.float32)


def plain(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def candidate(name: str, at: Positions, given: argparse.Namespace) -> Attention:
    makers: dict[str, Make] = {"paths": path_of, "encodings": encoding_of, "far": far_of}
    return plain if name == PEER and given.of != "far" else makers[given.of](name, at, given)


def names_of(given: argparse.Namespace) -> list[str]:
    paths = ON_GPU if torch.cuda.is_available() else ON_CPU
    if torch.cuda.is_available() and given.documents > 1:
        paths = ("flex", "masked")  # the other one has no mask
    known = {
        "paths": ["BiPE-RoPE", *(f"BiPE-ALiBi, {path}" for path in paths)],
        "encodings": [f"{kind}{over}" for kind in KINDS.split() for over in ("", ", segments")],
        "far": [*FAR],
    }[given.of]
    return [PEER, *chosen(known, given.only)]


def inputs(
    length: int, dtype: torch.dtype, given: argparse.Namespace
) -> tuple[list[Tensor], Positions]:
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    marks = (torch.rand(given.batch, length) < 1 / SEGMENT).to(torch.uint8) << 1
    marks[:, torch.arange(given.documents) * length // given.documents] = 3
    at = Positions.from_marks(marks.to(device), packed=given.documents > 1)
    shape = given.batch, length, given.heads, given.head_width
    qkv = [torch.randn(shape, dtype=dtype, device=device).transpose(1, 2) for _ in range(3)]
    return [x.requires_grad_() for x in qkv], at


def passed(run: Attention, qkv: list[Tensor], *, backward: bool) -> None:
    with torch.set_grad_enabled(backward):
        out = run(*qkv)
    if backward:
        out.sum().backward()


def seconds(run: Callable[[], object]) -> float:
    """Return the CPU time of a call, or the time of the device."""
    if not torch.cuda.is_available():
        return cpu_seconds(run)
    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(ON_CUDA):
        run()
    stop.record()
    torch.cuda.synchronize()
    return float(start.elapsed_time(stop)) / 1000 / ON_CUDA


def times(length: int, dtype: torch.dtype, given: argparse.Namespace) -> dict[str, dict]:
    """Return for each candidate milliseconds and ratios, forward and with the backward pass."""
    qkv, at = inputs(length, dtype, given)
    found: dict[str, dict] = {name: {} for name in names_of(given)}
    runs = [candidate(name, at, given) for name in found]
    for kind, backward in (("forward", False), ("both", True)):
        calls = [functools.partial(passed, run, qkv, backward=backward) for run in runs]
        took = medians(*calls, rounds=given.repeats, seconds=seconds)
        for each, own in zip(found.values(), took, strict=True):
            each[kind] = {"milliseconds": 1000 * own, "ratio": own / took[0]}
    return found


def peak(name: str, length: int, given: argparse.Namespace) -> float:
    """Return MiB beyond inputs that a forward and backward pass needs at most."""
    torch.set_num_threads(1)
    for size in (256, length):
        qkv, at = inputs(size, torch.float32, given)
        run = candidate(name, at, given)
        Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew here
        before = status("VmRSS")
        passed(run, qkv, backward=True)
    return (status("VmHWM") - before) / 1024


def status(name: str) -> int:
    """Return a figure of this process in KiB (Linux)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name))


def memory(name: str, given: argparse.Namespace) -> dict[str, Any]:
    sizes = {length: alone(peak, name, length, given) for length in given.memory}
    (first, less), *_, (last, more) = sizes.items()
    exponent = math.log(more / less) / math.log(last / first)
    shown = "  ".join(f"T={length}: {mib:.0f} MiB" for length, mib in sizes.items())
    print(f"  {name:<24} {shown}  exponent {exponent:.2f}", flush=True)
    return {"mib": sizes, "exponent": exponent}


def main() -> None:
    numbers = {"batch": 1, "heads": 8, "head_width": 64, "documents": 1}
    parser = parser_of(__doc__, **numbers, repeats=5, threads=1)
    parser.add_argument("of", nargs="?", choices=["paths", "encodings", "far"], default="paths")
    parser.add_argument("--time", type=int, nargs="+", default=[1024, 4096], help="tokens")
    parser.add_argument("--dtype", nargs="+", default=["float32", "bfloat16"])
    parser.add_argument("--denormals", nargs="+", default=["flushed", "kept"])
    parser.add_argument("--segments", action="store_true", help="distances of segments")
    parser.add_argument("--only", nargs="+", help="names of candidates")
    parser.add_argument("--memory", type=int, nargs="+", default=[], help="two or more lengths")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    results: dict[str, Any] = {"machine": machine(), "cases": []}
    # Kernels of a GPU are not slower with denormal numbers.
    denormals = given.denormals[:1] if torch.cuda.is_available() else given.denormals
    for length in given.time:
        for dtype in given.dtype:
            for kind in denormals:
                torch.set_flush_denormal(kind == "flushed")
                found = times(length, getattr(torch, dtype), given)
                case = {"time": length, "dtype": dtype, "denormals": kind, "paths": found}
                results["cases"].append(case)
                print(f"T = {length}, {dtype}, denormals {kind}: forward, with backward")
                for name, each in found.items():
                    shown = (
                        f"{x['milliseconds']:9.2f} ms {x['ratio']:5.2f} x" for x in each.values()
                    )
                    print(f"  {name:<24} {'  '.join(shown)}", flush=True)
    if given.memory:
        results["memory"] = {name: memory(name, given) for name in names_of(given)}
    write(given.json, results)


if __name__ == "__main__":
    main()
