"""Arithmetic by chains, over seeds: what was answered, and whether BiPE-RoPE is ahead of RoPE.

    python -m benchmarks.arithmetic [RUNS] [--json FILE]

Reads the evaluation.json of the runs of `make arithmetic` (trained on 1 to 4 operators). It fails
unless every seed of BiPE-RoPE has more right tokens at 6 operators than every seed of RoPE; of
other comparisons at this scale nothing is claimed.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

AT = 6  # operators
MEASURES = ("answer", "steps", "tokens")


def collected(folder: Path) -> dict[str, dict[int, dict[str, Any]]]:
    """The arithmetic of each model and seed."""
    found: dict[str, dict[int, dict[str, Any]]] = {}
    for path in sorted(folder.glob("*/evaluation.json")):
        held = json.loads(path.read_text(encoding="utf-8"))
        if held.get("arithmetic"):
            told = held["arithmetic"] | {"environment": held["environment"]}
            found.setdefault(held["model"]["name"], {})[held["training"]["seed"]] = told
    return found


def ahead(found: Mapping[str, Mapping[int, Any]]) -> bool:
    """Whether each seed of BiPE-RoPE has more right tokens at AT operators than each of RoPE."""
    shares = {
        name: [one["tokens"]["share"][one["operators"].index(AT)] for one in seeds.values()]
        for name, seeds in found.items()
    }
    return min(shares["BiPE-RoPE"]) > max(shares["RoPE"])


def summary(found: Mapping[str, Mapping[int, Any]]) -> dict[str, Any]:
    """Shares of every seed and their mean, by model, measure and number of operators."""
    first = next(one for seeds in found.values() for one in seeds.values())
    return {
        "environment": first["environment"],
        "protocol": first["protocol"],
        "operators": first["operators"],
        "problems": first["problems"],
        "models": {
            name: {
                measure: {
                    "seeds": {seed: _shares(one, measure) for seed, one in sorted(seeds.items())},
                    "mean": [
                        round(fmean(column), 4)
                        for column in zip(
                            *(_shares(one, measure) for one in seeds.values()), strict=True
                        )
                    ],
                }
                for measure in MEASURES
            }
            for name, seeds in found.items()
        },
    }


def _shares(one: Mapping[str, Any], measure: str) -> list[float]:
    return [round(share, 4) for share in one[measure]["share"]]


def main(words: Sequence[str] | None = None) -> int:
    """Print a table, write the JSON, say whether the claim holds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", nargs="?", type=Path, default=Path("runs/arithmetic_small"))
    parser.add_argument("--json", type=Path)
    given = parser.parse_args(words)
    found = collected(given.runs)
    if not {"RoPE", "BiPE-RoPE"} <= set(found):
        print(f"{given.runs}: holds no evaluated RoPE and BiPE-RoPE; make arithmetic trains them")
        return 2
    told = summary(found)
    print(f"share right at {told['operators']} operators, mean over seeds")
    for name, measures in told["models"].items():
        cells = "   ".join(
            f"{measure} " + " ".join(f"{share:.3f}" for share in measures[measure]["mean"])
            for measure in MEASURES
        )
        print(f"{name:12} {len(found[name])} seeds   {cells}")
    if given.json:
        given.json.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    holds = ahead(found)
    print(f"BiPE-RoPE above RoPE in right tokens at {AT} operators, every seed: {holds}")
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
