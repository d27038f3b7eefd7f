"""The report's main numbers as one table for the terminal.

Names come from outside and are never read as rich's console markup.
"""

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from train.report.compare import (
    found,
    highest,
    lengths,
    lowest,
    measured,
    passkey_lengths,
    retrievals,
    sources,
    trained_length,
)
from train.report.formats import DASH, TIMES, count, percent, short
from train.report.markup import visible
from train.report.records import Run
from train.report.sections.arithmetic import asked, mean


def summary_table(runs: Sequence[Run]) -> Table:
    """Perplexity of each source, then retrieval, by model and length; the best are bold."""
    measured_at = {n for source in sources(runs) for n in lengths(runs, source)}
    columns = sorted(measured_at | set(passkey_lengths(runs)))
    table = Table(title="Perplexity and retrieval against length in tokens", title_justify="left")
    table.add_column("model", no_wrap=True)
    trained = trained_length(runs)
    for length in columns:
        ratio = f"\n{length / trained:.3g}{TIMES}" if trained else ""
        table.add_column(f"{count(length)}{ratio}", justify="right")
    for source in sources(runs):
        values = {
            run.label: [measured(run, source, n) for n in columns]
            for run in runs
            if source in run.scores
        }
        _block(table, f"perplexity, {source}", values, best=lowest, write=short)
    shares = {label: found(passkey) for label, passkey in retrievals(runs).items()}
    if shares:
        lines = {label: [means.get(n) for n in columns] for label, means in shares.items()}
        _block(table, "passkey found", lines, best=highest, write=percent)
    return table


def arithmetic_table(runs: Sequence[Run]) -> Table | None:
    """Right answers by model and number of operators; None where none was asked for."""
    held = {run.label: asked(run) for run in runs if asked(run)}
    if not held:
        return None
    columns = sorted({n for found in held.values() for each in found for n in each.operators})
    table = Table(title="Arithmetic against the number of operators", title_justify="left")
    table.add_column("model", no_wrap=True)
    for operators in columns:
        table.add_column(str(operators), justify="right")
    for measure in ("answer", "steps", "tokens"):
        lines = {label: [mean(found, measure, n) for n in columns] for label, found in held.items()}
        _block(table, f"right {measure}", lines, best=highest, write=percent)
    return table


def _block(table: Table, title: str, values, *, best, write) -> None:
    table.add_section()
    table.add_row(Text(visible(title), style="dim"))
    bests = [best(column, write) for column in zip(*values.values(), strict=True)]
    for label, numbers in values.items():
        cells = [DASH if number is None else write(number) for number in numbers]
        table.add_row(
            Text(visible(label)),
            *(Text(c, style="bold" if c == b else "") for c, b in zip(cells, bests, strict=True)),
        )
