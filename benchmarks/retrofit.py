"""What are segments worth to a model that is trained already? `bipe retrofit`, and its controls.

    bipe prepare -m experiment=segmentation_natural,segmentation_shuffled
    bipe pretrain -m experiment=segmentation_flat seed=0,1,2
    python -m benchmarks.retrofit train [--seeds 0 1 2] [--only NAME ...]
    python -m benchmarks.retrofit show

Each base is RoPE (1.4M tokens in rows of 512), each way trains it on for 245,760 tokens of rows of
512, from the same rows. `train` adds each result to benchmarks/results/retrofit_cpu.json when it is
known, and skips what is there. `show` prints perplexities of two held-out documents per source over
those of the control, which is trained on as it is, at 512 to 8192 tokens, means over seeds with 95%
intervals (Student's), and the tokens after which the validation loss is that of the control at
the end, within 1% of perplexity.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.compositions import keep, percent, results
from benchmarks.workers import machine
from train.cli import main as bipe
from train.disk.files import read_numbers
from train.evals.rows import FILE, Journal

RESULTS = Path(__file__).parent / "results" / "retrofit_cpu.json"
CONTROL, DATA = "control", {"shuffled segments, gated": "shuffled"}
ARMS = {
    CONTROL: "stretch=none",
    "base, untrained": "",
    "gated": "stretch=gated",
    "shuffled segments, gated": "stretch=gated",
    "homotopy": "stretch=homotopy",
    "homotopy, step 1": "stretch=homotopy stretch.step=1.0",
    "swap": "stretch=swap",
    "split, untrained": "stretch=split steps=0",
    "YaRN": "stretch=yarn",
    "DroPE": "stretch=drope",
}
LENGTHS = (1, 4, 16)
Result = dict[str, Any]


def measured(arm: str, seed: int, study: Path) -> Result:
    """Train and measure one model; return its curve and its perplexities by source and length."""
    data = study / DATA.get(arm, "natural") / "data"
    base = run = study / f"flat_{seed}"
    if ARMS[arm]:
        name = "".join(c if c.isalnum() else "_" for c in f"{arm} {seed}")
        run = study / "retrofit" / name
        words = ("experiment=retrofit", f"checkpoint={base}", f"data={data}", f"seed={seed}")
        _call("retrofit", *words, f"out={run.parent}", f"name={name}", *ARMS[arm].split())
    words = (f"data={data}", f"evaluate.runs={run}", "evaluate.documents=2", "evaluate.probes=[]")
    _call("evaluate", *words, f"evaluate.lengths={list(LENGTHS)}".replace(" ", ""))
    perplexity: dict[str, float] = {}
    for row in Journal(run / FILE).rows():
        if row.measure == "perplexity" and row.value is not None:
            perplexity[f"{row.source} {row.length}"] = round(row.value, 4)
    found = read_numbers(run / "metrics.csv") if ARMS[arm] and "steps=0" not in ARMS[arm] else []
    curve = [(row["tokens"], row["validation_loss"]) for row in found if row["validation_loss"]]
    return {"arm": arm, "seed": seed, "curve": curve, "perplexity": perplexity, **machine()}


def _call(*words: str) -> None:
    if bipe(list(words)):
        raise SystemExit(1)


def table() -> list[str]:
    """Return lines of Markdown: ratios to the control of the same seed, and tokens to reach it."""
    found = {(each["arm"], each["seed"]): each for each in results(RESULTS)}
    cells = list(next(iter(found.values()))["perplexity"])
    cells.sort(key=lambda cell: (cell.split()[0], int(cell.split()[1])))
    lines = [f"| way | seeds | {' | '.join(cells)} | tokens to within 1% |"]
    lines.append("|---" * (len(cells) + 3) + "|")
    for arm in dict.fromkeys(name for name, _ in found):
        own = [each for (name, _), each in found.items() if name == arm]
        pairs = [(each, found[CONTROL, each["seed"]]) for each in own]
        pairs = [(each, control) for each, control in pairs if control is not each]
        if arm == CONTROL:
            shown = [f"{fmean(each['perplexity'][cell] for each in own):.4g}" for cell in cells]
        else:
            ratios = [[a["perplexity"][c] / b["perplexity"][c] for a, b in pairs] for c in cells]
            shown = [percent(r) if len(r) > 1 else f"{100 * r[0]:.1f}%" for r in ratios]
        reached = ", ".join(_reached(a, b) for a, b in pairs if a["curve"]) or "-"
        lines.append(f"| {arm} | {len(own)} | {' | '.join(shown)} | {reached} |")
    return lines


def _reached(own: Result, control: Result) -> str:
    """Return the tokens after which a run is within 1% of the control's last perplexity."""
    bound = control["curve"][-1][1] + math.log(1.01)
    first = next((tokens for tokens, loss in own["curve"] if loss <= bound), None)
    return "not reached" if first is None else f"{first:,.0f}"


def main(words: Sequence[str] | None = None) -> int:
    """Train what is missing, or print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("do", choices=["train", "show"])
    parser.add_argument("--only", nargs="+", choices=list(ARMS), metavar="NAME", default=list(ARMS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--study", type=Path, default=Path("runs/segmentation"))
    given = parser.parse_args(words)
    if given.do == "show":
        print("\n".join(table()))
        return 0
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    for seed in given.seeds:
        for arm in given.only:
            if all((each["arm"], each["seed"]) != (arm, seed) for each in results(RESULTS)):
                keep(measured(arm, seed, given.study.resolve()), RESULTS)
    return 0


if __name__ == "__main__":
    sys.exit(main())
