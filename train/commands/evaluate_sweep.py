"""The part of `bipe evaluate` that compares ways to stretch trained models (sweep=stretch).

RUN/sweep/KEY.json      one measurement each, written when it is done
RUN/evaluation.json     its section `stretch`, of all of them

KEY stands for all that a measurement depends on: the weights, the configuration, the texts, the
protocol. So a sweep that was stopped goes on where it was, one with more methods or runs measures
what is new, and nothing is taken for what it is not.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from bipe import Decoder
from bipe.checkpoint import WEIGHTS, load_model
from train.commands.evaluate_clock import Clock
from train.config import Config
from train.data.store.shards import DataSet
from train.data.tokenizing.tokenizers import Tokenizer
from train.disk.files import write_whole
from train.evals.passkey import passkey
from train.evals.perplexity import Measure, Texts, long_documents, perplexity_by_length
from train.evals.sweep import NONE, Cell, Plan, plan
from train.fit import runs
from train.report.formats import duration

FOLDER = "sweep"
SECTION = "stretch"
_SCORES = (
    "perplexity", "perplexity_low", "perplexity_high", "bits_per_byte", "tokens_scored",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class _Run:
    """A trained run, what is to be measured of it, and on what."""

    folder: Path
    weights: str
    row_length: int
    plan: Plan
    texts: Mapping[str, Texts]
    measure: Measure


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """A cell, what it is called, and where its measurement is written."""

    name: str
    cell: Cell
    path: Path

    @property
    def key(self) -> tuple[str, int]:
        """Equal for cells that are measured once."""
        return self.cell.model, self.cell.length


def sweep_runs(
    study: Config,
    folders: list[Path],
    splits: Mapping[str, DataSet],
    tokenizer: Tokenizer,
    *,
    measure_of: Callable[[Config, int], Measure],
) -> None:
    """Measure all cells of all runs that are not measured yet; complete their evaluation.json."""
    planned = [_planned(study, folder, splits, tokenizer, measure_of) for folder in folders]
    cells = {run.folder: _cells(study, run, splits) for run in planned}
    todo = {folder: [one for one in own if not one.path.exists()] for folder, own in cells.items()}
    clock = Clock(lengths=[one.cell.length for own in todo.values() for one in own])
    for run in planned:
        model = _loaded(study, run.folder) if todo[run.folder] else None
        for one in todo[run.folder]:
            assert model is not None
            begin = time.monotonic()
            found = _measured(study, run, model, one.cell, splits, tokenizer)
            one.path.parent.mkdir(exist_ok=True)
            write_whole(one.path, json.dumps(found, allow_nan=True) + "\n")
            left = clock.done(one.cell.length, time.monotonic() - begin)
            _say(f"{run.folder.name}: {one.name}: {clock} measured, {duration(left)} to go")
        _complete(run, {one.key: json.loads(one.path.read_text()) for one in cells[run.folder]})


def kept_sweep(folder: Path) -> dict[str, Any]:
    """The section of an older evaluation.json, if the weights are still those it is of."""
    try:
        section = json.loads((folder / runs.EVALUATION).read_text())[SECTION]
        same = section["weights"] == _digest(folder)
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return {SECTION: section} if same else {}


def _planned(
    study: Config,
    folder: Path,
    splits: Mapping[str, DataSet],
    tokenizer: Tokenizer,
    measure_of: Callable[[Config, int], Measure],
) -> _Run:
    options = study.evaluate.sweep
    assert options is not None
    model, notes = load_model(folder / runs.MODEL, allowed=study.allowed)
    row_length = runs.first_row_length(notes) or study.row_length
    lengths = [factor * row_length for factor in sorted(set(study.evaluate.lengths))]
    texts = {
        name: long_documents(
            data, longest=lengths, limit=study.evaluate.documents, text=tokenizer.decode
        )
        for name, data in splits.items()
    }
    found = plan(
        model.config,
        notes=notes,
        methods={name: None if name == NONE else options.stretch[name] for name in options.methods},
        units=options.units,
        factor=options.factor,
        lengths=lengths,
        row_length=row_length,
        allowed=study.allowed,
    )
    for name, reason in found.left_out.items():
        _say(f"{folder.name}: {name} is left out: {reason}")
    return _Run(
        folder=folder,
        weights=_digest(folder),
        row_length=row_length,
        plan=found,
        texts=texts,
        measure=measure_of(study, row_length),
    )


def _loaded(study: Config, folder: Path) -> Decoder:
    model, _ = load_model(folder / runs.MODEL, allowed=study.allowed)
    return model.eval().to("cuda" if torch.cuda.is_available() else "cpu")


def _cells(study: Config, run: _Run, splits: Mapping[str, DataSet]) -> list[_Place]:
    """The cells of a run; equal ones once."""
    passkey_options = study.evaluate.passkey
    shared = {
        "weights": run.weights,
        "texts": {name: _fingerprint(texts) for name, texts in run.texts.items()},
        "data": {name: data.manifest for name, data in splits.items()},
        "passkey": None if passkey_options is None else dataclasses.asdict(passkey_options),
        "seed": study.seed,
    }
    own = hashlib.sha256(json.dumps(shared, sort_keys=True, default=str).encode()).hexdigest()
    cells: dict[tuple[str, int], _Place] = {}
    for line in run.plan.lines:
        for cell in line.cells:
            protocol = repr(run.measure.at(cell.length))
            key = f"{own} {cell.model} {cell.length} {protocol}".encode()
            path = run.folder / FOLDER / f"{hashlib.sha256(key).hexdigest()[:32]}.json"
            counted = f" ({line.unit})" if line.unit else ""
            name = f"{line.method}{counted} at {cell.length} tokens"
            place = _Place(name=name, cell=cell, path=path)
            cells.setdefault(place.key, place)
    return list(cells.values())


def _measured(
    study: Config,
    run: _Run,
    trained: Decoder,
    cell: Cell,
    splits: Mapping[str, DataSet],
    tokenizer: Tokenizer,
) -> dict[str, Any]:
    model = Decoder(cell.config, allowed=study.allowed)
    # The tensors of the run's own model: no copy a cell.
    model.load_state_dict(trained.state_dict(), assign=True)
    model.eval().to(trained.head.weight.device)
    sources = {}
    for name, texts in run.texts.items():
        found = perplexity_by_length(
            model,
            texts,
            measure=run.measure,
            lengths=[cell.length],
            tokens_per_batch=study.evaluate.tokens_per_batch,
        )
        if found["lengths"]:
            sources[name] = {score: found[score][0] for score in _SCORES}
            sources[name]["protocol"] = found["protocol"]
    return {"sources": sources, "passkey": _passkey(study, model, cell, splits, tokenizer)}


def _passkey(
    study: Config, model: Decoder, cell: Cell, splits: Mapping[str, DataSet], tokenizer: Tokenizer
) -> dict[str, Any] | None:
    options = study.evaluate.passkey
    if options is None or not splits:
        return None
    found = passkey(
        model,
        splits[options.source or next(iter(splits))],
        tokenizer,
        lengths=[cell.length],
        depths=options.depths,
        trials=options.trials,
        candidates=options.candidates,
        tokens_per_batch=study.evaluate.tokens_per_batch,
        seed=study.seed,
    )
    if not found["lengths"]:
        return None
    return {
        "accuracy": sum(found["accuracy"][0]) / len(options.depths),
        "exact": sum(found["exact"][0]) / len(options.depths),
        "chance": found["chance"],
        "trials": options.trials * len(options.depths),
        "protocol": found["protocol"],
    }


def _complete(run: _Run, results: Mapping[tuple[str, int], Mapping[str, Any]]) -> None:
    """Write the section of a run into its evaluation.json."""
    section = {
        "weights": run.weights,
        "row_length": run.row_length,
        "lines": [
            {
                "method": line.method,
                "unit": line.unit,
                "report": line.report,
                "lengths": [cell.length for cell in line.cells],
                "factors": [cell.factor for cell in line.cells],
                "cells": [results[cell.model, cell.length] for cell in line.cells],
            }
            for line in run.plan.lines
        ],
        "left_out": dict(run.plan.left_out),
    }
    path = run.folder / runs.EVALUATION
    whole = json.loads(path.read_text()) | {SECTION: section}
    write_whole(path, json.dumps(whole, indent=1, allow_nan=True) + "\n")


def _digest(folder: Path) -> str:
    with (folder / runs.MODEL / WEIGHTS).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _fingerprint(texts: Texts) -> str:
    whole = hashlib.sha256(texts.tokens.tobytes())
    whole.update(texts.marks.tobytes())
    return f"{texts.tokens.shape} {texts.bytes} {whole.hexdigest()}"


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
