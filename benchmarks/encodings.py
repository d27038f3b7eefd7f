"""Attention of every encoding against plain causal attention of the same shape: time and memory.

    python -m benchmarks.encodings [--time 8192] [--encodings kerple t5] [--levels flat bilevel]

Peer: torch's scaled_dot_product_attention with is_causal=True, interleaved with each encoding in
the same run. Figures are medians of CPU time, forward alone and with the backward pass, the ratio
to the peer, and the most memory that a process of its own took beyond queries, keys and values.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from hydra import compose, initialize_config_module
from omegaconf import OmegaConf
from torch import Tensor

from benchmarks.workers import machine
from bipe import Positions
from bipe.attention.dispatch import InLayer, choose_attention
from bipe.build import build
from bipe.encodings import Bilevel, Encoding, NoPE
from bipe.encodings.base import as_scheme
from train.launch.composition import register_resolvers

SEGMENT = 25  # tokens
KINDS = "t5 kerple kerple_power sandwich fire tupe alibi fox cable"
KINDS += " shaw transformer_xl xlnet tener deberta cope"


def scheme_of(name: str, level: str, options: argparse.Namespace) -> Any:
    """Return an encoding of conf/encoding over tokens, or over segments."""
    register_resolvers()
    width = options.heads * options.head_width
    sizes = {"model.width": width, "model.n_head": options.heads, "model.n_layer": 1}
    words = [f"+encoding={name}", "+row_length=512", *(f"+{k}={v}" for k, v in sizes.items())]
    with initialize_config_module("conf", version_base=None):
        found = OmegaConf.to_container(compose(overrides=words), resolve=True)
    encoding = build(found["encoding"])
    if level == "bilevel" and isinstance(encoding, Encoding):
        return Bilevel(intra=NoPE(), inter=encoding)
    return as_scheme(encoding)


def attention_of(scheme: Any, at: Positions, x: Tensor) -> Callable[..., Tensor]:
    """Return all that a layer does between its projections, biases included."""

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        bias = scheme.bias(at, at)
        if bias is not None and any(leaf.layered for leaf in bias.leaves()):
            layer = InLayer(bias=bias, q_at=at, k_at=at, path="auto", layer=0)
            return layer(q, layer.with_gates(k, x), v)
        return choose_attention(bias=bias, q_at=at, k_at=at)(q, k, v)

    return attend


def seconds(attend: Callable[..., Tensor], qkv: list[Tensor], *, backward: bool) -> float:
    begin = time.process_time()
    if backward:
        attend(*qkv).sum().backward()
    else:
        with torch.no_grad():
            attend(*qkv)
    return time.process_time() - begin


def inputs(options: argparse.Namespace) -> tuple[Positions, Tensor, list[Tensor]]:
    torch.manual_seed(0)
    marks = (torch.rand(1, options.time) < 1 / SEGMENT).to(torch.uint8) << 1
    shape = 1, options.time, options.heads, options.head_width
    qkv = [torch.randn(shape).transpose(1, 2).requires_grad_() for _ in range(3)]
    x = torch.randn(1, options.time, options.heads * options.head_width)
    return Positions.from_marks(marks, packed=False), x, qkv


def measured(name: str, level: str, options: argparse.Namespace) -> dict[str, float]:
    at, x, qkv = inputs(options)
    own = attention_of(scheme_of(name, level, options), at, x)
    runs = {"plain": lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True)}
    runs["own"] = own
    found = {}
    for backward in (False, True):
        times: dict[str, list[float]] = {"plain": [], "own": []}
        for turn in range(options.repeats + 1):
            for which, run in runs.items():
                elapsed = seconds(run, qkv, backward=backward)
                if turn:  # the first round warms up
                    times[which].append(elapsed)
        medians = {which: statistics.median(each) for which, each in times.items()}
        key = "forward_and_backward" if backward else "forward"
        found[key] = round(medians["own"] / medians["plain"], 3)
        found[f"{key}_milliseconds"] = round(1000 * medians["own"])
    return found


def memory(name: str, level: str, options: argparse.Namespace) -> float:
    """Return the megabytes that one pass takes at most, in this fresh process."""
    at, x, qkv = inputs(options)
    attend = attention_of(scheme_of(name, level, options), at, x)
    short = Positions(
        **{n: getattr(at, n)[:, :64] for n in ("document", "token", "inter", "intra")}
    )
    small = [each[:, :, :64].detach().requires_grad_() for each in qkv]
    attention_of(scheme_of(name, level, options), short, x[:, :64])(*small).sum().backward()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    attend(*qkv).sum().backward()
    return round((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--time", type=int, default=8192, help="tokens")
    parser.add_argument("--encodings", nargs="+", default=KINDS.split())
    parser.add_argument("--levels", nargs="+", default=["flat", "bilevel"])
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--head-width", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--memory-only", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.memory_only:
        print(memory(options.encodings[0], options.levels[0], options))
        return
    results = {}
    for name in options.encodings:
        for level in options.levels:
            words = ["--memory-only", "--encodings", name, "--levels", level]
            words += ["--time", str(options.time), "--heads", str(options.heads)]
            words += ["--head-width", str(options.head_width)]
            child = [sys.executable, "-m", "benchmarks.encodings", *words]
            most = float(subprocess.run(child, capture_output=True, text=True, check=True).stdout)
            found = {**measured(name, level, options), "megabytes": most}
            results[f"{name}, {level}"] = found
            print(f"{name:16} {level:8} {json.dumps(found)}", flush=True)
    if options.json:
        options.json.write_text(json.dumps({"machine": machine(), "results": results}, indent=1))


if __name__ == "__main__":
    main()
