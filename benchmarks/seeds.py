"""Perplexity of models over seeds: means, 95% intervals, and each against the first, seed by seed.

    python -m benchmarks.seeds natural=RUN,RUN,RUN shuffled=RUN,RUN,RUN [--json FILE]

Reads the evaluation.json of runs that differ by their seed; the first arm is the one that others
are compared with. Runs of one seed had the same batches and the same weights to start from, so
differences are means over seeds of the difference on one seed. Intervals are Student's.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from train.report.compare import lengths, measured, sources
from train.report.load import load_runs
from train.report.means import merged
from train.report.records import Run
from train.report.seeds import difference

Cell = dict[str, float | int | list[float]]


def arm(told: str) -> Run:
    """NAME=RUN,RUN as the mean of the runs."""
    name, _, folders = told.partition("=")
    runs = load_runs([Path(folder) for folder in folders.split(",") if folder])
    by_seed = sorted(runs, key=lambda run: run.training.seed or 0)
    if len(by_seed) < 2:
        raise SystemExit(f"{told}: an arm is NAME=RUN,RUN[,RUN...], two seeds at least")
    return replace(merged(by_seed), label=name)


def cell(one: Run, first: Run, source: str, length: int) -> Cell | None:
    """A mean with its interval, the values of the seeds, and the ratio to the first arm."""
    value = measured(one, source, length)
    if value is None:
        return None
    half: float = measured(one, source, length, "half_widths")  # type: ignore[assignment]
    seeds = [measured(run, source, length) for run in one.members]
    found: Cell = {
        "mean": round(value, 4),
        "low": round(value * math.exp(-half), 4),
        "high": round(value * math.exp(half), 4),
        "seeds": [round(each, 4) for each in seeds if each is not None],
    }
    against = None if one is first else difference(one, first, source, length)
    if against is not None:
        ends = [against.ratio * math.exp(side * against.half) for side in (-1, 1)]
        found["ratio"] = round(against.ratio, 4)
        found["ratio_interval"] = [round(end, 4) for end in ends]
    return found


def summary(arms: Sequence[Run]) -> dict[str, Any]:
    """All cells, by source, arm and length, with the machine and what was measured how."""
    first = arms[0]
    return {
        "environment": dict(first.members[0].environment),
        "protocol": first.protocol,
        "row_length": first.training.row_length,
        "seeds": [run.training.seed for run in first.members],
        "sources": {
            source: {
                one.label: {
                    str(n): found
                    for n in lengths([one], source)
                    if (found := cell(one, first, source, n)) is not None
                }
                for one in arms
            }
            for source in sources(arms)
        },
    }


def show(told: dict[str, Any]) -> None:
    """One line an arm and source."""
    for source, by_arm in told["sources"].items():
        print(f"\n{source}: perplexity [95% interval], and its percentage of the first arm's")
        for name, cells in by_arm.items():
            shown = "  ".join(f"{n}: {_shown(found)}" for n, found in cells.items())
            print(f"  {name:<12} {shown}")


def _shown(found: Cell) -> str:
    text = f"{found['mean']:.2f} [{found['low']:.2f}, {found['high']:.2f}]"
    if "ratio" not in found:
        return text
    low, high = found["ratio_interval"]  # type: ignore[misc]
    clear = "*" if (low > 1) == (high > 1) else ""
    return f"{text} {100 * found['ratio']:.1f}%{clear}"  # type: ignore[operator]


def main(words: Sequence[str] | None = None) -> int:
    """Print the table and write the JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("arms", nargs="+", metavar="NAME=RUN,RUN")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args(words)
    told = summary([arm(one) for one in given.arms])
    show(told)
    if given.json:
        given.json.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
