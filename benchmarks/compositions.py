"""Is a bilevel composition ahead of every flat encoding? One model each, on the demo's corpora.

    python -m benchmarks.compositions train [--only NAME ...] [--seeds 0 1 2] [--lr 0.003]
    python -m benchmarks.compositions show

Each model is trained as in conf/experiment/compare.yaml (1.4M tokens in rows of 512) and measured
on eight held-out documents per source at 512 and 8192 tokens. `train` skips what
benchmarks/results/compositions_cpu.json holds already and adds each result when it is known, so it
can be stopped and goes on later. `show` prints mean perplexities, at the learning rate that did
best, and the worst of the ratios to all flat encodings on the same seeds: below 100% it is ahead of
each of them on all sources at both lengths. Ratios over seeds have 95% intervals (Student's).
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from omegaconf import DictConfig, ListConfig, OmegaConf

from benchmarks.workers import machine
from train.disk.files import write_whole
from train.evals.rows import FILE, Journal, half_width

RESULTS = Path(__file__).parent / "results" / "compositions_cpu.json"
CONF = Path(__file__).parents[1] / "conf" / "encoding"
PRECISION = "bf16-mixed"
DOCUMENTS, LENGTHS = 8, [1, 16]
SEEDS = 3  # for an interval of ratios
Result = dict[str, Any]
Cell = tuple[str, str]  # source, length


def one(name: str, **options: Any) -> DictConfig | ListConfig:
    """Return an encoding of conf/encoding with other options."""
    return OmegaConf.merge(OmegaConf.load(CONF / f"{name}.yaml"), options)


# The parts that names of models are made of, joined by " + "; "x8" behind a part is `multiplier`.
PARTS = {
    "ALiBi": one("alibi"),
    "RoPE": one("rope"),
    "KERPLE": one("kerple"),
    "FoX": one("fox"),
    "CABLE": one("cable"),
    "T5": one("t5"),
    "partial RoPE": one("rope", part=[0.0, 0.25]),  # a quarter of each head
    "TUPE in segments": one("tupe"),
    "RoPE in segments": one("rope"),
    "table": one("learned"),
    "table in segments": one("learned"),
    "table x0.1": one("learned", scale=0.1),  # which learns more slowly
    "table x0.03": one("learned", scale=0.03),
    "starts": one("learned", length=2),  # one vector for first tokens of segments, one for others
}
INSIDE = tuple(name for name in PARTS if "segments" in name or name.startswith(("table", "starts")))


def composed(name: str) -> Any:
    """Return the sum that a name spells: over tokens, inside segments, and over "segments X"."""
    name = name.replace("BiPE-RoPE", "table + segments RoPE")
    name = name.replace("BiPE-ALiBi", "table + segments ALiBi x96")
    links, levels = [], {"intra": one("nope"), "inter": one("nope")}
    for part in name.split(" + "):
        own, _, factor = part.removeprefix("segments ").partition(" x")
        encoding = PARTS.get(part) or PARTS[own]
        if factor and part not in PARTS:
            encoding = OmegaConf.merge(encoding, {"multiplier": float(factor)})
        if part in INSIDE or part.startswith("segments "):
            levels["intra" if part in INSIDE else "inter"] = encoding
        else:
            links.append({"_target_": "bipe.encodings.Flat", "encoding": encoding})
    if part in INSIDE or part.startswith("segments "):
        links.append({"_target_": "bipe.encodings.Bilevel", **levels})
    if len(links) > 1:
        return {"_target_": "bipe.encodings.Chain", "links": links}
    return links[0] if "inter" in links[0] else encoding


# Models of conf/encoding, by what they are called here.
FLAT_ONES = {
    "T5": "t5",
    "FIRE": "fire",
    "Sandwich": "sandwich",
    "KERPLE, power": "kerple_power",
    "XPOS": "xpos",
    "PoPE": "pope",
    "TUPE": "tupe",
    "p-RoPE": "p_rope",
    "RoPE, a quarter of the head": "rope_partial",
    "RoPE, none in every fourth layer": "rnope",
    "SWAN": "swan",
    "PermuteFormer": "permuteformer",
    "no encoding": "nope",
    "learned table": "learned",
    "sinusoidal": "sinusoidal",
    "complex-order": "complex_order",
    "CoPE": "cope",
    "Shaw": "shaw",
    "Transformer-XL": "transformer_xl",
    "TENER": "tener",
    "XLNet": "xlnet",
    "DeBERTa": "deberta",
}
BILEVEL_ONES = {
    "RoPE below, BiPE-RoPE above": "flat_below",
    "RoPE on both levels": "bilevel_rope",
    "HiRoPE": "hirope",
}
FLAT = (
    *("ALiBi", "RoPE", "KERPLE", "FoX", "ALiBi x2", "CABLE", "RoPE + ALiBi"),
    *("FoX + ALiBi", "FoX + RoPE", "FoX + ALiBi + RoPE", "FoX + partial RoPE"),
    *("FoX + ALiBi + partial RoPE", "FoX + KERPLE"),
    *FLAT_ONES,
)
BILEVEL = (
    *("BiPE-RoPE", *BILEVEL_ONES, "BiPE-ALiBi", "segments ALiBi x8"),
    *("ALiBi + segments ALiBi x2", "ALiBi + segments ALiBi x8", "ALiBi + segments ALiBi x32"),
    *("ALiBi + segments KERPLE", "ALiBi + segments T5", "ALiBi + segments FoX"),
    *("ALiBi + segments RoPE", "KERPLE + segments KERPLE", "KERPLE + segments ALiBi x8"),
    *("RoPE + segments ALiBi x8", "RoPE + segments KERPLE", "RoPE + segments FoX"),
    *("RoPE + ALiBi + segments ALiBi x8", "FoX + segments ALiBi x8", "FoX + segments ALiBi x32"),
    *("FoX + segments KERPLE", "FoX + segments FoX", "FoX + segments RoPE"),
    *("FoX + table in segments", "FoX + table + segments FoX", "FoX + starts"),
    *("FoX + ALiBi + starts", "FoX + starts + segments ALiBi x8", "FoX + RoPE in segments"),
    "FoX + ALiBi + RoPE in segments",
    "FoX + ALiBi + RoPE in segments + segments ALiBi x8",
    "FoX + ALiBi + RoPE in segments + segments FoX",
    *("FoX + RoPE + segments FoX", "FoX + BiPE-RoPE", "FoX + ALiBi + segments FoX"),
    *("FoX + ALiBi + BiPE-RoPE", "FoX + ALiBi + segments ALiBi x8"),
    *("RoPE in segments + segments KERPLE", "RoPE in segments + segments FoX"),
    *("table + segments FoX", "table x0.1 + segments ALiBi x96"),
    "FoX + ALiBi + table x0.1 + segments ALiBi x8",
    "FoX + ALiBi + table x0.03 + segments ALiBi x8",
    "FoX + ALiBi + table x0.03 + segments FoX",
    "FoX + ALiBi + TUPE in segments + segments ALiBi x8",
    *("FoX + partial RoPE + segments FoX", "FoX + ALiBi + partial RoPE + segments FoX"),
)
ALL = (*FLAT, *BILEVEL)


def encoding_of(name: str) -> Any:
    """Return a composition, or an encoding of conf/encoding with what it takes from others."""
    own = (FLAT_ONES | BILEVEL_ONES).get(name)
    return {"defaults": [own, "_self_"]} if own else composed(name)


def trained(name: str, seed: int, lr: float, folder: Path) -> Result:
    """Train and measure one model; return its perplexities by source and length."""
    run = f"{''.join(c if c.isalnum() else '_' for c in name)}_{seed}_{lr:g}"
    groups = folder / "conf" / "encoding"
    groups.mkdir(parents=True, exist_ok=True)
    (groups / f"{run}.yaml").write_text(OmegaConf.to_yaml(OmegaConf.create(encoding_of(name))))
    study = ["experiment=compare", f"out={folder}", f"data={folder / 'data'}"]
    bipe = [sys.executable, "-m", "train.cli"]

    def call(*words: str) -> None:
        subprocess.run([*bipe, *words], check=True, stdout=subprocess.DEVNULL)

    if not (folder / "data").exists():
        call("prepare", *study)
    call("pretrain", "--config-dir", str(folder / "conf"), *study, f"encoding={run}",
         f"name={run}", f"seed={seed}", f"optimizer.lr={lr}",
         f"trainer.precision={PRECISION}")  # fmt: skip
    at = folder / run
    call("evaluate", *study, f"evaluate.runs={at}", "evaluate.probes=[]",
         f"evaluate.lengths={LENGTHS}", f"evaluate.documents={DOCUMENTS}")  # fmt: skip
    found: dict[str, dict[str, float]] = {}
    for row in Journal(at / FILE).rows():
        if row.measure == "perplexity" and row.value is not None:
            found.setdefault(row.source, {})[str(row.length)] = round(row.value, 4)
    shutil.rmtree(at)
    one = {"name": name, "seed": seed, "lr": lr, "perplexity": found, "precision": PRECISION}
    return {**one, **machine()}


def results(file: Path = RESULTS) -> list[Result]:
    """Return all results so far."""
    return list(json.loads(file.read_text(encoding="utf-8"))) if file.exists() else []


def keep(result: Result, file: Path = RESULTS) -> None:
    """Add a result to the file."""
    lines = ",\n".join(json.dumps(each) for each in [*results(file), result])
    write_whole(file, f"[\n{lines}\n]\n")


def cells(found: Sequence[Result]) -> dict[Cell, float]:
    """Return the mean perplexities of some results, by source and length."""
    values: dict[Cell, list[float]] = {}
    for result in found:
        for source, by_length in result["perplexity"].items():
            for length, value in by_length.items():
                values.setdefault((source, length), []).append(value)
    return {cell: fmean(each) for cell, each in values.items()}


def best_rate(found: Sequence[Result]) -> dict[int, Result]:
    """Return the results by seed at the learning rate that is best on the seeds that all have."""
    by_rate: dict[float, dict[int, Result]] = {}
    for result in found:
        by_rate.setdefault(result["lr"], {})[result["seed"]] = result
    common = set.intersection(*(set(seeds) for seeds in by_rate.values()))

    def score(rate: float) -> float:
        if not common:
            return -len(by_rate[rate])  # nothing to compare: the one with most seeds
        own = cells([by_rate[rate][seed] for seed in common])
        return sum(math.log(value) for value in own.values())

    return by_rate[min(by_rate, key=score)]


def ratios(own: Mapping[int, Result], rival: Mapping[int, Result]) -> dict[Cell, list[float]]:
    """Return perplexities over those of a rival on the seeds of both, by source and length."""
    values: dict[Cell, list[float]] = {}
    for seed in sorted(own.keys() & rival.keys()):
        theirs = cells([rival[seed]])
        for cell, value in cells([own[seed]]).items():
            values.setdefault(cell, []).append(value / theirs[cell])
    return values


def worst(own: Mapping[int, Result], rival: Mapping[int, Result]) -> float:
    """Return the largest ratio over sources and lengths, means over the seeds of both."""
    return max(fmean(values) for values in ratios(own, rival).values())


def tables() -> list[str]:
    """Return lines of Markdown: perplexities, the best first, and ratios of the two best."""
    by_name: dict[str, list[Result]] = {}
    for result in results():
        by_name.setdefault(result["name"], []).append(result)
    chosen = {name: best_rate(by_name[name]) for name in ALL if name in by_name}
    rivals = {name: chosen[name] for name in FLAT if name in chosen}
    standing = {
        name: max((worst(own, rival) for flat, rival in rivals.items()
                   if flat != name and own.keys() & rival.keys()), default=math.nan)
        for name, own in chosen.items()
    }  # fmt: skip
    columns = sorted(cells(list(next(iter(chosen.values())).values())), key=_order)
    head = " | ".join(f"{source} {length}" for source, length in columns)
    lines = [f"| encoding | lr | seeds | {head} | worst |", "|---" * (len(columns) + 4) + "|"]
    for name in sorted(chosen, key=lambda n: standing[n]):
        models = list(chosen[name].values())
        own = cells(models)
        shown = " | ".join(f"{own[column]:#.4g}" for column in columns)
        lines.append(
            f"| {name} | {models[0]['lr']:g} | {len(models)} | {shown} | {standing[name]:.1%} |"
        )
    lines += ["", f"| encoding / flat one | seeds | {head} |", "|---" * (len(columns) + 2) + "|"]
    best = sorted((name for name in chosen if name in BILEVEL), key=lambda n: standing[n])
    for name in best[:2]:
        for flat, rival in rivals.items():
            found = ratios(chosen[name], rival)
            if all(len(values) >= SEEDS for values in found.values()):
                shown = " | ".join(percent(found[column]) for column in columns)
                lines.append(f"| {name} / {flat} | {len(found[columns[0]])} | {shown} |")
    return lines


def _order(cell: Cell) -> tuple[int, int]:
    return ("prose", "code", "proofs").index(cell[0]), int(cell[1])


def percent(values: Sequence[float]) -> str:
    """Return the mean of ratios and half the width of its 95% interval."""
    return f"{100 * fmean(values):.1f} +- {100 * half_width(values):.1f}%"


def main(words: Sequence[str] | None = None) -> int:
    """Train what is missing, or print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("do", choices=["train", "show"])
    parser.add_argument("--only", nargs="+", choices=list(ALL), metavar="NAME", default=list(ALL))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--lr", nargs="+", type=float, default=[3e-3])
    parser.add_argument("--out", type=Path, default=Path("runs/compositions"))
    given = parser.parse_args(words)
    if given.do == "show":
        print("\n".join(tables()))
        return 0
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    for seed in given.seeds:
        for name in given.only:
            for lr in given.lr:
                done = {(each["name"], each["seed"], each["lr"]) for each in results()}
                if (name, seed, lr) not in done:
                    result = trained(name, seed, lr, given.out.resolve())
                    keep(result)
                    print(name, seed, lr, result["perplexity"], flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
