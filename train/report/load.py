"""Run folders and a data folder, read into one table of rows.

    RUN/evaluation.jsonl    what `bipe evaluate` and `bipe scrolls` measured (train/evals/rows.py)
    RUN/environment.json    the machine it was measured on
    RUN/config.yaml, metrics.csv, model/                     the trained run (fit/trained_run.py)
    DATA/statistics.json and manifest.json of `bipe prepare` segments of each source
    segment_statistics.json of `bipe evaluate statistics`    segments against document length

Everything is checked here. Unknown keys are ignored: a newer version may write more.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from types import NoneType
from typing import Any

from train.errors import ReportError
from train.evals.rows import FILE, Journal, Row
from train.fit.checkpoints import Place
from train.fit.runs import ENVIRONMENT
from train.fit.trained_run import TrainedRun, read_run
from train.report.table import Results, as_table

GROWTH = "bipe-segment-statistics/1"
_MOST = 2**63 - 1  # what int64 columns of pandas hold
_SHOWN = 80  # characters of an invalid value in an error
_KINDS: dict[Any, tuple[tuple[type, ...], str]] = {
    str: ((str,), "a text"),
    int | None: ((int, NoneType), "a whole number"),
    float | None: ((int, float, NoneType), "a number"),
}
_LEAST = {"length": 1, "operators": 1, "start": 0, "stop": 0, "depth": 0, "number": 0}
_LENGTHS = {"segments": int, "mean": float, "max": int, "percentiles": dict,
            "share_of_length_1": float}  # fmt: skip
_BUCKET = {"from": int, "documents": int, "segments_per_document": float}


def load(
    places: Iterable[Place], *, data: Path | None = None, counted: Path | None = None
) -> Results:
    """Return the results of runs and checkpoints, in their order.

    data: a prepared folder. counted: the file of `bipe evaluate statistics`. Raises UserError.
    """
    unique = {(place.home.resolve(), place.step): place for place in places}.values()
    runs = [read_run(place) for place in unique]
    rows = [[*_of_training(run), *_measured(run)] for run in runs]
    sources, counts = _of_data(data) if data is not None else ({}, [])
    return Results(
        runs=runs,
        table=as_table(runs, rows, counts),
        environments=[
            _Entry.root(path, cure="bipe evaluate writes it").value if path.exists() else {}
            for path in (run.folder / ENVIRONMENT for run in runs)
        ],
        sources=sources,
        growth=load_growth(counted) if counted is not None else None,
    )


def _measured(run: TrainedRun) -> Iterator[Row]:
    """Yield the checked rows of a run; those of a checkpoint are then without its step."""
    path = run.folder / FILE
    for row in Journal(path).rows():
        if run.step is not None and row.step is None:
            continue  # of the trained model
        for field in fields(Row):
            value, (kinds, rule) = getattr(row, field.name), _KINDS[field.type]
            least = _LEAST.get(field.name)
            right = isinstance(value, kinds) and not isinstance(value, bool)
            right = right and not (isinstance(value, int) and abs(value) > _MOST)
            if not right or (least is not None and value is not None and not value >= least):
                rule += "" if least is None else f" of at least {least}"
                raise ReportError(
                    f"{path}: {field.name} of {row.measure!s:.{_SHOWN}} must be {rule}, was: "
                    f"{value!r:.{_SHOWN}}; remove its line and run bipe evaluate again"
                )
        yield replace(row, step=None) if row.step == run.step else row


def _of_training(run: TrainedRun) -> Iterator[Row]:
    notes, clamped = run.notes, run.known("clamped_share")
    for measure, unit, value in (
        ("parameters", "", run.parameters),
        ("training_row_length", "tokens", run.row_length),
        ("training_tokens", "tokens", notes.get("tokens")),
        ("training_steps", "steps", notes.get("steps")),
        ("training_seconds", "seconds", run.metrics[-1].get("seconds") if run.metrics else None),
        ("training_memory", "GiB", max(run.known("peak_memory_gib"), default=None)),
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
    root = _Entry.root(file, cure="bipe evaluate statistics writes it")
    if root["format"].value != GROWTH:
        raise root["format"].fault(f"{GROWTH!r}")
    bins = len(root["segment_edges"].counts())
    for source in root["sources"].each():
        for key in ("tokens_per_segment", "growth", "distance", "separators", "segmenter"):
            source[key]  # raises if it is missing
        _require_buckets(source["by_document_length"], bins)
    return root.value


def _of_data(folder: Path) -> tuple[dict[str, Any], list[Row]]:
    """Return the facts on each source, with the edges of the histograms, and its rows."""
    cure = f"bipe prepare writes it into the data folder {folder}"
    manifest = _Entry.root(folder / "manifest.json", cure=cure)["sources"]
    statistics = _Entry.root(folder / "statistics.json", cure=cure)
    edges = statistics["segment_edges"].counts()
    sources: dict[str, Any] = {}
    rows: list[Row] = []
    for name in statistics["sources"].a(dict):
        entry, stated = statistics["sources"][name], manifest[name]
        _require_buckets(entry["by_document_length"], len(edges))
        if entry["tokens_per_segment"].a(dict):
            _require_lengths(entry["tokens_per_segment"], len(edges))
        if entry["sample"].a(dict):
            text, cuts = entry["sample"]["text"].a(str), entry["sample"]["cuts"].counts()
            if [cuts[0], cuts[-1]] != [0, len(text)] or sorted(set(cuts)) != cuts:
                raise entry["sample"]["cuts"].fault(f"offsets from 0 to {len(text)}, rising")
        totals = {measure: sum(split[measure].a(int) for split in stated["splits"].each())
                  for measure in ("documents", "tokens", "bytes")}  # fmt: skip
        stated["provenance"].a(str), stated["segmenter"].a(dict)
        read = stated.value.get("documents")
        sources[name] = {**stated.value, **entry.value, **totals, "edges": edges}
        sources[name]["documents_read"] = read if isinstance(read, dict) else {}
        rows += [Row(source=name, measure=measure, unit=measure, value=total)
                 for measure, total in totals.items()]  # fmt: skip
        whole = Row(measure="", value=None, source=name)
        rows += _rows_of(entry["tokens_per_segment"].value, edges, whole)
        for held in entry["by_document_length"].value:
            rows += _rows_of_bucket(held, edges, name)
    return sources, rows


def _require_lengths(entry: _Entry, bins: int) -> None:
    entry.has(_LENGTHS)
    if len(entry["histogram"].counts()) != bins:
        raise entry["histogram"].fault(f"a list of {bins} counts")


def _require_buckets(entry: _Entry, bins: int) -> None:
    for bucket in entry.each():
        bucket.has(_BUCKET)
        if bucket["to"].value is not None:
            bucket["to"].a(int)
        _require_lengths(bucket, bins)


def _rows_of_bucket(held: Mapping[str, Any], edges: Sequence[int], source: str) -> Iterator[Row]:
    """Yield the rows of a bin of document lengths; their `length` is its lower edge."""
    low, high = held["from"], held["to"]
    span = f"{low} tokens and more" if high is None else f"{low} to {high - 1} tokens"
    row = Row(source=source, measure="", value=None, length=low, note=f"documents of {span}")
    for measure, unit in (("documents", "documents"), ("segments_per_document", "segments")):
        yield replace(row, measure=measure, unit=unit, value=held[measure])
    yield from _rows_of(held, edges, row)


def _rows_of(held: Mapping[str, Any], edges: Sequence[int], row: Row) -> Iterator[Row]:
    """Yield the rows of a distribution of tokens per segment; other fields are those of `row`."""
    if not held:
        return
    for measure, unit, value in (
        ("segments", "segments", held["segments"]),
        ("tokens_per_segment_mean", "tokens", held["mean"]),
        ("tokens_per_segment_max", "tokens", held["max"]),
        ("share_of_length_1", "share", held["share_of_length_1"]),
        *((f"tokens_per_segment_p{rank}", "tokens", n) for rank, n in held["percentiles"].items()),
    ):
        yield replace(row, measure=measure, unit=unit, value=value)
    for low, high, number in zip(edges, (*edges[1:], math.inf), held["histogram"], strict=True):
        yield replace(row, measure="segments_of_length", unit="segments", start=low, stop=high,
                      value=number)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    """A value of a JSON file with its dotted key, so that an error names the place."""

    file: Path
    value: Any
    cure: str
    key: str = ""

    @classmethod
    def root(cls, file: Path, *, cure: str) -> _Entry:
        try:
            value = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as fault:
            raise ReportError(f"{file}: cannot be read as JSON ({fault}); {cure}") from None
        entry = cls(file=file, value=value, cure=cure)
        entry.a(dict)
        return entry

    def __getitem__(self, name: str) -> _Entry:
        if name not in self.a(dict):
            there = ", ".join(map(str, self.value)) or "none"
            raise ReportError(
                f"{self.file}: {self.key}{name} is missing; the keys here are: {there}; {self.cure}"
            )
        return replace(self, key=f"{self.key}{name}.", value=self.value[name])

    def each(self) -> list[_Entry]:
        if isinstance(self.value, dict):
            return [self[name] for name in self.value]
        return [replace(self, key=f"{self.key}{place}.", value=value)
                for place, value in enumerate(self.a(list))]  # fmt: skip

    def has(self, kinds: Mapping[str, type]) -> None:
        for key, kind in kinds.items():
            self[key].a(kind)

    def counts(self) -> list[int]:
        held = [entry.a(int) for entry in self.each()]
        if not held:
            raise self.fault("a list of at least one whole number")
        return held

    def a(self, kind: type) -> Any:
        """Return the value if it is of a kind; a float may be whole, and no int is negative."""
        wanted = (int, float) if kind is float else kind
        right = isinstance(self.value, wanted) and not isinstance(self.value, bool)
        if right and not (isinstance(self.value, int) and not 0 <= self.value <= _MOST):
            return self.value
        words = {dict: "a mapping", list: "a list", str: "a string", float: "a number"}
        raise self.fault(words.get(kind, "a whole number of at least 0"))

    def fault(self, rule: str) -> ReportError:
        key = self.key.rstrip(".") or "the file"
        return ReportError(
            f"{self.file}: {key} must be {rule}, was: {self.value!r:.{_SHOWN}}; {self.cure}"
        )
