"""Run folders and a data folder, read into one table of rows.

    RUN/evaluation.jsonl    what `bipe evaluate` and `bipe scrolls` measured (train/evals/rows.py)
    RUN/environment.json    the machine it was measured on
    RUN/config.yaml, metrics.csv, model/                     the trained run (fit/trained_run.py)
    DATA/statistics.json and manifest.json of `bipe prepare` segments of each source
    segment_statistics.json of `bipe evaluate statistics`    segments against document length

What is not as bipe writes it is refused by the name of its file.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from train.errors import ReportError
from train.evals.rows import FILE, LEFT_OUT, Journal, Row, key_of
from train.fit.checkpoints import Place
from train.fit.runs import ENVIRONMENT
from train.fit.trained_run import TrainedRun, read_run
from train.report.labels import LabelledRun, run_labels
from train.report.table import Results, as_table

GROWTH = "bipe-segment-statistics/1"


def load(
    places: Iterable[Place], *, data: Path | None = None, counted: Path | None = None
) -> Results:
    """Return the results of runs and checkpoints, in their order.

    data: a prepared folder. counted: the file of `bipe evaluate statistics`. Raises UserError.
    """
    unique = {(place.home.resolve(), place.step): place for place in places}.values()
    runs = [read_run(place) for place in unique]
    labelled = [
        LabelledRun(run=run, arm=arm, label=label, machine=_machine(run))
        for run, (arm, label) in zip(runs, run_labels(runs), strict=True)
    ]
    sources, counts = _of_data(data) if data is not None else ({}, [])
    return Results(
        runs=labelled,
        table=pd.concat([*map(_table, labelled), as_table(counts)], ignore_index=True),
        sources=sources,
        growth=load_growth(counted) if counted is not None else None,
    )


def _machine(run: TrainedRun) -> Mapping[str, Any]:
    path = run.folder / ENVIRONMENT
    return _json(path, "bipe evaluate") if path.exists() else {}


@contextmanager
def _as_written(path: Path, by: str) -> Iterator[None]:
    """Raise ReportError with the file and its cure for what is not as a command writes it."""
    try:
        yield
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as fault:
        words = f"{fault} is missing" if isinstance(fault, KeyError) else str(fault)
        raise ReportError(f"{path}: not as {by} writes it ({words}); run {by} again") from None


def _json(path: Path, by: str) -> dict[str, Any]:
    with _as_written(path, by):
        value = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(value, dict):
            raise ValueError("not a mapping")
        return value


def _table(labelled: LabelledRun) -> pd.DataFrame:
    """Return the rows of a run; those of a checkpoint are then without its step."""
    run = labelled.run
    path = run.folder / FILE
    journal = Journal(path)
    newest = journal.rows()
    with _as_written(path, "bipe evaluate"):
        rows = [
            replace(row, step=None) if row.step == run.step else row
            for row in _identified(journal.rows(replaced=True))
            if run.step is None or row.step is not None  # or else of the trained model
            if row.measure != LEFT_OUT or row in newest
        ]
        return as_table([*_of_training(run), *rows], **labelled.columns)


def _identified(rows: Sequence[Row]) -> Iterator[Row]:
    """Yield the rows, those of perplexities without a measurement (of older versions) with one.

    Its name and digest are of the note, in which the first number is the length.
    """
    cells: dict[tuple[Any, ...], dict[str, Row]] = {}
    for row in rows:
        cells.setdefault((row.variant, row.source, row.length, row.step), {})[row.measure] = row
    names = {place: _identity(measures) for place, measures in cells.items()}
    for row in rows:
        name = names[row.variant, row.source, row.length, row.step]
        old = not (row.measurement or row.task)
        yield replace(row, measurement=name) if old and name else row


def _identity(measures: Mapping[str, Row]) -> str:
    documents, scored = (measures.get(name) for name in ("documents", "tokens_scored"))
    if "perplexity" not in measures or documents is None or documents.value is None:
        return ""
    note = re.sub(r"\d+", "N", measures["perplexity"].note.partition(" (not finite:")[0], count=1)
    parts = [note.partition(":")[0], f"{documents.value:,.0f} documents"]
    # All tokens of each document: another number at each length, but of one measurement.
    if scored and scored.value and scored.value != documents.value * (scored.length or 0):
        parts.append(f"{scored.value:,.0f} tokens scored")
    return ", ".join([*parts, f"[{key_of(note)[:8]}]"])


def _of_training(run: TrainedRun) -> Iterator[Row]:
    notes, clamped = run.notes, run.known("clamped_share")
    memory = max(run.known("peak_memory_gib"), default=None)
    for measure, unit, value in (
        ("parameters", "", run.parameters),
        ("training_row_length", "tokens", run.row_length),
        ("training_tokens", "tokens", notes.get("tokens")),
        ("training_steps", "steps", notes.get("steps")),
        ("training_seconds", "seconds", run.metrics[-1].get("seconds") if run.metrics else None),
        ("training_memory", "GiB", memory),
        ("training_skipped_steps", "steps", notes.get("skipped_steps", 0)),
        ("clamped_share", "share", sum(clamped) / len(clamped) if clamped else None),
    ):
        if isinstance(value, int | float) and not math.isnan(value):
            yield Row(measure=measure, unit=unit, value=value)
    for source, weight in (notes.get("sources") or {}).items():
        yield Row(measure="training_share", unit="share", source=str(source), value=float(weight))
    for tokens, loss in run.curve:
        yield Row(measure="training_loss", unit="nats/token", stop=tokens, value=loss)


def load_growth(file: Path) -> Mapping[str, Any]:
    """Return what `bipe evaluate statistics` wrote; ReportError if its format is another."""
    by = "bipe evaluate statistics"
    counted = _json(file, by)
    with _as_written(file, by):
        if counted["format"] != GROWTH:
            raise ValueError(f"its format is {counted['format']!r:.80}, not {GROWTH!r}")
    return counted


_UNITS = {"documents": "documents", "tokens": "tokens", "bytes": "bytes",
          "segments_per_document": "segments", "segments": "segments", "mean": "tokens",
          "max": "tokens", "share_of_length_1": "share"}  # fmt: skip
_LENGTHS = ("mean", "max")  # of tokens per segment


def _of_data(folder: Path) -> tuple[dict[str, Any], list[Row]]:
    """Return the facts on each source, with the edges of the histograms, and its rows."""
    path = folder / "statistics.json"
    manifest, statistics = (_json(folder / name, "bipe prepare")
                            for name in ("manifest.json", path.name))  # fmt: skip
    sources: dict[str, Any] = {}
    rows: list[Row] = []
    with _as_written(path, "bipe prepare"):
        edges = statistics["segment_edges"]
        for name, entry in statistics["sources"].items():
            stated, row = manifest["sources"][name], Row(source=name, measure="", value=None)
            totals = {measure: sum(split[measure] for split in stated["splits"].values())
                      for measure in ("documents", "tokens", "bytes")}  # fmt: skip
            read = stated.get("documents")
            sources[name] = {**stated, **entry, **totals, "edges": edges,
                             "documents_read": read if isinstance(read, dict) else {}}  # fmt: skip
            rows += _rows_of(totals | entry["tokens_per_segment"], edges, row)
            for bucket in entry["by_document_length"]:
                low, high = bucket["from"], bucket["to"]
                span = f"{low} tokens and more" if high is None else f"{low} to {high - 1} tokens"
                rows += _rows_of(
                    bucket, edges, replace(row, length=low, note=f"documents of {span}")
                )
    return sources, rows


def _rows_of(counts: Mapping[str, Any], edges: Sequence[int], row: Row) -> Iterator[Row]:
    """Yield the rows of documents: how many, and how many tokens their segments have."""
    for name, unit in _UNITS.items():
        if name in counts:
            measure = f"tokens_per_segment_{name}" if name in _LENGTHS else name
            yield replace(row, measure=measure, unit=unit, value=counts[name])
    if "segments" not in counts:
        return
    for rank, tokens in counts["percentiles"].items():
        yield replace(row, measure=f"tokens_per_segment_p{rank}", unit="tokens", value=tokens)
    for low, high, count in zip(edges, (*edges[1:], math.inf), counts["histogram"], strict=True):
        yield replace(row, measure="segments_of_length", unit="segments", start=low, stop=high,
                      value=count)  # fmt: skip
