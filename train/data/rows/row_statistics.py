"""What a run reads of each source: rows, epochs, padding, documents a row, targets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from train.data.rows.order import Mixture
from train.data.rows.packing import Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class RowStatistics:
    """One source. An epoch is every row of it once.

    rows, documents, tokens: of an epoch. read: rows of the whole run. padding: share of inputs
    that are padding. targets: share of inputs whose next token is scored. documents_per_row:
    documents, or parts of them, in a row. long_documents: share of inputs from documents of at
    least row_length tokens, over the rows that the run reads from.
    """

    source: str
    rows: int
    documents: int
    tokens: int
    read: int
    padding: float
    targets: float
    documents_per_row: float
    long_documents: float

    @property
    def epochs(self) -> float:
        """How often each row is read in the run."""
        return self.read / self.rows


def row_statistics(mixture: Mixture, *, rows: int) -> list[RowStatistics]:
    """Each source of a mixture in a run of so many rows; no token is read for it."""
    read = mixture.deal.counts(rows)
    return [
        _of_source(name, each, number, size)
        for name, each, number, size in zip(
            mixture.names, mixture.rows, read, mixture.sizes, strict=True
        )
    ]


def _of_source(name: str, rows: Rows, read: int, size: int) -> RowStatistics:
    places = len(rows) * rows.row_length
    documents, tokens = len(rows.data), int(rows.data.document_ends[-1])
    return RowStatistics(
        source=name,
        rows=len(rows),
        documents=documents,
        tokens=tokens,
        read=read,
        padding=1 - rows.packed.inputs() / places,
        targets=rows.all_targets() / places,
        documents_per_row=rows.packed.pieces() / len(rows),
        long_documents=rows.long_share(size),
    )


def table(statistics: Sequence[RowStatistics]) -> list[str]:
    """A line for each source under a line of headings."""
    width = max(len("source"), *(len(each.source) for each in statistics))
    head = f"{'source':<{width}} {'rows':>11} {'tokens':>15} {'epochs':>8}"
    head += f" {'padding':>8} {'documents/row':>14} {'targets':>8} {'long':>8}"
    return [head] + [
        f"{each.source:<{width}} {each.rows:>11,} {each.tokens:>15,} {each.epochs:>8.3f}"
        f" {each.padding:>8.2%} {each.documents_per_row:>14.2f} {each.targets:>8.2%}"
        f" {each.long_documents:>8.2%}"
        for each in statistics
    ]
