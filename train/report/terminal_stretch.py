"""The table of a sweep over ways to stretch, for the terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich.table import Table

from train.report.compare import highest, lowest
from train.report.formats import count, percent, short
from train.report.records import Run
from train.report.terminal import block


def stretch_table(runs: Sequence[Run]) -> Table:
    """Perplexity on each source and passkey found, by model, method and length; the best bold."""
    held = [run for run in runs if run.stretched]
    columns = sorted({length for run in held for line in run.stretched for length in line.lengths})
    sources = list(
        dict.fromkeys(name for run in held for line in run.stretched for name in line.perplexity)
    )
    table = Table(title="Stretched models against length in tokens", title_justify="left")
    table.add_column("model, method (original length)", no_wrap=True)
    for length in columns:
        table.add_column(count(length), justify="right")
    for source in sources:
        blocks = [
            (run, {line.name: _at(line, line.perplexity.get(source), columns)
                   for line in run.stretched})
            for run in held
        ]  # fmt: skip
        for run, values in blocks:
            block(table, f"perplexity, {source}: {run.label}", values, best=lowest, write=short)
    for run in held:
        shares = {line.name: _at(line, line.passkey, columns) for line in run.stretched}
        if any(share is not None for line in shares.values() for share in line):
            block(table, f"passkey found: {run.label}", shares, best=highest, write=percent)
    return table


def _at(line, values, columns: Sequence[int]) -> list[float | None]:
    """Values at the lengths of the table; None where nothing was measured."""
    known = dict(zip(line.lengths, values or (), strict=False))
    found = (known.get(length) for length in columns)
    return [None if value is None or math.isnan(value) else value for value in found]
