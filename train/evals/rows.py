"""The row of a measurement: one number, where it was measured, and in which unit.

    RUN/evaluation.jsonl    one row a line, appended as soon as it is known

Whatever is measured is rows of this one kind, from the loop that measures (loop.py) to the tables
and figures of the report. Rows are grouped in cells: a cell is what is measured at once (one length
of one source, one task), and its key is a digest of all that the result depends on. The rows of a
cell are appended together; a cell that a killed process left half-written counts as not measured.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from train.disk.files import append
from train.errors import DataError

FILE = "evaluation.jsonl"
_CELL, _PLACE, _OF = "cell", "place", "of"  # beside the row: its cell, its place there, of how many


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One number. Fields that do not apply are empty or None.

    run: the folder's name. arm: equal for runs that differ by their seed alone (fit/runs.py).
    variant: how a trained model was changed before it was measured ("yarn (segments)"); empty: not.
    source: of the data, or the split of a task. task: a probe, a task of SCROLLS, arithmetic.
    length: tokens of context. depth: 0 is the start of the context. operators: of arithmetic.
    start, stop: the bin of positions or sizes that the value is of. number: of a document or trial.
    low, high: the 95% interval of the value. note: the protocol, in words.
    """

    run: str = ""
    arm: str = ""
    seed: int | None = None
    variant: str = ""
    source: str = ""
    task: str = ""
    measure: str
    unit: str = ""
    length: int | None = None
    depth: float | None = None
    operators: int | None = None
    start: float | None = None
    stop: float | None = None
    number: int | None = None
    value: float | None
    low: float | None = None
    high: float | None = None
    note: str = ""


_VALUES = ("value", "low", "high", "note")
PLACE = tuple(field.name for field in fields(Row) if field.name not in _VALUES)


def key_of(depends_on: Any) -> str:
    """Return the key of a cell: a digest of all that its rows depend on, given as plain values."""
    text = json.dumps(depends_on, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


class Journal:
    """The rows of one run on disk, cell by cell.

    >>> journal = Journal(folder / FILE)
    >>> if key not in journal:
    ...     journal.append(key, rows)
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._cells = {} if not path.exists() else _whole_cells(path)

    def __contains__(self, key: str) -> bool:
        return key in self._cells

    def append(self, key: str, rows: Iterable[Row]) -> None:
        """Write the rows of a cell at the end of the file, and wait for the disk."""
        made = [_finite(row) for row in rows]
        lines = [
            json.dumps({_CELL: key, _PLACE: place, _OF: len(made), **_told(row)})
            for place, row in enumerate(made)
        ]
        append(self.path, "".join(f"{line}\n" for line in lines))
        self._cells.pop(key, None)
        self._cells[key] = made

    def rows(self) -> list[Row]:
        """Return all rows; of those at one place the one that was written last."""
        latest: dict[tuple[Any, ...], Row] = {}
        for row in (row for rows in self._cells.values() for row in rows):
            place = tuple(getattr(row, name) for name in PLACE)
            latest.pop(place, None)
            latest[place] = row
        return list(latest.values())


def _whole_cells(path: Path) -> dict[str, list[Row]]:
    """Return the cells of a file of which no row is missing, in the order of their last rows."""
    found: dict[str, list[Row]] = {}
    sizes: dict[str, int] = {}
    for key, place, size, row in _lines(path):
        rows = found.pop(key, [])
        if place == 0:  # also after an attempt that was cut short
            rows = []
        found[key] = [*rows, row] if place == len(rows) else rows
        sizes[key] = size
    return {key: rows for key, rows in found.items() if len(rows) == sizes[key]}


def _lines(path: Path) -> Iterator[tuple[str, int, int, Row]]:
    known = {field.name for field in fields(Row)}
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        try:
            held = json.loads(line)
            row = Row(**{name: value for name, value in held.items() if name in known})
            yield held[_CELL], int(held[_PLACE]), int(held[_OF]), row
        except (ValueError, KeyError, TypeError) as fault:
            if line.endswith(b"}"):
                raise DataError(
                    f"{path}: line {number} is no row of a measurement ({fault}). Remove the line "
                    "or the file, and run bipe evaluate again"
                ) from None
            # Otherwise the process was killed while it wrote.


def _told(row: Row) -> dict[str, Any]:
    """Return what a row says, without the fields that say nothing."""
    return {
        name: value
        for name, value in asdict(row).items()
        if name == "value" or (value is not None and value != "")
    }


def _finite(row: Row) -> Row:
    """Return the row in strict JSON's terms: a value that is not finite is None, and noted."""
    value = row.value
    if value is None or math.isfinite(value):
        return row
    return replace(row, value=None, note=f"{row.note} (not finite: {value})".lstrip())
