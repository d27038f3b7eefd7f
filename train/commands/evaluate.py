"""`bipe evaluate`: measure trained runs on held-out documents; one evaluation.json a run."""

from __future__ import annotations

import dataclasses
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from bipe import Decoder
from bipe.checkpoint import load_model
from bipe.encodings import Bilevel
from train.commands.evaluate_arithmetic import arithmetic_scores, arithmetic_task
from train.commands.evaluate_probes import probe_scores, require_probes
from train.commands.evaluate_sweep import kept_sweep, sweep_runs
from train.config import Config, encoding_name
from train.data.reading.split import SPLITS
from train.data.rows.sets import DataSets
from train.data.store.shards import DataSet
from train.data.tokenizing.tokenizers import Tokenizer
from train.data.tokenizing.vocabulary import LoadTokenizer
from train.disk.files import write_whole
from train.errors import ConfigError, DataError, nearest
from train.evals.passkey import make_keys, passkey
from train.evals.perplexity import Measure, long_documents, perplexity_by_length
from train.fit import runs
from train.fit.callbacks import read_metrics
from train.fit.machine import environment
from train.report import load_runs
from train.report.terminal_stretch import stretch_table

FORMAT = "bipe-evaluation/1"


def evaluate(study: Config) -> list[Path]:
    """Evaluate all the runs that a study names; return what was written."""
    folders = runs.find_runs(study.evaluate.runs, key="evaluate.runs")
    if study.evaluate.split not in SPLITS:
        raise ConfigError(
            f"evaluate.split must be one of {', '.join(SPLITS)}, was: {study.evaluate.split!r}"
        )
    sets = DataSets(study.data)
    known = sets.sources
    arithmetic_task(study, sets)  # is refused before anything is measured
    sources = list(known) if study.evaluate.sources is None else study.evaluate.sources
    for name in sources:
        if name not in known:
            raise ConfigError(f"evaluate.sources: {name!r} is no source; {nearest(name, known)}")
    splits = {name: sets.open(name, study.evaluate.split, verify=True) for name in sources}
    tokenizer = LoadTokenizer(path=sets.folder).build()
    _refuse_bad_passkey(study, sources, tokenizer)
    require_probes(study)
    sweeps = study.evaluate.sweep is not None
    for folder in folders:
        if not (sweeps and (folder / runs.EVALUATION).exists()):
            _evaluate_run(study, folder, sets, splits, tokenizer)
    if sweeps:
        sweep_runs(study, folders, splits, tokenizer, measure_of=measure_of)
        Console().print(stretch_table(load_runs(folders)))
    return [folder / runs.EVALUATION for folder in folders]


def _refuse_bad_passkey(study: Config, sources: Sequence[str], tokenizer: Tokenizer) -> None:
    """Before minutes of perplexity, not after."""
    options = study.evaluate.passkey
    if options is None:
        return
    if options.source is not None and options.source not in sources:
        raise ConfigError(
            f"evaluate.passkey.source: {options.source!r} is no source; "
            f"{nearest(options.source, sources)}"
        )
    make_keys(tokenizer, candidates=options.candidates)


def _evaluate_run(
    study: Config, folder: Path, sets: DataSets, splits: dict[str, DataSet], tokenizer: Tokenizer
) -> Path:
    begin = time.monotonic()
    model, notes = load_model(folder / runs.MODEL, allowed=study.allowed)
    model.eval().to("cuda" if torch.cuda.is_available() else "cpu")
    largest = max((int(data.manifest["vocab_size"]) for data in splits.values()), default=0)
    if model.config.vocab_size < largest:
        raise DataError(
            f"data={study.data} has a vocabulary of {largest}, {folder} one of "
            f"{model.config.vocab_size}: it was trained on other data"
        )
    config = runs.read_config(folder) if (folder / runs.CONFIG).exists() else {}
    row_length = runs.first_row_length(notes) or study.row_length
    result = {
        "format": FORMAT,
        "model": _describe_model(model),
        "training": _describe_training(folder, notes, config, row_length),
        "perplexity": _perplexities(study, model, splits, tokenizer, row_length, folder.name),
        "passkey": _passkeys(study, model, splits, tokenizer, row_length, folder.name),
        "probes": probe_scores(study, model, tokenizer, row_length=row_length, run=folder.name),
        "arithmetic": arithmetic_scores(study, model, sets, name=folder.name),
        **kept_sweep(folder),
        "environment": environment(),
        "config": config,
    }
    path = folder / runs.EVALUATION
    write_whole(path, json.dumps(result, indent=1, allow_nan=True) + "\n")
    _say(f"{folder.name}: evaluated in {time.monotonic() - begin:.0f} s")
    return path


def _perplexities(
    study: Config,
    model: Decoder,
    splits: dict[str, DataSet],
    tokenizer: Tokenizer,
    row_length: int,
    name: str,
) -> dict[str, Any]:
    lengths = [factor * row_length for factor in study.evaluate.lengths]
    measured: dict[str, Any] = {}
    protocols: dict[str, list[str]] = {}
    for source, data in splits.items():
        texts = long_documents(
            data, longest=lengths, limit=study.evaluate.documents, text=tokenizer.decode
        )
        found = perplexity_by_length(
            model,
            texts,
            measure=measure_of(study, row_length),
            lengths=lengths,
            tokens_per_batch=study.evaluate.tokens_per_batch,
        )
        protocols.setdefault(found.pop("protocol"), []).append(source)
        measured[source] = found
        shown = "  ".join(f"{p:.2f}" for p in found["perplexity"])
        _say(f"{name}: {source}: perplexity at {found['lengths']}: {shown}")
    protocol = " ".join(
        text if len(protocols) == 1 else f"{', '.join(names)}: {text}"
        for text, names in protocols.items()
    )
    return {"protocol": protocol, "sources": measured}


def measure_of(study: Config, row_length: int) -> Measure:
    """The protocol that a study asks for, with its numbers."""
    options = study.evaluate
    return Measure(
        protocol=options.protocol,
        row_length=row_length,
        stride=options.stride,
        last=options.last,
        start_token=options.start_token,
    )


def _passkeys(
    study: Config,
    model: Decoder,
    splits: dict[str, DataSet],
    tokenizer: Tokenizer,
    row_length: int,
    name: str,
) -> dict[str, Any] | None:
    options = study.evaluate.passkey
    if options is None:
        return None
    source = options.source or next(iter(splits))
    found = passkey(
        model,
        splits[source],
        tokenizer,
        lengths=[factor * row_length for factor in study.evaluate.lengths],
        depths=options.depths,
        trials=options.trials,
        candidates=options.candidates,
        tokens_per_batch=study.evaluate.tokens_per_batch,
        seed=study.seed,
    )
    if not found["lengths"]:
        _say(f"{name}: passkey is left out: no length has room for statement and question")
        return None
    means = [sum(row) / len(row) for row in found["accuracy"]]
    shown = "  ".join(f"{mean:.2f}" for mean in means)
    _say(f"{name}: passkey at {found['lengths']}: {shown} (chance {found['chance']:.2f})")
    return found


def _describe_model(model: Decoder) -> dict[str, Any]:
    encoding = model.config.encoding
    name = encoding_name(encoding)
    inter = encoding
    if isinstance(model.scheme, Bilevel):
        inter = encoding["inter"] | {"far": encoding.get("far")}
    return {
        "name": name,
        "encoding": encoding,
        "levels": "bilevel" if isinstance(model.scheme, Bilevel) else "flat",
        "family": encoding_name(inter),
        "parameters": sum(p.numel() for p in model.parameters()),
        "config": dataclasses.asdict(model.config),
    }


def _describe_training(
    folder: Path, notes: dict[str, Any], config: dict[str, Any], row_length: int
) -> dict[str, Any]:
    metrics = [row for row in read_metrics(folder / runs.METRICS) if row["loss"] is not None]
    clipped = [row["clipped_share"] for row in metrics if row["clipped_share"] is not None]
    return {
        "row_length": row_length,
        "tokens": notes.get("tokens"),
        "steps": notes.get("steps"),
        "seconds": metrics[-1]["seconds"] if metrics else None,
        "seed": config.get("seed"),
        "sources": notes.get("sources", {}),
        "curve": [[row["tokens"], row["loss"]] for row in metrics],
        "skipped_steps": notes.get("skipped_steps", 0),
        "clipped_share": sum(clipped) / len(clipped) if clipped else None,
    }


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
