"""A protocol by its name, for each length of context."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from train.evals.perplexity.bipe_blocks import BipeBlocks
from train.evals.perplexity.full_context import FullContext
from train.evals.perplexity.last_k import LastK
from train.evals.perplexity.protocol import Protocol
from train.evals.perplexity.sliding import Sliding
from train.evals.perplexity.windows import Windows
from train.evals.perplexity.yarn import Yarn


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """Which protocol, and the numbers (tokens) that it asks for besides the length.

    stride, last: None for half a training row.
    """

    protocol: str
    row_length: int
    stride: int | None = None
    last: int | None = None
    start_token: int | None = None

    def at(self, length: int) -> Protocol:
        """The protocol at a length of context, in tokens."""
        return _MADE[self.protocol](self, length)


def _half(given: int | None, measure: Measure) -> int:
    return max(1, measure.row_length // 2) if given is None else given


_MADE: dict[str, Callable[[Measure, int], Protocol]] = {
    Windows.name: lambda m, length: Windows(length=length, row_length=m.row_length),
    Sliding.name: lambda m, length: Sliding(length=length, stride=_half(m.stride, m)),
    LastK.name: lambda m, length: LastK(length=length, last=_half(m.last, m)),
    FullContext.name: lambda m, length: FullContext(),
    BipeBlocks.name: lambda m, length: BipeBlocks(length=length),
    Yarn.name: lambda m, length: Yarn(
        length=length, stride=_half(m.stride, m), start_token=m.start_token
    ),
}
PROTOCOLS = tuple(_MADE)
