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


def named(name: str) -> dict[str, Any]:
    """Return an encoding of conf/encoding as it is, with what it takes from others."""
    return {"defaults": [name, "_self_"]}


def flat(encoding: Any) -> dict[str, Any]:
    """Return an encoding over tokens of the document."""
    return {"_target_": "bipe.encodings.Flat", "encoding": encoding}


def segments(inter: Any, intra: Any = None) -> dict[str, Any]:
    """Return an encoding over segments, and one inside them (nothing)."""
    return {"_target_": "bipe.encodings.Bilevel", "intra": intra or one("nope"), "inter": inter}


def table(scale: float) -> Any:
    """Return a learned vector for each place in a segment, which learns more slowly."""
    return one("learned", scale=scale)


def chain(*links: Any) -> dict[str, Any]:
    """Return schemes whose terms add up."""
    return {"_target_": "bipe.encodings.Chain", "links": list(links)}


ALIBI, ROPE, KERPLE, FOX = one("alibi"), one("rope"), one("kerple"), one("fox")
LEARNED = one("learned")
STARTS = one("learned", length=2)  # one vector for first tokens of segments, one for all others
PARTIAL = one("rope", part=[0.0, 0.25])  # a quarter of each head
ALIBI_8 = one("alibi", multiplier=8.0)
FLAT: Mapping[str, Any] = {
    "ALiBi": ALIBI,
    "RoPE": ROPE,
    "KERPLE": KERPLE,
    "FoX": FOX,
    "ALiBi x2": one("alibi", multiplier=2.0),
    "CABLE": one("cable"),
    "RoPE + ALiBi": chain(flat(ROPE), flat(ALIBI)),
    "FoX + ALiBi": chain(flat(FOX), flat(ALIBI)),
    "FoX + RoPE": chain(flat(FOX), flat(ROPE)),
    "FoX + ALiBi + RoPE": chain(flat(FOX), flat(ALIBI), flat(ROPE)),
    "FoX + partial RoPE": chain(flat(FOX), flat(PARTIAL)),
    "FoX + ALiBi + partial RoPE": chain(flat(FOX), flat(ALIBI), flat(PARTIAL)),
    "FoX + KERPLE": chain(flat(FOX), flat(KERPLE)),
    "T5": named("t5"),
    "FIRE": named("fire"),
    "Sandwich": named("sandwich"),
    "KERPLE, power": named("kerple_power"),
    "XPOS": named("xpos"),
    "PoPE": named("pope"),
    "TUPE": named("tupe"),
    "p-RoPE": named("p_rope"),
    "RoPE, a quarter of the head": named("rope_partial"),
    "RoPE, none in every fourth layer": named("rnope"),
    "SWAN": named("swan"),
    "PermuteFormer": named("permuteformer"),
    "no encoding": named("nope"),
    "learned table": named("learned"),
    "sinusoidal": named("sinusoidal"),
    "complex-order": named("complex_order"),
    "CoPE": named("cope"),
    "Shaw": named("shaw"),
    "Transformer-XL": named("transformer_xl"),
    "TENER": named("tener"),
    "XLNet": named("xlnet"),
    "DeBERTa": named("deberta"),
}
BILEVEL: Mapping[str, Any] = {
    "BiPE-RoPE": segments(ROPE, LEARNED),
    "RoPE below, BiPE-RoPE above": named("flat_below"),
    "RoPE on both levels": named("bilevel_rope"),
    "HiRoPE": named("hirope"),
    "BiPE-ALiBi": segments(one("alibi", multiplier=96.0), LEARNED),
    "segments ALiBi x8": segments(ALIBI_8),
    "ALiBi + segments ALiBi x2": chain(flat(ALIBI), segments(one("alibi", multiplier=2.0))),
    "ALiBi + segments ALiBi x8": chain(flat(ALIBI), segments(ALIBI_8)),
    "ALiBi + segments ALiBi x32": chain(flat(ALIBI), segments(one("alibi", multiplier=32.0))),
    "ALiBi + segments KERPLE": chain(flat(ALIBI), segments(KERPLE)),
    "ALiBi + segments T5": chain(flat(ALIBI), segments(one("t5"))),
    "ALiBi + segments FoX": chain(flat(ALIBI), segments(FOX)),
    "ALiBi + segments RoPE": chain(flat(ALIBI), segments(ROPE)),
    "KERPLE + segments KERPLE": chain(flat(KERPLE), segments(KERPLE)),
    "KERPLE + segments ALiBi x8": chain(flat(KERPLE), segments(ALIBI_8)),
    "RoPE + segments ALiBi x8": chain(flat(ROPE), segments(ALIBI_8)),
    "RoPE + segments KERPLE": chain(flat(ROPE), segments(KERPLE)),
    "RoPE + segments FoX": chain(flat(ROPE), segments(FOX)),
    "RoPE + ALiBi + segments ALiBi x8": chain(flat(ROPE), flat(ALIBI), segments(ALIBI_8)),
    "FoX + segments ALiBi x8": chain(flat(FOX), segments(ALIBI_8)),
    "FoX + segments ALiBi x32": chain(flat(FOX), segments(one("alibi", multiplier=32.0))),
    "FoX + segments KERPLE": chain(flat(FOX), segments(KERPLE)),
    "FoX + segments FoX": chain(flat(FOX), segments(FOX)),
    "FoX + segments RoPE": chain(flat(FOX), segments(ROPE)),
    "FoX + table in segments": chain(flat(FOX), segments(one("nope"), LEARNED)),
    "FoX + table + segments FoX": chain(flat(FOX), segments(FOX, LEARNED)),
    "FoX + starts": chain(flat(FOX), segments(one("nope"), STARTS)),
    "FoX + ALiBi + starts": chain(flat(FOX), flat(ALIBI), segments(one("nope"), STARTS)),
    "FoX + starts + segments ALiBi x8": chain(flat(FOX), segments(ALIBI_8, STARTS)),
    "FoX + RoPE in segments": chain(flat(FOX), segments(one("nope"), ROPE)),
    "FoX + ALiBi + RoPE in segments": chain(flat(FOX), flat(ALIBI), segments(one("nope"), ROPE)),
    "FoX + ALiBi + RoPE in segments + segments ALiBi x8": chain(
        flat(FOX), flat(ALIBI), segments(ALIBI_8, ROPE)
    ),
    "FoX + ALiBi + RoPE in segments + segments FoX": chain(
        flat(FOX), flat(ALIBI), segments(FOX, ROPE)
    ),
    "FoX + RoPE + segments FoX": chain(flat(FOX), flat(ROPE), segments(FOX)),
    "FoX + BiPE-RoPE": chain(flat(FOX), segments(ROPE, LEARNED)),
    "FoX + ALiBi + segments FoX": chain(flat(FOX), flat(ALIBI), segments(FOX)),
    "FoX + ALiBi + BiPE-RoPE": chain(flat(FOX), flat(ALIBI), segments(ROPE, LEARNED)),
    "FoX + ALiBi + segments ALiBi x8": chain(flat(FOX), flat(ALIBI), segments(ALIBI_8)),
    "RoPE in segments + segments KERPLE": segments(KERPLE, ROPE),
    "RoPE in segments + segments FoX": segments(FOX, ROPE),
    "table + segments FoX": segments(FOX, LEARNED),
    "table x0.1 + segments ALiBi x96": segments(one("alibi", multiplier=96.0), table(0.1)),
    "FoX + ALiBi + table x0.1 + segments ALiBi x8": chain(
        flat(FOX), flat(ALIBI), segments(ALIBI_8, table(0.1))
    ),
    "FoX + ALiBi + table x0.03 + segments ALiBi x8": chain(
        flat(FOX), flat(ALIBI), segments(ALIBI_8, table(0.03))
    ),
    "FoX + ALiBi + table x0.03 + segments FoX": chain(
        flat(FOX), flat(ALIBI), segments(FOX, table(0.03))
    ),
    "FoX + ALiBi + TUPE in segments + segments ALiBi x8": chain(
        flat(FOX), flat(ALIBI), segments(ALIBI_8, one("tupe"))
    ),
    "FoX + partial RoPE + segments FoX": chain(flat(FOX), flat(PARTIAL), segments(FOX)),
    "FoX + ALiBi + partial RoPE + segments FoX": chain(
        flat(FOX), flat(ALIBI), flat(PARTIAL), segments(FOX)
    ),
}
ALL = {**FLAT, **BILEVEL}


def trained(name: str, seed: int, lr: float, folder: Path) -> Result:
    """Train and measure one model; return its perplexities by source and length."""
    run = f"{''.join(c if c.isalnum() else '_' for c in name)}_{seed}_{lr:g}"
    groups = folder / "conf" / "encoding"
    groups.mkdir(parents=True, exist_ok=True)
    (groups / f"{run}.yaml").write_text(OmegaConf.to_yaml(OmegaConf.create(ALL[name])))
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
    return {
        "name": name,
        "seed": seed,
        "lr": lr,
        "perplexity": found,
        "precision": PRECISION,
        **machine(),
    }


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
        found = list(chosen[name].values())
        own = cells(found)
        shown = " | ".join(f"{own[column]:#.4g}" for column in columns)
        lines.append(
            f"| {name} | {found[0]['lr']:g} | {len(found)} | {shown} | {standing[name]:.1%} |"
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
