"""The protocol of the released BiPE (eval.py): documents joined, then cut to blocks.

    blocks of b tokens over the joined text, b - 1 of each scored; the rest at the end, and the last
    full block too, are dropped
    perplexity = exp(mean over batches of the mean loss of a batch)

So the blocks of a short last batch weigh more. Its training code keeps the last full block.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from train.evals.perplexity.protocol import Losses, Protocol, Window


@dataclass(frozen=True, slots=True, kw_only=True)
class BipeBlocks(Protocol):
    """length: tokens of a block. batch: blocks of a batch. drop_last: drop the last full block."""

    name: ClassVar[str] = "bipe_blocks"

    length: int
    batch: int = 8
    drop_last: bool = True

    @property
    def definition(self) -> str:
        dropped = " and the last full block" if self.drop_last else ""
        return (
            f"Documents joined and cut to blocks of {self.length} tokens, whatever document they "
            f"are of; the rest{dropped} dropped, the first token of a block not scored (eval.py "
            f"of the released BiPE, which takes the mean over batches of {self.batch} blocks)."
        )

    def windows(self, ends: Sequence[int]) -> list[Window]:
        blocks = (ends[-1] if ends else 0) // self.length - self.drop_last
        starts = range(0, max(0, blocks) * self.length, self.length)
        return [Window(start=start, stop=start + self.length, first=start) for start in starts]

    def averages(self, losses: Losses) -> Mapping[str, float]:
        """`mean_of_batches`."""
        means = losses.window_means()
        batches = [
            means[start : start + self.batch].mean() for start in range(0, len(means), self.batch)
        ]
        return {"mean_of_batches": float(np.mean(batches)) if batches else float("nan")}
