"""Batches: the input of a training step, and the counts that make its loss exact.

The loss of an optimizer step is a sum over targets divided by `step_targets`, the number of scored
targets of the whole global batch, over all ranks and micro-batches. So, unlike a mean of means, it
does not depend on how the global batch is divided. Position ids are not here: bipe.positions
derives them from the marks on the device.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Int, UInt8
from torch import Tensor

from train.data.rows.packing import Row

IGNORED = -100
_DOCUMENT = np.uint8(1)  # the bit of a mark where a document starts


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Rows of a micro-batch. *Shape:* ``(batch, time)`` unless noted.

    targets: -100 where the next token is padding, starts another document or is not scored.
    padding: True where a token is padding; None if there is none. carry: ``(batch, column)``, see
    bipe.positions.Carry.from_columns; None if positions restart. source: ``(batch)``, index into
    the sources. packed: False promises that each row is one document without padding.
    step: number of the optimizer step, from 0. step_targets: scored targets of its global batch.
    rows_after, tokens_after: global rows, and inputs in tokens, consumed once the step is done.
    """

    tokens: Int[Tensor, "batch time"]
    targets: Int[Tensor, "batch time"]
    marks: UInt8[Tensor, "batch time"]
    padding: Bool[Tensor, "batch time"] | None
    carry: Int[Tensor, "batch column"] | None
    source: Int[Tensor, " batch"]
    packed: bool
    step: int
    step_targets: int
    rows_after: int
    tokens_after: int

    def to(self, device: torch.device | str, *, non_blocking: bool = False) -> Batch:
        return self._each(lambda tensor: tensor.to(device, non_blocking=non_blocking))

    def pinned(self) -> Batch:
        """Return the batch in page-locked memory, from which a GPU copies while it computes."""
        return self._each(Tensor.pin_memory)

    def _each(self, change: Callable[[Tensor], Tensor]) -> Batch:
        changed: dict[str, Any] = {
            field.name: change(value)
            for field in fields(self)
            if isinstance(value := getattr(self, field.name), Tensor)
        }
        return replace(self, **changed)


def collate(
    rows: Sequence[Row],
    *,
    sources: Sequence[int],
    continues: bool,
    step: int,
    step_targets: int,
    rows_after: int,
    tokens_after: int,
) -> Batch:
    """Stack rows of equal length; continues: whether to keep their carries."""
    tokens = np.stack([row.tokens for row in rows])
    marks = np.stack([row.marks for row in rows])
    targets = tokens[:, 1:].copy()
    # Starts of documents are few, and found fastest in one flat array.
    row, place = np.divmod(np.flatnonzero((marks & _DOCUMENT).view(bool)), tokens.shape[1])
    row, place = row[place > 0], place[place > 0]
    targets[row, place - 1] = IGNORED
    for at, one in enumerate(rows):
        if one.scored is not None:
            targets[at, ~one.scored[1:]] = IGNORED
    padding = None
    if any(row.padding for row in rows):
        real = np.array([[tokens.shape[1] - row.padding] for row in rows])
        padding = np.arange(tokens.shape[1]) >= real
        targets[padding[:, 1:]] = IGNORED
        if not padding[:, :-1].any():
            padding = None  # only last targets are padding, no inputs
    return Batch(
        tokens=torch.from_numpy(tokens[:, :-1].copy()),
        targets=torch.from_numpy(targets),
        marks=torch.from_numpy(marks[:, :-1].copy()),
        padding=None if padding is None else torch.from_numpy(padding[:, :-1].copy()),
        carry=torch.from_numpy(np.stack([row.carry for row in rows])) if continues else None,
        source=torch.tensor(list(sources), dtype=torch.int64),
        packed=padding is not None or bool((place < targets.shape[1]).any()),
        step=step,
        step_targets=step_targets,
        rows_after=rows_after,
        tokens_after=tokens_after,
    )
