"""What steps count on the device: losses, keys that are attended to, and indices that occurred.

    loss/source/proofs     the mean over the targets of that source
    loss/token/256         over targets with token index 256 to 511 in their document
    loss/segment/4         over targets in segments 4 to 7 of their document (bilevel encodings)

They are sums on the device, reduced over ranks with the loss in one call; nothing waits for them.
Sums of masks, not scattered ones, are the same bit for bit each time.

Context extension needs histograms of indices (`bipe.extension.original_length`): under BiPE the
original length is a number of segments, which no configuration states. Ranks are summed at each
checkpoint, so that a run resumed on other devices counts each token once.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Self

import torch
import torch.distributed
from torch import Tensor

from bipe import Carry, Decoder, Positions
from bipe.encodings import Learned
from bipe.encodings.base import Fed, Flat
from bipe.loss import IGNORE
from train.data.rows.loader import Batch

_FIRST = 64  # tokens in the first bin of token indices


class StepLosses:
    """Sums over the targets of an optimizer step. row_length: in tokens; longer places join."""

    def __init__(self, *, sources: Sequence[str], row_length: int, bilevel: bool) -> None:
        tokens = [0, *_powers(_FIRST, row_length)]
        segments = [0, *_powers(1, max(2, row_length // 4))] if bilevel else []
        self._sources = len(sources)
        self._tokens, self._segments = torch.tensor(tokens), torch.tensor(segments)
        self.names = (
            *(f"loss/source/{name}" for name in sources),
            *(f"loss/token/{start}" for start in tokens),
            *(f"loss/segment/{start}" for start in segments),
        )
        self._sums: Tensor | float = 0.0

    @classmethod
    def of(cls, model: Decoder, rows: Any) -> Self:
        bilevel = isinstance(model.scheme, Fed) and not isinstance(model.scheme, Flat)
        return cls(sources=rows.source_names, row_length=rows.row_length, bilevel=bilevel)

    @torch.no_grad()
    def add(
        self,
        nll: Tensor,
        each: Tensor,
        batch: Batch,
        at: Positions,
        *,
        row: Positions | None = None,
    ) -> None:
        """Add a micro-batch. nll: the sum of `each`: ``(batch, time)``. row: ids of whole rows."""
        targets, source = batch.targets, batch.source
        assert source is not None
        scored = (targets != IGNORE).float()
        of = torch.arange(self._sources, device=source.device)[:, None] == source  # (bin, batch)
        sums = [_by_bin(each, scored, of[:, :, None])]
        # Targets stand one token behind the inputs whose ids these are.
        sums.append(_by_bin(each, scored, _of_place(at.token + 1, self._tokens)))
        if len(self._segments):
            sums.append(_by_bin(each, scored, _of_place(at.inter, self._segments)))
        inside = at.document >= 0
        row = at if row is None else row
        first = torch.where(at.document == row.document[:, :1], row.token[:, :1], 0)
        keys = ((at.token - first + 1) * inside).sum()  # within the row, itself among them
        everything = torch.stack((nll.double(), keys.double(), inside.sum().double()))
        self._sums = self._sums + torch.cat((everything, *(x.flatten() for x in sums)))

    def take(self, device: torch.device) -> Tensor:
        """Return the sums of this rank for `split`, and start again."""
        sums, self._sums = self._sums, 0.0
        return sums + torch.zeros(3 + 2 * len(self.names), dtype=torch.float64, device=device)

    def split(self, sums: Tensor, *, targets: int) -> dict[str, Tensor]:
        pairs, n = sums[3:], [self._sources, len(self._tokens), len(self._segments)]
        parts = pairs.split([2 * size for size in n])
        means = torch.cat([(x := part.view(2, -1))[0] / x[1] for part in parts])
        values = {"loss": sums[0] / max(1, targets), "keys_per_token": sums[1] / sums[2].clamp(1)}
        return values | dict(zip(self.names, means.unbind(), strict=True))


def _by_bin(each: Tensor, scored: Tensor, inside: Tensor) -> Tensor:
    """Return the summed loss and the number of targets of each bin: ``(2, bin)``."""
    return torch.stack([torch.where(inside, x, 0).sum((1, 2)) for x in (each, scored)]).double()


def _of_place(index: Tensor, starts: Tensor) -> Tensor:
    """Return which indices are in each bin, which ends where the next one starts."""
    beyond = index >= starts.to(index.device, non_blocking=True)[:, None, None]
    return torch.cat((beyond[:-1] & ~beyond[1:], beyond[-1:]))  # (bin, batch, time)


def _powers(first: int, below: int) -> list[int]:
    return [first << k for k in range(below.bit_length()) if first << k < below]


LEVELS = {"token": "token", "segment": "inter"}  # name in the notes -> field of Positions
# Indices below 2^13 have a bin each; from there on a bin is at most 2^-12 of its index wide.
_EXACT_BITS = 13
_HALF = 1 << (_EXACT_BITS - 1)
_LARGEST = (1 << 31) - 1
PERMILLES = {"p99": 990, "p99.9": 999}


def bin_of(index: Tensor) -> Tensor:
    """Return the bin of each index: a 13-bit mantissa and an exponent, packed into one integer."""
    index = index.clamp(max=_LARGEST)
    # frexp counts the bits of an integer; what is beyond 13 is shifted out.
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
        for name, count, largest in zip(LEVELS, counts.cpu(), maximum.tolist(), strict=True):
            bins = count.nonzero()[:, 0]
            found[name] = {"bins": bins, "counts": count[bins], "maximum": largest}
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
    summary = {"counted": total, "maximum": maximum}
    below = counts.cumsum(0)
    for name, permille in PERMILLES.items():
        wanted = -(-total * permille // 1000)
        place = int(torch.searchsorted(below, wanted)) if total else 0
        summary[name] = min(maximum, largest_in(int(bins[place]))) if total else maximum
    return summary


def positions_of(batch: Batch, *, levels: int = 1) -> Positions:
    """Return the positions of a batch from its marks, on the device; levels: of the model."""
    carry = None if batch.carry is None else Carry.from_columns(batch.carry)
    return Positions.from_marks(
        batch.marks, carry=carry, padding=batch.padding, packed=any(batch.packed), levels=levels
    )


def clamped(model: Decoder, at: Positions) -> list[Tensor]:
    """Return the share of tokens beyond a learned table within segments; nothing without one."""
    fed = model.scheme.fed() if isinstance(model.scheme, Fed) else {}
    beyond = [
        at.ids(level) >= each.table.num_embeddings
        for level, each in fed.items()
        if isinstance(each, Learned) and level != "token"  # refused where rows are longer
    ]
    if not beyond:
        return []
    inside = at.document >= 0
    return [(torch.stack(beyond).any(0) & inside).sum() / inside.sum().clamp(min=1)]
