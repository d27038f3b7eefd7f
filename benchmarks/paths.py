"""Whether the attention path chosen for a linear bias is the fastest of ours, on odd shapes.

    python -m benchmarks.paths [--draws 24] [--seed 0] [--repeats 5] [--dtype float32 bfloat16]

A draw is a shape that no table of ours has: heads of queries and of keys and their width, batch,
length, tokens per segment, a factor of the slopes, one document or five, with a backward pass or
without. All paths run in turns, and are compared with the chosen one of the same turn: medians of
ratios of CPU time (event time on a GPU), with denormal numbers flushed to 0. Bar: the chosen path
takes at most 1.05 times the time of the best. Without gradients, in float32 on a CPU, only paths as
exact as attention without a bias count (`augmented`); the others are printed too.
"""

from __future__ import annotations

import argparse
import random
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from benchmarks.attention import measure
from benchmarks.workers import machine
from bipe import Positions
from bipe.attention.dispatch import choose_attention
from bipe.bias import Bias
from bipe.encodings import ALiBi, Bilevel, Learned

PATHS = {
    "cpu": ("banded", "bias_row", "augmented", "masked"),
    "cuda": ("flex", "augmented", "masked"),
}
EXACT = ("augmented",)
MOST_SCORES = 4 * 10**8  # over batch and heads, where a path holds them all
MOST_WORK = 10**9


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """One draw; heads of queries, heads of keys, their width; lengths in tokens."""

    heads: tuple[int, int, int]
    batch: int
    time: int
    segment: int
    slopes: float
    documents: int
    dtype: str
    gradients: bool

    @property
    def scores(self) -> int:
        return self.batch * self.heads[0] * self.time**2

    def positions(self, device: str) -> Positions:
        marks = (torch.rand(self.batch, self.time) < 1 / self.segment).to(torch.uint8) << 1
        marks[:, torch.linspace(0, self.time, self.documents + 1).long()[1:-1]] = 3
        return Positions.from_marks(marks.to(device), packed=self.documents > 1)

    def bias(self, at: Positions) -> Bias | None:
        inter = ALiBi(n_head=self.heads[0], multiplier=self.slopes)
        return (
            Bilevel(intra=Learned(width=8, length=8), inter=inter).to(at.inter.device).bias(at, at)
        )

    def inputs(self, device: str) -> list[Tensor]:
        queries, keys, width = self.heads
        shapes = [(self.batch, self.time, heads, width) for heads in (queries, keys, keys)]
        kind = {"dtype": getattr(torch, self.dtype), "device": device}
        return [torch.randn(shape, **kind).transpose(1, 2).requires_grad_() for shape in shapes]


def drawn(chance: random.Random, dtypes: list[str]) -> Shape:
    """Return a shape that takes seconds, not minutes."""
    while True:
        shape = Shape(
            heads=chance.choice([(6, 6, 32), (12, 12, 64), (8, 2, 64), (9, 3, 40), (5, 1, 128)]),
            batch=chance.choice([1, 2, 16]),
            time=chance.choice([300, 700, 1100, 1500, 3000, 6000]),
            segment=chance.choice([1, 25, 5000]),
            slopes=chance.choice([1.0, 8.0, 96.0]),
            documents=chance.choice([1, 1, 5]),
            dtype=chance.choice(dtypes),
            gradients=chance.choice([True, True, False]),
        )
        if shape.scores <= MOST_WORK:
            return shape


def compared(shape: Shape, *, device: str, repeats: int) -> tuple[float, dict[str, float]]:
    """Return the seconds of what is chosen, and of each path over those of the same turn."""
    at, qkv = shape.positions(device), shape.inputs(device)

    def seconds(run: Callable[..., Tensor]) -> float:
        return measure(run, qkv, backward=shape.gradients)

    with torch.set_grad_enabled(shape.gradients):
        runs = dict(_paths(shape, at))
        found: dict[str, list[float]] = {name: [] for name in runs}
        for turn in range(repeats + 1):
            for name, run in runs.items():
                elapsed = seconds(run)
                if turn:  # the first round warms up
                    found[name].append(elapsed)
    chosen = found.pop("auto")
    return statistics.median(chosen), {
        name: statistics.median(one / other for one, other in zip(times, chosen, strict=True))
        for name, times in found.items()
    }


def _paths(shape: Shape, at: Positions) -> Iterator[tuple[str, Callable[..., Tensor]]]:
    bias = shape.bias(at)
    for name in ("auto", *PATHS[at.inter.device.type]):
        if name != "masked" or shape.scores <= MOST_SCORES:
            yield name, choose_attention(bias=bias, q_at=at, k_at=at, path=name)


def main() -> None:
    """Draw shapes; print for each how long every path takes over what is chosen."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, default in (("draws", 24), ("seed", 0), ("repeats", 5), ("threads", 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--dtype", nargs="+", default=["float32"])
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    torch.set_flush_denormal(True)
    torch.manual_seed(asked.seed)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    chance = random.Random(asked.seed)
    print(
        f"{machine()}\nratio: the chosen path over the fastest; behind it each path over the chosen"
    )
    ratios = []
    for _ in range(asked.draws):
        shape = drawn(chance, asked.dtype)
        chosen, found = compared(shape, device=device, repeats=asked.repeats)
        exact = device == "cpu" and shape.dtype == "float32" and not shape.gradients
        ratios.append(1 / min(1.0, *(found[name] for name in (EXACT if exact else found))))
        others = "  ".join(f"{name} {ratio:.2f}" for name, ratio in found.items())
        print(f"{ratios[-1]:5.2f}  {1000 * chosen:7.1f} ms  {others}  {shape}", flush=True)
    slow = sum(ratio > 1.05 for ratio in ratios)
    print(f"{len(ratios)} shapes, worst {max(ratios):.2f}, above 1.05: {slow}")


if __name__ == "__main__":
    main()
