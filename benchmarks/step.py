"""A training step: tokens/s and model FLOPs utilisation, ours against peers of the same size.

    python -m benchmarks.step [--model 20M] [--time 1024] [--rounds 5] [--threads 1] [--json FILE]
        [--release CHECKOUT --release-python INTERPRETER]

Forward and backward in bfloat16 autocast, and AdamW: each candidate in a process of its own, taking
turns (workers.py). Peers that are not installed are named and left out. Utilisation is against the
rate of a large bfloat16 matrix product measured in the same run.
"""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import torch

from benchmarks import models
from benchmarks.workers import chosen, compare, machine, parser_of, serve, write

OURS = (*models.BIPE, "RoPE")
PEERS = ("LitGPT compiled", "HF Llama", "HF Llama compiled", "x-transformers compiled")
RELEASED = {"released bipe_rope": "bipe_rope", "released bipe_alibi": "bipe_alibi"}
MATMUL = "matrix product"
MODELS = {"20M": {}, "151M": {"width": 768, "layers": 12, "heads": 12, "mlp": 3072}}


def candidate(name: str, size: models.Size, device: str, release: Path | None) -> Callable:
    """Return the step of a candidate, ready to run."""
    if name == MATMUL:
        side = _matmul_side(device)
        a, b = torch.randn(2, side, side, dtype=torch.bfloat16, device=device)
        return lambda: [a @ b for _ in range(8)]
    compiled = name.endswith("compiled")
    kind = {"compiled": compiled, "device": device}
    if name in RELEASED:
        assert release is not None
        loss, model = models.released(size, RELEASED[name], release, device=device)
    elif name.startswith("ours "):
        encoding = name.removeprefix("ours ").removesuffix(" compiled")
        loss, model = models.ours(size, encoding, **kind)
    elif name.startswith("LitGPT"):
        loss, model = models.litgpt(size, **kind)
    elif name.startswith("HF"):
        loss, model = models.hugging_face(size, **kind)
    else:
        loss, model = models.x_transformers(size, **kind)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    torch.manual_seed(0)
    tokens = torch.randint(0, size.vocab, (size.batch, size.time + 1), device=device)

    def step() -> None:
        with torch.autocast(device, torch.bfloat16):
            value = loss(tokens)
        value.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


def _matmul_side(device: str) -> int:
    return 2048 if device == "cpu" else 8192


def table(found: dict, size: models.Size, device: str) -> dict:
    """Tokens/s, utilisation and ratios to the peers."""
    rate = 8 * 2 * _matmul_side(device) ** 3 / found.pop(MATMUL)["cpu"]
    tokens = size.batch * size.time
    rows = {
        name: {
            "tokens_per_second": tokens / each["cpu"],
            "utilisation": size.flops / each["cpu"] / rate,
            "wall_tokens_per_second": tokens / each["wall"],
            "peak_mib": each["peak_mib"],
        }
        for name, each in found.items()
    }
    print(f"matrix product: {rate / 1e9:.0f} GFLOP/s; {asdict(size)}")
    peers = [name for name in rows if not name.startswith("ours")]
    for name, row in rows.items():
        ratios = ""
        if name not in peers:
            mine = row["tokens_per_second"]
            ratios = "  ".join(f"{mine / rows[p]['tokens_per_second']:.2f} x {p}" for p in peers)
        print(
            f"  {name:<28} {row['tokens_per_second']:8.0f} tokens/s  "
            f"{row['utilisation']:4.0%}  {row['peak_mib']:6.0f} MiB  {ratios}"
        )
    return {"matmul_gflops": rate / 1e9, "candidates": rows}


def main() -> None:
    parser = parser_of(__doc__, time=1024, batch=4, rounds=5, threads=1)
    parser.add_argument("--model", choices=MODELS, default="20M", help="parameters")
    parser.add_argument("--release", type=Path, help="checkout of the released BiPE code")
    parser.add_argument("--release-python", default=sys.executable)
    parser.add_argument("--only", nargs="*", help="names of candidates")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    given = parser.parse_args()
    size = models.Size(time=given.time, batch=given.batch, **MODELS[given.model])
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if given.worker:
        build = functools.partial(candidate, given.worker, size, device, given.release)
        serve(build, threads=given.threads)
        return
    names = [f"ours {name} compiled" for name in OURS] + ["ours BiPE-RoPE", *PEERS]
    names += RELEASED if given.release else ()
    names = [*chosen(names, given.only), MATMUL]
    pythons = dict.fromkeys(RELEASED, given.release_python)
    found = compare(names, rounds=given.rounds, interpreters=pythons)
    write(given.json, {"machine": machine(), "size": asdict(size), **table(found, size, device)})


if __name__ == "__main__":
    main()
