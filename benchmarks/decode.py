"""Writing: tokens/s of cached decoding against a peer, and what a long prompt costs.

    python benchmarks/decode.py [--prompt 128] [--new 128] [--rounds 5] [--threads 1] [--long]
        [--json FILE]

Greedy, in float32, no stop. Each candidate in a process of its own, taking turns (workers.py); the
peer is Llama of transformers with a static cache of the same size. A prompt is read in chunks; its
peak memory is that of the whole process.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import torch

from benchmarks import models
from benchmarks.workers import Worker, machine, serve, take_turns, write
from bipe.generation import Session, generate

OURS = ("BiPE-RoPE", "BiPE-ALiBi")
CACHES = ("static", "growing")
PEER = "HF Llama static"
BATCHES = (1, 8)
PREFILL = (32 * 1024,)
LONG = (32 * 1024, 128 * 1024)


class EveryToken:
    """Marks segments by ids, as `benchmarks.models.marks_of` does."""

    def push(self, token: int) -> list[int]:
        return [2 * (token % models.SEGMENT == 0)]

    def provisional(self) -> list[int]:
        return []

    def copy(self) -> EveryToken:
        return EveryToken()


def prompts(size: models.Size, batch: int, length: int) -> list[list[int]]:
    torch.manual_seed(0)
    return torch.randint(1, size.vocab, (batch, length)).tolist()


def decoding(name: str, size: models.Size, options: argparse.Namespace, device: str) -> Callable:
    """One call writes `options.new` tokens behind prompts: "ours BiPE-RoPE static, batch 8"."""
    kind, _, batch = name.partition(", batch ")
    rows = prompts(size, int(batch), options.prompt)
    if kind == PEER:
        return _peer(size, rows, options, device)
    encoding, cache = kind.removeprefix("ours ").split()
    model = models.decoder(size, encoding).eval().to(device)
    static = cache == "static"
    return lambda: generate(model, rows, max_new=options.new, marker=EveryToken(), static=static)


def _peer(
    size: models.Size, rows: list[list[int]], options: argparse.Namespace, device: str
) -> Callable:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=size.vocab,
        hidden_size=size.width,
        intermediate_size=size.mlp,
        num_hidden_layers=size.layers,
        num_attention_heads=size.heads,
        max_position_embeddings=options.prompt + options.new,
        attn_implementation="sdpa",
        eos_token_id=None,
        pad_token_id=0,
    )
    model = LlamaForCausalLM(config).eval().to(device)
    tokens = torch.tensor(rows, device=device)
    mask = torch.ones_like(tokens)

    def run() -> None:
        made = model.generate(
            tokens,
            attention_mask=mask,
            max_new_tokens=options.new,
            min_new_tokens=options.new,
            do_sample=False,
            cache_implementation="static",
        )
        assert made.shape[1] == options.prompt + options.new

    return run


def prefill(name: str, size: models.Size, device: str) -> Callable:
    """One call reads a prompt: "prefill BiPE-RoPE 32768"."""
    _, encoding, length = name.split()
    model = models.decoder(size, encoding).eval().to(device)
    row = prompts(size, 1, int(length))

    def run() -> None:
        session = Session(model, batch=1, marker=EveryToken(), capacity=int(length))
        session.feed(row, last_only=True)

    return run


def candidate(name: str, size: models.Size, options: argparse.Namespace, device: str) -> Callable:
    if name.startswith("prefill"):
        return prefill(name, size, device)
    return decoding(name, size, options, device)


def decode_table(found: dict, options: argparse.Namespace) -> dict:
    """Tokens/s of each candidate, and ratios to the peer at the same batch."""
    rates = {
        name: int(name.rpartition(" ")[2]) * options.new / each["cpu"]
        for name, each in found.items()
    }
    for name, rate in rates.items():
        peer = rates.get(f"{PEER}, batch {name.rpartition(' ')[2]}")
        ratio = f"{rate / peer:.2f} x {PEER}" if peer and not name.startswith(PEER) else ""
        print(f"  {name:<36} {rate:8.1f} tokens/s  {ratio}")
    return {
        name: {"tokens_per_second": rate, "wall": found[name]["wall"]}
        for name, rate in rates.items()
    }


def prefill_table(found: dict, size: models.Size) -> dict:
    """Seconds and memory of long prompts; memory of the cache alone beside it."""
    rows = {}
    for name, each in found.items():
        length = int(name.rpartition(" ")[2])
        cache = 2 * 4 * size.layers * size.width * length / 2**20
        rows[name] = {**each, "cache_mib": cache}
        print(
            f"  {name:<28} {each['cpu']:7.1f} s of CPU  {length / each['cpu']:7.0f} tokens/s  "
            f"peak {each['peak_mib']:6.0f} MiB, of which keys and values {cache:5.0f}"
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--prompt", type=int, default=128, help="tokens")
    parser.add_argument("--new", type=int, default=128, help="tokens written")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--long", action="store_true", help="a prompt of 128k tokens as well")
    parser.add_argument("--only", nargs="*", help="names of candidates")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    size = models.Size()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if options.worker:
        serve(
            lambda: candidate(options.worker, size, options, device),
            threads=options.threads,
            cuda=device == "cuda",
        )
        return
    decode = [f"ours {name} {cache}" for name in OURS for cache in CACHES] + [PEER]
    decode = [f"{name}, batch {batch}" for batch in BATCHES for name in decode]
    lengths = LONG if options.long else PREFILL
    reads = [f"prefill {name} {length}" for name in OURS for length in lengths]
    print(asdict(size))
    results = {"machine": machine(), "size": asdict(size)}
    results["decode"] = decode_table(_measure(decode, options, options.rounds), options)
    reads = _measure(reads, options, 1)
    results["prefill"] = prefill_table(reads, size)
    write(options.json, results)
    print(results["machine"])


def _measure(names: list[str], options: argparse.Namespace, rounds: int) -> dict:
    names = [name for name in names if not options.only or name in options.only]
    workers = [
        Worker(
            name,
            [sys.executable, "-m", "benchmarks.decode", *sys.argv[1:], "--worker", name],
            path=[str(Path(__file__).parent.parent)],
        )
        for name in names
    ]
    return take_turns(workers, rounds=rounds)


if __name__ == "__main__":
    main()
