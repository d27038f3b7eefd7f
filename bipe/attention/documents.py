"""Packed rows: nothing attends across documents.

On the CPU a row is taken apart and each document attends on its own: exact, and cheaper than a
mask (6 documents a row: 0.44 of the time of one). Padding counts as a document of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

Attention = Callable[[Tensor, Tensor, Tensor], Tensor]


@dataclass(frozen=True, slots=True)
class Span:
    """A document in a packed batch: tokens `start` to `stop` of row `row`."""

    row: int
    start: int
    stop: int


def document_spans(document: Int[Tensor, "batch time"]) -> list[list[Span]]:
    """Where the documents of each row begin and end. Reads the ids on the host: CPU only.

    document 0 0 0 1 1    ->  [Span(0, 0, 3), Span(0, 3, 5)]
    """
    batch, time = document.shape
    changes = (document[:, 1:] != document[:, :-1]).nonzero().tolist()
    edges: list[list[int]] = [[0] for _ in range(batch)]
    for row, before in changes:
        edges[row].append(before + 1)
    return [
        [Span(row, *pair) for pair in zip(starts, [*starts[1:], time], strict=True)]
        for row, starts in enumerate(edges)
    ]


@dataclass(frozen=True, slots=True)
class ByDocument:
    """Attention of packed rows: each document's own, and the pieces put back.

    spans: the documents of each row, with their attention. It stays out of compiled graphs: where
    documents lie changes with every batch, and each layout would be compiled anew.
    """

    spans: list[list[tuple[Span, Attention]]]

    @torch.compiler.disable
    def __call__(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """q, k, v: ``[b, h, t, d]``."""
        rows = []
        for row, documents in enumerate(self.spans):
            lengths = [span.stop - span.start for span, _ in documents]
            # split and unbind, not slices: the backward of a slice fills a whole zero tensor.
            pieces = zip(*(x[row : row + 1].split(lengths, 2) for x in (q, k, v)), strict=True)
            outs = [attend(*piece) for (_, attend), piece in zip(documents, pieces, strict=True)]
            rows.append(torch.cat(outs, 2))
        return torch.cat(rows)
