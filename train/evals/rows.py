"""The row of a measurement: one number, where it was measured, its unit, and its 95% interval.

    RUN/evaluation.jsonl    one row per line, appended as soon as it is known

A cell is a group of rows measured together (one length of one source, one task); its key is a
digest of everything that determines the result. A partly written cell counts as not measured. Of
two cells with one name, the later one counts.
"""

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from statistics import stdev
from typing import Any

import numpy as np

from train.disk.files import append, write_whole
from train.errors import DataError
from train.fit.runs import EVALUATION
from train.fit.trained_run import TrainedRun

FILE = EVALUATION
# Next to the row's fields: its cell, its place in it, the cell's size; on the first line of a cell
# also its name, the sha256 of the measured weights, and a digest of its rows.
_CELL, _PLACE, _OF, _NAME, _WEIGHTS = "cell", "place", "of", "name", "weights"
_DIGEST = "digest"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One number. Fields that do not apply are empty or None.

    arm: equal for runs that differ only by their seed (fit/runs.py). variant: how a trained model
    was changed before measuring ("yarn (segments)"). source: of the data, or the split of a task.
    task: a probe, a task of SCROLLS, or arithmetic. length: of the context, in tokens.
    step: of the training whose weights were measured; None: the trained model. depth: 0 is
    the start of the context. start, stop: the bin of positions or sizes. number: of a document or
    trial. low, high: the 95% interval. note: the protocol, in words. measurement: by what and on
    which texts, in short: numbers of different ones are not to be compared.
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
    step: int | None = None
    depth: float | None = None
    operators: int | None = None
    start: float | None = None
    stop: float | None = None
    number: int | None = None
    value: float | None
    low: float | None = None
    high: float | None = None
    note: str = ""
    measurement: str = ""


LEFT_OUT = "left_out"  # measure of a cell that was not measured; its note is the reason
_VALUES = ("value", "low", "high", "note")
PLACE = tuple(field.name for field in fields(Row) if field.name not in _VALUES)


def of_run(rows: Iterable[Row], run: TrainedRun, **at: Any) -> list[Row]:
    """Return the rows with the names of their run; at: further fields."""
    return [replace(row, run=run.name, arm=run.arm, seed=run.seed, **at) for row in rows]


def key_of(depends_on: Any) -> str:
    """Return the key of a cell: a digest of the plain values that its rows depend on."""
    text = json.dumps(depends_on, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def left_out(reason: str, **place: Any) -> list[Row]:
    """Return the rows of a cell that is not measured; in the journal, it is not tried again."""
    return [Row(measure=LEFT_OUT, value=None, note=reason, **place)]


Interval = tuple[float, float]

# 97.5% points of Student's t for 1, 2, 3 ... degrees of freedom; 2.0 is used beyond (2.08 to 1.96).
_T = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
)  # fmt: skip
_Z = 1.959963984540054  # 95% of a normal distribution is within +- this
_LEVEL = 0.95
_RESAMPLES = 1000


def half_width(values: Sequence[float]) -> float:
    """Return half the width of Student's interval of a mean; infinite for a single value."""
    if len(values) < 2:
        return math.inf
    if not all(map(math.isfinite, values)):
        return math.nan
    freedom = len(values) - 1
    return (_T[freedom - 1] if freedom <= len(_T) else 2.0) * stdev(values) / math.sqrt(len(values))


def wilson(right: int, total: int) -> Interval:
    """Return Wilson's (1927) interval of a share, sound for few trials, but not for none."""
    share, weight = right / total, _Z * _Z / total
    centre = (share + weight / 2) / (1 + weight)
    half = math.sqrt(weight * share * (1 - share) + weight * weight / 4) / (1 + weight)
    low = 0.0 if right == 0 else centre - half
    return low, 1.0 if right == total else centre + half


def over_documents(sums: np.ndarray, tokens: np.ndarray) -> Interval:
    """Return the bootstrap interval (Efron, 1979) of the mean loss per token over documents.

    sums, tokens: of each document. NaN for fewer than two, and for losses that are not finite.
    """
    sums, tokens = sums[tokens > 0], tokens[tokens > 0]
    if len(sums) < 2 or not np.isfinite(sums).all():
        return math.nan, math.nan
    drawn = np.random.default_rng(0).integers(len(sums), size=(_RESAMPLES, len(sums)))
    means = sums[drawn].sum(1) / tokens[drawn].sum(1)
    low, high = np.quantile(means, [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2])
    return float(low), float(high)


@dataclass(frozen=True, slots=True)
class _Measured:
    rows: list[Row]
    name: str
    weights: str

    def digest(self, key: str) -> str:
        return key_of([key, self.name, self.weights, [*map(_filled, self.rows)]])[:16]

    def lines(self, key: str) -> str:
        about = {_NAME: self.name, _WEIGHTS: self.weights, _DIGEST: self.digest(key)}
        about = {name: value for name, value in about.items() if value}
        lines = (
            {_CELL: key, _PLACE: place, _OF: len(self.rows), **(about if not place else {}),
             **_filled(row)}
            for place, row in enumerate(self.rows)
        )  # fmt: skip
        return "".join(f"{json.dumps(line, allow_nan=False)}\n" for line in lines)


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

    def __getitem__(self, key: str) -> list[Row]:
        return self._cells[key].rows

    def append(self, key: str, rows: Iterable[Row], *, name: str = "", weights: str = "") -> None:
        """Write the rows of a cell at the end of the file, and wait for the disk.

        weights: sha256 of the measured weights, without which `forget_others` keeps the cell.
        """
        cell = _Measured([_finite(row) for row in rows], name, weights)
        append(self.path, cell.lines(key))
        self._cells.pop(key, None)
        self._cells[key] = cell

    def renew(self, key: str) -> None:
        """Restore a cell that a later cell of its name has replaced."""
        if self._cells[key] not in self._counting():
            cell = self._cells[key]
            self.append(key, cell.rows, name=cell.name, weights=cell.weights)

    def forget_others(self, weights: str, *, step: int | None) -> None:
        """Remove the cells of a step, or of the trained model, measured on other weights."""
        kept = {
            key: cell
            for key, cell in self._cells.items()
            if cell.weights in ("", weights) or cell.rows[0].step != step
        }
        if len(kept) < len(self._cells):
            write_whole(self.path, "".join(cell.lines(key) for key, cell in kept.items()))
            self._cells = kept

    def rows_at(self, step: int | None) -> list[Row]:
        """Return the rows that count of a step, or of the trained model."""
        return [row for row in self.rows() if row.step == step]

    def rows(self, *, replaced: bool = False, weights: str = "") -> list[Row]:
        """Return all rows that count; of several in one place, the last written.

        replaced: also those by other measurements, which a later cell of their name replaced.
        weights: sha256 of those that were measured; empty: any.
        """
        latest: dict[tuple[Any, ...], Row] = {}
        cells = self._counting(replaced=replaced)
        cells = [cell for cell in cells if not weights or cell.weights in ("", weights)]
        for row in (row for cell in cells for row in cell.rows):
            place = tuple(getattr(row, name) for name in PLACE)
            latest.pop(place, None)
            latest[place] = row
        return list(latest.values())

    def _counting(self, *, replaced: bool = False) -> list[_Measured]:
        names = {key: (cell.name or key, cell.rows[0].measurement if replaced else "")
                 for key, cell in self._cells.items()}  # fmt: skip
        last = {name: key for key, name in names.items()}
        return [cell for key, cell in self._cells.items() if last[names[key]] == key]


def _whole_cells(path: Path) -> dict[str, _Measured]:
    """Return the complete cells of a file, in the order of their last rows."""
    cells: dict[str, tuple[_Measured, int]] = {}
    digests = {}  # older versions wrote none
    for line, row in _lines(path):
        key, size = line[_CELL], int(line[_OF])
        cell, _ = cells.pop(key, (None, 0))
        if cell is None or line[_PLACE] == 0:  # also after an incomplete attempt
            cell = _Measured([], line.get(_NAME, ""), line.get(_WEIGHTS, ""))
            digests[key] = line.get(_DIGEST)
        if line[_PLACE] == len(cell.rows):
            cell.rows.append(row)
        cells[key] = cell, size
    whole = {key: cell for key, (cell, size) in cells.items() if len(cell.rows) == size}
    for key, cell in whole.items():
        if digests[key] not in (None, cell.digest(key)):
            raise DataError(
                f"{path}: the lines of {cell.name or key!r} have changed since they were written. "
                f"Remove the lines with {key}, and run bipe evaluate again"
            )
    return whole


def _lines(path: Path) -> Iterator[tuple[dict[str, Any], Row]]:
    names = {field.name for field in fields(Row)}
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            continue  # the process was killed while writing: the cell is incomplete
        try:
            row = Row(**{name: value for name, value in entry.items() if name in names})
            int(entry[_PLACE]), int(entry[_OF]), entry[_CELL]
        except (AttributeError, ValueError, KeyError, TypeError) as fault:
            raise DataError(
                f"{path}: line {number} is not a measurement ({fault}). Remove the line "
                "or the file, and run bipe evaluate again"
            ) from None
        yield entry, row


def _filled(row: Row) -> dict[str, Any]:
    return {
        name: value
        for name, value in asdict(row).items()
        if name == "value" or (value is not None and value != "")
    }


def _finite(row: Row) -> Row:
    """Replace numbers that are not finite by None, as strict JSON asks; note such a value."""
    value, low, high = (
        None if number is None or not math.isfinite(number) else number
        for number in (row.value, row.low, row.high)
    )
    note = row.note
    if value is None and row.value is not None:
        note = f"{note} (not finite: {row.value})".lstrip()
    return replace(row, value=value, low=low, high=high, note=note)
