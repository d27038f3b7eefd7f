"""A long prompt: CPU time and peak memory to read it in chunks into a cache, by encoding.

    python -m benchmarks.prefill [--tokens 8192 32768] [--encodings RoPE BiPE-RoPE ALiBi BiPE-ALiBi]
        [--width 64] [--layers 2] [--peer] [--json FILE]

In float32, each candidate in a process of its own, taking turns (workers.py). RoPE is the measure:
its chunks run torch's plain kernels over all earlier keys. `--peer` adds Llama of transformers
reading the same prompt at once. Peak memory is that of the whole process.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import torch

from benchmarks import models
from benchmarks.decode import prefill, prompts
from benchmarks.workers import Worker, machine, serve, take_turns, write

PEER = "HF-Llama"


def candidate(name: str, size: models.Size, device: str) -> Callable[[], None]:
    """One call reads a prompt: "prefill BiPE-RoPE 32768"."""
    _, kind, length = name.split()
    return _peer(size, int(length), device) if kind == PEER else prefill(name, size, device)


def _peer(size: models.Size, length: int, device: str) -> Callable[[], None]:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=size.vocab,
        hidden_size=size.width,
        intermediate_size=size.mlp,
        num_hidden_layers=size.layers,
        num_attention_heads=size.heads,
        max_position_embeddings=length,
        attn_implementation="sdpa",
    )
    model = LlamaForCausalLM(config).eval().to(device)
    tokens = torch.tensor(prompts(size, 1, length), device=device)

    @torch.no_grad()
    def run() -> None:
        model(tokens, use_cache=True, logits_to_keep=1)

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokens", type=int, nargs="+", default=[8192, 32768])
    names = ["RoPE", "BiPE-RoPE", "ALiBi", "BiPE-ALiBi"]
    parser.add_argument("--encodings", nargs="+", default=names, choices=names)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--peer", action="store_true")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    size = models.Size(
        vocab=1000, width=options.width, layers=options.layers, mlp=4 * options.width
    )
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if options.worker:
        serve(
            lambda: candidate(options.worker, size, device),
            threads=options.threads,
            cuda=device == "cuda",
        )
        return
    command = [sys.executable, "-m", "benchmarks.prefill", *sys.argv[1:], "--worker"]
    kinds = options.encodings + [PEER] * options.peer
    results: dict = {"machine": machine(), "size": asdict(size), "prefill": {}}
    for length in options.tokens:
        workers = [
            Worker(name, [*command, name], path=[str(Path(__file__).parent.parent)])
            for name in (f"prefill {kind} {length}" for kind in kinds)
        ]
        found = take_turns(workers, rounds=options.rounds)
        plain = found.get(f"prefill RoPE {length}")
        for name, each in found.items():
            ratio = f"{each['cpu'] / plain['cpu']:5.2f} x RoPE" if plain else ""
            print(
                f"  {name:<28} {each['cpu']:7.1f} s of CPU  peak {each['peak_mib']:6.0f} MiB  "
                f"{ratio}",
                flush=True,
            )
        results["prefill"].update(found)
    write(options.json, results)
    print(results["machine"])


if __name__ == "__main__":
    main()
