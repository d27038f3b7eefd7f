"""What are segments worth to a model that is trained already? `bipe retrofit`, and its controls.

    bipe prepare -m experiment=segmentation_natural,segmentation_shuffled
    bipe pretrain -m experiment=segmentation_flat seed=0,1,2
    python -m benchmarks.retrofit train [--seeds 0 1 2] [--only NAME ...] [--rates]
    python -m benchmarks.retrofit show [--rates]

Each base is RoPE (1.4M tokens in rows of 512), each way trains it on for 245,760 tokens of rows of
512, from the same rows. `train` adds each result to benchmarks/results/retrofit_cpu.json when it is
known, and skips what is there. `show` prints perplexities of two held-out documents per source over
those of the control, which is trained on as it is, at 512 to 8192 tokens, means over seeds with 95%
intervals (Student's), and the tokens after which the validation loss is that of the control at
the end, within 1% of perplexity. --rates: ways that train what is new faster, or low ranks alone,
at more lengths and with retrieval, in retrofit_rates_cpu.json (from bases that were trained anew).
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

from safetensors.torch import load_file

from benchmarks.compositions import keep, percent, results
from benchmarks.workers import machine
from train.cli import main as bipe
from train.disk.files import read_numbers
from train.evals.rows import FILE, Journal

RESULTS = Path(__file__).parent / "results" / "retrofit_cpu.json"
RATES = RESULTS.with_name("retrofit_rates_cpu.json")
CONTROL, SHUFFLED = "control", "shuffled segments, "
ARMS = {
    CONTROL: "stretch=none",
    "base, untrained": "",
    "gated": "stretch=gated",
    f"{SHUFFLED}gated": "stretch=gated",
    "homotopy": "stretch=homotopy",
    "homotopy, step 1": "stretch=homotopy stretch.step=1.0",
    "swap": "stretch=swap",
    "split, untrained": "stretch=split steps=0",
    "YaRN": "stretch=yarn",
    "DroPE": "stretch=drope",
}
FASTER = "stretch=gated extend.new_lr=30"
FASTER_ARMS = {
    CONTROL: ARMS[CONTROL],
    "gated, new x 30": FASTER,
    "YaRN": ARMS["YaRN"],
    "base, untrained": "",
    f"{SHUFFLED}gated, new x 30": FASTER,
    "gated, new x 30, LoRA": f"{FASTER} extend.lora={{}}",
    "gated, new x 10": "stretch=gated extend.new_lr=10",
    "gated, new x 100": "stretch=gated extend.new_lr=100",
    "homotopy, new x 30": "stretch=homotopy stretch.step=1.0 extend.new_lr=30",
    "swap, new x 30": "stretch=swap extend.new_lr=30",
}
LENGTHS, PROBES = (1, 4, 16), "evaluate.probes=[]"
FASTER_LENGTHS = (1, 2, 4, 8, 16)
FASTER_PROBES = "evaluate.probes=[passkey] evaluate.probing.depths=[0.5]"
Result = dict[str, Any]


def measured(arm: str, seed: int, study: Path, *, rates: bool) -> Result:
    """Train and measure one model; return its curve and its perplexities by source and length."""
    way, name = (FASTER_ARMS if rates else ARMS)[arm], f"{arm} {seed}"
    data = study / ("shuffled" if SHUFFLED in arm else "natural") / "data"
    base = run = study / f"flat_{seed}"
    if way:
        run = study / ("retrofit_rates" if rates else "retrofit")
        run /= "".join(c if c.isalnum() else "_" for c in name)
        words = ("experiment=retrofit", f"checkpoint={base}", f"data={data}", f"seed={seed}")
        _call("retrofit", *words, f"out={run.parent}", f"name={run.name}", *way.split())
    lengths = list(FASTER_LENGTHS if rates else LENGTHS)
    words = (f"data={data}", f"evaluate.runs={run}", "evaluate.documents=2")
    probes = (FASTER_PROBES if rates else PROBES).split()
    _call("evaluate", *words, *probes, f"evaluate.lengths={lengths}".replace(" ", ""))
    found: dict[str, dict[str, float]] = {"perplexity": {}, "accuracy": {}}
    for row in Journal(run / FILE).rows():
        if row.measure in found and row.value is not None and row.number is None:
            found[row.measure][f"{row.source} {row.length}"] = round(row.value, 4)
    numbers = read_numbers(run / "metrics.csv") if way and "steps=0" not in way else []
    curve = [(row["tokens"], row["validation_loss"]) for row in numbers if row["validation_loss"]]
    rest = {"moved": _moved(run), "retrieval": found["accuracy"]} if rates else {}
    one = {"arm": arm, "seed": seed, "curve": curve, "perplexity": found["perplexity"]}
    return {**one, **rest, **machine()}


def _moved(run: Path) -> dict[str, float]:
    """Return the largest gate, and the mean size of the entries of the table, as they are now."""
    weights = load_file(run / "model" / "model.safetensors")
    sizes = {
        name.rpartition(".")[2]: each.abs() for name, each in weights.items() if "scheme" in name
    }
    found = {"gate": sizes["gate"].max()} if "gate" in sizes else {}
    found |= {"table": sizes["weight"].mean()} if "weight" in sizes else {}
    return {name: round(float(each), 4) for name, each in found.items()}


def _call(*words: str) -> None:
    if bipe(list(words)):
        raise SystemExit(1)


def table(file: Path = RESULTS) -> list[str]:
    """Return lines of Markdown: perplexities over the control's of the same seed, and passkeys."""
    found = {(each["arm"], each["seed"]): each for each in results(file)}
    places = [cell.split() for cell in next(iter(found.values()))["perplexity"]]
    lengths = sorted({int(length) for _, length in places})
    sources = sorted({source for source, _ in places})
    lines = [f"| way | seeds | of | {' | '.join(map(str, lengths))} | tokens to within 1% |"]
    lines.append("|---" * (len(lengths) + 4) + "|")
    for arm in dict.fromkeys(name for name, _ in found):
        own = [each for (name, _), each in found.items() if name == arm]
        pairs = [(each, found[CONTROL, each["seed"]]) for each in own]
        reached = ", ".join(_reached(a, b) for a, b in pairs if a is not b and a["curve"]) or "-"
        about = {
            source: [_shown(pairs, f"{source} {length}") for length in lengths]
            for source in sources
        }
        if "retrieval" in own[0]:
            about["passkeys"] = [_passkeys(own, length) for length in lengths]
        for source, cells in about.items():
            lines.append(f"| {arm} | {len(own)} | {source} | {' | '.join(cells)} | {reached} |")
            arm = reached = ""
    return lines


def _shown(pairs: Sequence[tuple[Result, Result]], cell: str) -> str:
    """Return the ratio to the control; of the control itself, its mean perplexity."""
    if all(own is control for own, control in pairs):
        return f"{fmean(own['perplexity'][cell] for own, _ in pairs):.4g}"
    ratios = [own["perplexity"][cell] / control["perplexity"][cell] for own, control in pairs]
    return percent(ratios) if len(ratios) > 1 else f"{100 * ratios[0]:.1f}%"


def _passkeys(own: Sequence[Result], length: int) -> str:
    """Return the share that was found, of all seeds."""
    found = [each["retrieval"] for each in own]
    shares = [v for each in found for cell, v in each.items() if cell.split()[-1] == str(length)]
    return f"{100 * fmean(shares):.0f}%" if shares else "-"


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
    parser.add_argument("--rates", action="store_true")
    parser.add_argument("--only", nargs="+", choices=[*{**ARMS, **FASTER_ARMS}], metavar="NAME")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--study", type=Path, default=Path("runs/segmentation"))
    given = parser.parse_args(words)
    file = RATES if given.rates else RESULTS
    if given.do == "show":
        print("\n".join(table(file)))
        return 0
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    for seed in given.seeds:
        for arm in given.only or (FASTER_ARMS if given.rates else ARMS):
            if all((each["arm"], each["seed"]) != (arm, seed) for each in results(file)):
                keep(measured(arm, seed, given.study.resolve(), rates=given.rates), file)
    return 0


if __name__ == "__main__":
    sys.exit(main())
