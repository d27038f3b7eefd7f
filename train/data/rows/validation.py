"""Validation batches: the same rows every time, evenly spaced over each source.

Every rank gets as many batches as every other, because ranks that validate in step must not wait
for one that is done. Where batches do not divide, the spare ones have no scored target and so no
weight in a token-weighted mean.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np
import torch

from train.data.rows.batch import IGNORED, Batch, collate
from train.data.rows.packing import Rows


class ValidationLoader:
    """Micro-batches of one rank over at most `rows_per_source` rows of each source.

    A batch holds rows of one source; its step counts batches over all ranks, its step_targets are
    its own, and it consumes no rows.
    """

    def __init__(
        self,
        *,
        rows: Mapping[str, Rows],
        micro_batch: int,
        rows_per_source: int,
        rank: int = 0,
        world: int = 1,
    ) -> None:
        self._rows = list(rows.values())
        self._rank, self._world = rank, world
        self._batches: list[tuple[int, list[int]]] = []
        for source, each in enumerate(self._rows):
            number = min(rows_per_source, len(each))
            chosen = (np.arange(number) * len(each) // number).tolist()
            self._batches += [
                (source, chosen[at : at + micro_batch]) for at in range(0, number, micro_batch)
            ]

    def __len__(self) -> int:
        return -(-len(self._batches) // self._world)

    def __iter__(self) -> Iterator[Batch]:
        for turn in range(len(self)):
            number = turn * self._world + self._rank
            if number < len(self._batches):
                yield self._read(number)
            else:
                spare = self._read(0)
                targets = torch.full_like(spare.targets, IGNORED)
                yield replace(spare, step=number, targets=targets, step_targets=0)

    def _read(self, number: int) -> Batch:
        source, chosen = self._batches[number]
        rows = self._rows[source]
        return collate(
            rows.read(chosen),
            sources=[source] * len(chosen),
            continues=rows.continues,
            step=number,
            step_targets=int(rows.targets(chosen).sum()),
            rows_after=0,
            tokens_after=0,
        )
