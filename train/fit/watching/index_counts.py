"""Histograms of the token and segment indices that occurred in training.

Context extension needs them (`bipe.extension.original_length`): under BiPE the original length is a
number of segments, which no configuration states. Counting does not wait for the device. Ranks are
summed at each checkpoint, so that a run resumed on other devices counts each token once.
"""

from collections.abc import Mapping
from typing import Any

import torch
import torch.distributed
from torch import Tensor

from bipe import Positions

LEVELS = {"token": "token", "segment": "inter"}  # name in the notes -> field of Positions
# Indices below 2^13 have a bin each; from there on a bin is at most 2^-12 of its index wide.
_EXACT_BITS = 13
_HALF = 1 << (_EXACT_BITS - 1)
_LARGEST = (1 << 31) - 1
PERMILLES = {"p99": 990, "p99.9": 999}


def bin_of(index: Tensor) -> Tensor:
    """Return the bin of each index: a 13-bit mantissa and an exponent, packed into one integer."""
    index = index.clamp(max=_LARGEST)
    shift = (torch.frexp(index.double()).exponent - _EXACT_BITS).clamp(min=0)
    return (index >> shift) + _HALF * shift


def largest_in(bin: int) -> int:
    shift = max(0, bin // _HALF - 1)
    return ((bin - _HALF * shift + 1) << shift) - 1


BINS = int(bin_of(torch.tensor(_LARGEST))) + 1


class IndexCounts:
    """Histograms of the indices of all tokens that a rank trained on, without padding."""

    def __init__(self) -> None:
        self._counts = torch.zeros(len(LEVELS), BINS, dtype=torch.int64)  # [level, bin]
        self._maximum = torch.full((len(LEVELS),), -1, dtype=torch.int64)  # [level]

    def add(self, at: Positions) -> None:
        counts, maximum = self._on(at.document.device)
        inside = at.document >= 0
        weights = inside.flatten().long()
        for level, field in enumerate(LEVELS.values()):
            index = getattr(at, field)
            counts[level].index_add_(0, bin_of(index).flatten(), weights)
            here = index.masked_fill(~inside, -1).amax()
            torch.maximum(maximum[level], here, out=maximum[level])

    def state(self, device: torch.device) -> dict[str, Any]:
        """Return the summed counts of all ranks, on the host. Call it on every rank."""
        counts, maximum = (x.to(device, copy=True) for x in self._on(device))
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            torch.distributed.all_reduce(counts)
            torch.distributed.all_reduce(maximum, op=torch.distributed.ReduceOp.MAX)
        found = {}
        for name, own, largest in zip(LEVELS, counts.cpu(), maximum.tolist(), strict=True):
            bins = own.nonzero()[:, 0]
            found[name] = {"bins": bins, "counts": own[bins], "maximum": largest}
        return found

    def load(self, state: Mapping[str, Any] | None, *, rank: int) -> None:
        """Load the summed counts on rank 0; None starts at zero."""
        fresh = IndexCounts()
        self._counts, self._maximum = fresh._counts, fresh._maximum
        if state is None or rank:
            return
        for level, name in enumerate(LEVELS):
            self._counts[level, state[name]["bins"]] = state[name]["counts"]
            self._maximum[level] = state[name]["maximum"]

    def _on(self, device: torch.device) -> tuple[Tensor, Tensor]:
        self._counts, self._maximum = self._counts.to(device), self._maximum.to(device)
        return self._counts, self._maximum


def summary_of(state: Mapping[str, Any]) -> dict[str, dict[str, int]]:
    """Return the number of counted tokens and the percentiles of each level of a state."""
    return {name: _summary(**level) for name, level in state.items()}


def _summary(*, bins: Tensor, counts: Tensor, maximum: int) -> dict[str, int]:
    total = int(counts.sum())
    found = {"counted": total, "maximum": maximum}
    below = counts.cumsum(0)
    for name, permille in PERMILLES.items():
        wanted = -(-total * permille // 1000)
        place = int(torch.searchsorted(below, wanted)) if total else 0
        found[name] = min(maximum, largest_in(int(bins[place]))) if total else maximum
    return found
