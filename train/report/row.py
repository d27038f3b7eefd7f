"""A number of the report as one flat row: the type of all rows, whatever was measured."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One number; `document_*` bound the length of the documents.

    low, high: bounds of a bin, or the ends of a 95% interval. task: of SCROLLS, or a probe.
    """

    model: str = ""
    seed: int | None = None
    source: str = ""
    measure: str
    unit: str
    task: str = ""
    length: int | None = None
    depth: float | None = None
    operators: int | None = None
    low: float | None = None
    high: float | None = None
    document_low: int | None = None
    document_high: int | None = None
    value: float | None
    note: str = ""
