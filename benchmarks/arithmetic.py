"""Arithmetic by chains, over seeds: what was answered, and whether BiPE-RoPE is ahead of RoPE.

    python -m benchmarks.arithmetic [RUNS] [--json FILE]

Reads the evaluation.jsonl of the runs of `make arithmetic` (trained on 1 to 4 operators). It fails
unless every seed of BiPE-RoPE has more right tokens at 6 operators than every seed of RoPE; of
other comparisons at this scale nothing is claimed.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.workers import parser_of, write
from train.disk.files import read_json
from train.evals.arithmetic import TASK
from train.evals.rows import FILE, Journal, Row
from train.fit.checkpoints import Place
from train.fit.runs import ENVIRONMENT
from train.fit.trained_run import read_run

AT = 6  # operators
MEASURES = ("answer", "steps", "tokens")


def collected(folder: Path) -> dict[str, dict[int, list[Row]]]:
    """Return the rows of arithmetic of each model and seed."""
    found: dict[str, dict[int, list[Row]]] = {}
    for path in sorted(folder.glob(f"*/{FILE}")):
        if rows := [row for row in Journal(path).rows() if row.task == TASK]:
            run = read_run(Place.of(path.parent))
            found.setdefault(run.model_name, {})[run.seed or 0] = rows
    return found


def shares(rows: Sequence[Row], measure: str) -> dict[int, float]:
    """Return the share right, or another measure, by number of operators."""
    found = {row.operators or 0: row.value or 0.0 for row in rows if row.measure == measure}
    return dict(sorted(found.items()))


def ahead(found: Mapping[str, Mapping[int, Sequence[Row]]]) -> bool:
    """Return whether each seed of BiPE-RoPE has more right tokens at AT operators than any RoPE."""
    at = {
        name: [shares(rows, "tokens")[AT] for rows in seeds.values()]
        for name, seeds in found.items()
    }
    return min(at["BiPE-RoPE"]) > max(at["RoPE"])


def summary(found: Mapping[str, Mapping[int, Sequence[Row]]]) -> dict[str, Any]:
    """Return the shares of every seed and their mean, by model, measure and operators."""
    first = next(rows for seeds in found.values() for rows in seeds.values())
    models: dict[str, Any] = {}
    for name, seeds in found.items():
        models[name] = {}
        for measure in MEASURES:
            by_seed = {
                seed: [round(share, 4) for share in shares(rows, measure).values()]
                for seed, rows in sorted(seeds.items())
            }
            means = [round(fmean(column), 4) for column in zip(*by_seed.values(), strict=True)]
            models[name][measure] = {"seeds": by_seed, "mean": means}
    return {
        "protocol": next(row.note for row in first if row.measure == MEASURES[0]),
        "operators": list(shares(first, MEASURES[0])),
        "problems": list(shares(first, "problems").values()),
        "models": models,
    }


def main(words: Sequence[str] | None = None) -> int:
    """Print a table, write the JSON, say whether the claim holds."""
    parser = parser_of(__doc__)
    parser.add_argument("runs", nargs="?", type=Path, default=Path("runs/arithmetic_small"))
    given = parser.parse_args(words)
    found = collected(given.runs)
    if not {"RoPE", "BiPE-RoPE"} <= set(found):
        print(f"{given.runs}: contains no evaluated RoPE and BiPE-RoPE; run make arithmetic")
        return 2
    measured_on = next(map(read_json, sorted(given.runs.glob(f"*/{ENVIRONMENT}"))), None)
    told = {"environment": measured_on, **summary(found)}
    print(f"share right at {told['operators']} operators, mean over seeds")
    for name, measures in told["models"].items():
        cells = "   ".join(
            f"{measure} " + " ".join(f"{share:.3f}" for share in measures[measure]["mean"])
            for measure in MEASURES
        )
        print(f"{name:12} {len(found[name])} seeds   {cells}")
    if given.json:
        write(given.json, told)
    holds = ahead(found)
    print(f"BiPE-RoPE above RoPE in right tokens at {AT} operators, every seed: {holds}")
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
