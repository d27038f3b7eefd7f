"""Writing: tokens/s of cached decoding against a peer, and what a long prompt costs, by encoding.

    python -m benchmarks.decode [--prompt 128] [--new 128] [--rounds 5] [--threads 1] [--json FILE]
    python -m benchmarks.decode --prefill 8192 32768 [--rounds 1]

In float32, each candidate in a process of its own, taking turns (workers.py); the peer is Llama of
transformers. Decoding is greedy, without a stop; the peer has a static cache of the same size. A
prompt is read in chunks, by the peer at once; its peak memory is that of the whole process.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import asdict

import torch

from benchmarks import models
from benchmarks.workers import chosen, compare, machine, parser_of, serve, write
from bipe.generation import Session, generate

OURS = tuple(f"ours {name} {cache}" for name in models.BIPE for cache in ("static", "growing"))
PEER = "HF-Llama static"
BATCHES = (1, 8)
SMALL = models.Size(vocab=1000, width=64, layers=2, mlp=256)  # whose prompts are long
READ = (*models.BIPE, "RoPE", "ALiBi", "HF-Llama")


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


def decoding(name: str, given: argparse.Namespace, device: str) -> Callable[[], object]:
    """One call writes `given.new` tokens behind prompts: "ours BiPE-RoPE static, batch 8"."""
    kind, _, batch = name.partition(", batch ")
    size = models.Size()
    rows = prompts(size, int(batch), given.prompt)
    if kind == PEER:
        return _peer(size, rows, given, device)
    _, encoding, cache = kind.split()
    model = models.decoder(size, encoding).eval().to(device)
    how = {"marker": EveryToken(), "static": cache == "static"}
    return lambda: generate(model, rows, max_new=given.new, **how)


def _peer(
    size: models.Size, rows: list[list[int]], given: argparse.Namespace, device: str
) -> Callable[[], object]:
    whole = given.prompt + given.new
    model = models.llama(size, whole, eos_token_id=None, pad_token_id=0).eval().to(device)
    tokens = torch.tensor(rows, device=device)
    words = {"max_new_tokens": given.new, "min_new_tokens": given.new, "do_sample": False}

    def run() -> None:
        mask = torch.ones_like(tokens)
        made = model.generate(tokens, attention_mask=mask, cache_implementation="static", **words)
        assert made.shape[1] == whole

    return run


def reading(name: str, device: str) -> Callable[[], object]:
    """One call reads a prompt: "prefill BiPE-RoPE 32768"."""
    _, encoding, digits = name.split()
    length = int(digits)
    row = prompts(SMALL, 1, length)
    if encoding == READ[-1]:
        peer = models.llama(SMALL, length).eval().to(device)
        tokens = torch.tensor(row, device=device)
        return torch.no_grad()(lambda: peer(tokens, use_cache=True, logits_to_keep=1))
    model = models.decoder(SMALL, encoding).eval().to(device)

    def run() -> None:
        session = Session(model, batch=1, marker=EveryToken(), capacity=length)
        session.feed(row, last_only=True)

    return run


def rates(found: dict, new: int) -> dict:
    """Print and return tokens/s of each candidate, and ratios to the peer at the same batch."""
    rows = {}
    for name, each in found.items():
        batch = name.rpartition(" ")[2]
        peer = found.get(f"{PEER}, batch {batch}")
        rows[name] = {"tokens_per_second": int(batch) * new / each["cpu"], "wall": each["wall"]}
        ratio = f"{peer['cpu'] / each['cpu']:.2f} x {PEER}" if peer else ""
        print(f"  {name:<36} {rows[name]['tokens_per_second']:8.1f} tokens/s  {ratio}")
    return rows


def costs(found: dict) -> dict:
    """Print and return seconds and memory of long prompts; keys and values alone beside it."""
    for name, each in found.items():
        length = name.rpartition(" ")[2]
        cache = 2 * 4 * SMALL.layers * SMALL.width * int(length) / 2**20
        plain = found.get(f"prefill RoPE {length}")
        ratio = f"{each['cpu'] / plain['cpu']:5.2f} x RoPE" if plain else ""
        print(
            f"  {name:<28} {each['cpu']:7.1f} s of CPU  peak {each['peak_mib']:6.0f} MiB, of which "
            f"keys and values {cache:5.0f}  {ratio}"
        )
    return found


def main() -> None:
    parser = parser_of(__doc__, prompt=128, new=128, rounds=5, threads=1)
    parser.add_argument("--prefill", type=int, nargs="+", help="tokens of prompts to read")
    parser.add_argument("--only", nargs="*", help="names of candidates")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    given = parser.parse_args()
    device, name = "cuda" if torch.cuda.is_available() else "cpu", given.worker
    if name:
        make = reading if given.prefill else decoding
        words = (name, device) if given.prefill else (name, given, device)
        serve(lambda: make(*words), threads=given.threads)
        return
    if given.prefill:
        size, names = SMALL, [f"prefill {x} {length}" for length in given.prefill for x in READ]
    else:
        size = models.Size()
        names = [f"{x}, batch {batch}" for batch in BATCHES for x in (*OURS, PEER)]
    found = compare(chosen(names, given.only), rounds=given.rounds)
    kind = "prefill" if given.prefill else "decode"
    shown = costs(found) if given.prefill else rates(found, given.new)
    write(given.json, {"machine": machine(), "size": asdict(size), kind: shown})


if __name__ == "__main__":
    main()
