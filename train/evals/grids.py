"""What was measured as tables by length and by number of operators; means over depths.

A grid has a line for each measure and a column for each place on its axis.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from statistics import fmean

from rich.console import Group
from rich.table import Table
from rich.text import Text

from segmenters.wording import escaped
from train.evals.rows import LEFT_OUT, Row

# Measures without a line in the table.
_DETAILS = {
    "nll", "bits_per_byte", "tokens_scored", "documents", "trials", "chance", "first", "second",
    "steps", "tokens", "problems", "trained_operators", LEFT_OUT,
}  # fmt: skip
_PREFIXES = ("as_averaged_by_", "distance_", "trial_", "document_")
_AXES = ("length", "operators")


def summary(rows: Iterable[Row], *, title: str) -> Group:
    """Return the tables for a terminal."""
    tables = []
    for axis, places, lines in grids(rows):
        heading = f"{title}, by {axis}" if axis else title
        table = Table(title=Text(escaped(heading)), title_justify="left")
        table.add_column("")
        for place in places:
            table.add_column(place, justify="right")
        for name, cells in lines.items():
            table.add_row(Text(escaped(name)), *cells)
        tables.append(table)
    return Group(*tables)


def as_markdown(rows: Iterable[Row]) -> str:
    """Return the tables in Markdown; empty for no rows."""
    tables = []
    for axis, places, lines in grids(rows):
        head = f"| {axis} | {' | '.join(places)} |\n|---{'|---:' * len(places)}|"
        body = (f"| {name} | {' | '.join(cells)} |" for name, cells in lines.items())
        tables.append("\n".join([head, *body]))
    return "\n\n".join(tables)


def grids(rows: Iterable[Row]) -> Iterator[tuple[str, list[str], dict[str, list[str]]]]:
    """Yield the unit of an axis, its places, and the cells of each line, for each axis."""
    shown = sorted(filter(_is_shown, rows), key=lambda row: bool(row.variant))
    for axis, unit in (("length", "tokens"), ("operators", "operators"), ("", "")):
        values: dict[tuple[str, str], dict[int | None, list[float]]] = {}
        for row in shown:
            if axis == next((name for name in _AXES if getattr(row, name) is not None), ""):
                words = (row.variant, row.task, row.measure, row.source)
                line = values.setdefault((" ".join(filter(None, words)), row.measurement), {})
                if row.value is not None:
                    line.setdefault(getattr(row, axis) if axis else None, []).append(row.value)
        if lines := {names: line for names, line in values.items() if line}:
            places = sorted({at for line in lines.values() for at in line}, key=lambda at: at or 0)
            several = Counter(name for name, _ in lines)
            yield (
                unit,
                ["" if at is None else str(at) for at in places],
                {
                    f"{name}: {by}" if several[name] > 1 else name: [
                        f"{fmean(line[at]):.4g}" if at in line else "" for at in places
                    ]
                    for (name, by), line in lines.items()
                },
            )


def _is_shown(row: Row) -> bool:
    plain = row.number is None and row.start is None
    return plain and row.measure not in _DETAILS and not row.measure.startswith(_PREFIXES)
