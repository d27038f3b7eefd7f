"""The rows of a run as a short table for the terminal."""

from collections import defaultdict
from collections.abc import Iterable
from statistics import fmean

from rich.console import Group
from rich.table import Table
from rich.text import Text

from train.evals.rows import LEFT_OUT, Row

# Measures without a line in the table.
_DETAILS = {
    "nll", "bits_per_byte", "tokens_scored", "documents", "trials", "chance", "first", "second",
    "steps", "tokens", "problems", "trained_operators", LEFT_OUT,
}  # fmt: skip
_PREFIXES = ("published_", "distance_", "trial_", "document_")


def summary(rows: Iterable[Row], *, title: str) -> Group:
    """Return what was measured by length and by number of operators; means over depths."""
    shown = sorted(filter(_is_shown, rows), key=lambda row: bool(row.variant))
    tables = []
    for axis, heading in (("length", "tokens"), ("operators", "operators"), ("", "")):
        own = [row for row in shown if _axis(row) == axis]
        if own:
            tables.append(_table(own, axis, f"{title}, by {heading}" if axis else title))
    return Group(*tables)


def _is_shown(row: Row) -> bool:
    plain = row.number is None and row.start is None and row.value is not None
    return plain and row.measure not in _DETAILS and not row.measure.startswith(_PREFIXES)


def _axis(row: Row) -> str:
    return next((axis for axis in ("length", "operators") if getattr(row, axis) is not None), "")


def _table(rows: Iterable[Row], axis: str, title: str) -> Table:
    held: dict[str, dict[int | None, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        words = (row.variant, row.task, row.measure, row.source)
        if row.value is not None:
            place = getattr(row, axis) if axis else None
            held[" ".join(filter(None, words))][place].append(row.value)
    places = sorted({place for line in held.values() for place in line}, key=lambda at: at or 0)
    table = Table(title=Text(title), title_justify="left")
    table.add_column("")
    for place in places:
        table.add_column("" if place is None else str(place), justify="right")
    for name, line in held.items():
        cells = (f"{fmean(line[place]):.4g}" if line[place] else "" for place in places)
        table.add_row(Text(name), *cells)
    return table
