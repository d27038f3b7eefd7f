"""Perplexity of models over seeds: means, 95% intervals, and each against the first, seed by seed.

    python -m benchmarks.seeds natural=RUN,RUN,RUN shuffled=RUN,RUN,RUN [--json FILE]

Reads the evaluation.jsonl of runs that differ by their seed; the first arm is the one that others
are compared with. Runs of one seed had the same batches and the same weights to start from, so
differences are means over seeds of the difference on one seed. Intervals are Student's.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.workers import parser_of, write
from train.fit.checkpoints import Place
from train.report.load import load
from train.report.table import Arm, Results

Cell = dict[str, Any]


def folders(words: Sequence[str]) -> dict[str, list[Path]]:
    """Return the run folders of each arm, given as NAME=RUN,RUN."""
    named = {}
    for word in words:
        name, _, listed = word.partition("=")
        named[name] = [Path(folder) for folder in listed.split(",") if folder]
        if len(named[name]) < 2:
            raise SystemExit(f"{word}: an arm is NAME=RUN,RUN[,RUN...], two seeds at least")
    return named


def arms(results: Results, named: dict[str, list[Path]]) -> dict[str, Arm]:
    """Return the arms by the names that they were given; they must be those of the runs."""
    places = {run.folder.resolve(): arm for arm in results.arms for run in arm.runs}
    found = {}
    for name, listed in named.items():
        own = {places[folder.resolve()].label: places[folder.resolve()] for folder in listed}
        if len(own) != 1:
            raise SystemExit(f"{name}: these runs differ in more than their seed: {listed}")
        (found[name],) = own.values()
    return found


def summary(named: dict[str, list[Path]]) -> dict[str, Any]:
    """Return all cells, by source, arm and length, with the machine and what was measured how."""
    results = load(Place.of(folder) for listed in named.values() for folder in listed)
    found = arms(results, named)
    first = next(iter(found.values()))
    cells = results.cells("perplexity")
    return {
        "environment": dict(results.runs[0].machine),
        "protocol": cells.note.iloc[0],
        "row_length": first.row_length,
        "seeds": [run.seed for run in first.runs],
        "sources": {
            source: {name: _of_arm(results, arm, first, source) for name, arm in found.items()}
            for source in cells.source.drop_duplicates()
        },
    }


def _of_arm(results: Results, arm: Arm, first: Arm, source: str) -> dict[str, Cell]:
    """Return by length a mean with its interval, the seeds, and the ratio to the first arm."""
    rows = results.table[
        (results.table.measure == "perplexity")
        & (results.table.arm == arm.label)
        & (results.table.source == source)
        & (results.table.variant == "")
    ].sort_values("seed")
    ratios = results.ratios(arm, first)
    made: dict[str, Cell] = {}
    for mean in results.cells("perplexity", source=source, arm=arm.label).itertuples():
        cell: Cell = {"mean": mean.value, "low": mean.low, "high": mean.high}
        cell = {name: round(value, 4) for name, value in cell.items()}
        cell["seeds"] = [round(value, 4) for value in rows[rows.length == mean.length].value]
        if arm is not first:
            at = ratios[(ratios.source == source) & (ratios.length == mean.length)]
            for ratio in at.itertuples():
                cell["ratio"] = round(ratio.value, 4)
                cell["ratio_interval"] = [round(ratio.low, 4), round(ratio.high, 4)]
        made[f"{mean.length:.0f}"] = cell
    return made


def show(found: dict[str, Any]) -> None:
    """Print one line for each arm and source."""
    for source, by_arm in found["sources"].items():
        print(f"\n{source}: perplexity [95% interval], and its percentage of the first arm's")
        for name, cells in by_arm.items():
            shown = "  ".join(f"{n}: {_shown(cell)}" for n, cell in cells.items())
            print(f"  {name:<12} {shown}")


def _shown(cell: Cell) -> str:
    text = f"{cell['mean']:.2f} [{cell['low']:.2f}, {cell['high']:.2f}]"
    if "ratio" not in cell:
        return text
    low, high = cell["ratio_interval"]
    clear = "*" if (low > 1) == (high > 1) else ""
    return f"{text} {100 * cell['ratio']:.1f}%{clear}"


def main(words: Sequence[str] | None = None) -> int:
    """Print the table and write the JSON."""
    parser = parser_of(__doc__)
    parser.add_argument("arms", nargs="+", metavar="NAME=RUN,RUN")
    given = parser.parse_args(words)
    found = summary(folders(given.arms))
    show(found)
    if given.json:
        write(given.json, found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
