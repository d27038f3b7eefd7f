"""Every number of the report as flat rows, and those rows as CSV and as JSON.

One row is one number: which run and source it belongs to, what it measures and in which unit, where
(length, depth, a range of positions or of segment lengths), the value as measured. A value that is
not finite is empty in the CSV and null in the JSON, and the note says what it was.
"""

import csv
import io
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace

from train.report.markup import visible
from train.report.records import (
    Arithmetic,
    Lengths,
    Passkey,
    Run,
    Scores,
    SourceStatistics,
    Stretched,
)

FORMAT = "bipe-report/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One number; `low` and `high` bound a bin, `document_*` the length of the documents."""

    model: str = ""
    seed: int | None = None
    source: str = ""
    measure: str
    unit: str
    length: int | None = None
    depth: float | None = None
    operators: int | None = None
    low: float | None = None
    high: float | None = None
    document_low: int | None = None
    document_high: int | None = None
    value: float | None
    note: str = ""


def rows(runs: Sequence[Run], statistics: Mapping[str, SourceStatistics]) -> tuple[Row, ...]:
    """All rows: runs in their order, then the statistics of the data."""
    measured = [
        replace(row, model=visible(run.label), seed=run.training.seed)
        for run in runs
        for row in _of_run(run)
    ]
    counted = [
        replace(row, source=visible(name))
        for name, held in statistics.items()
        for row in _of_source(held)
    ]
    return tuple(_finite(row) for row in (*measured, *counted))


def as_csv(table: Iterable[Row]) -> str:
    """The rows as CSV with one line of names; numbers are written so that they read back equal."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([field.name for field in fields(Row)])
    for row in table:
        values = asdict(row).values()
        writer.writerow(["" if value is None else value for value in values])
    return text.getvalue()


def as_json(table: Iterable[Row], *, title: str) -> str:
    """The same rows as strict JSON, `{"format", "title", "rows"}`; absent fields are left out."""
    kept = [{k: v for k, v in asdict(row).items() if (v is not None and v != "") or k == "value"}
            for row in table]  # fmt: skip
    whole = {"format": FORMAT, "title": visible(title), "rows": kept}
    return json.dumps(whole, indent=1, allow_nan=False, ensure_ascii=False) + "\n"


def _of_run(run: Run) -> Iterator[Row]:
    cost = run.training
    for measure, unit, value in (
        ("parameters", "", run.model.parameters),
        ("training_row_length", "tokens", cost.row_length),
        ("training_tokens", "tokens", cost.tokens),
        ("training_steps", "steps", cost.steps),
        ("training_seconds", "seconds", cost.seconds),
        ("training_skipped_steps", "steps", cost.skipped_steps),
        ("training_clipped_share", "share", cost.clipped_share),
    ):
        yield Row(measure=measure, unit=unit, value=value)
    for source, share in cost.sources.items():
        yield Row(source=visible(source), measure="training_share", unit="share", value=share)
    # Tokens seen are the upper end of what the loss was reached with, so they stand in `high`.
    for tokens, loss in cost.curve:
        yield Row(measure="training_loss", unit="nats/token", high=tokens, value=loss)
    for source, scores in run.scores.items():
        yield from (replace(row, source=visible(source)) for row in _of_scores(scores))
    if run.passkey:
        yield from _of_passkey(run.passkey)
    for line in run.stretched:
        yield from _of_stretched(line)
    if run.arithmetic:
        yield from _of_arithmetic(run.arithmetic)


def _of_scores(scores: Scores) -> Iterator[Row]:
    for field, unit in (
        ("perplexity", ""),
        ("bits_per_byte", "bits/byte"),
        ("nll", "nats/token"),
        ("tokens_scored", "tokens"),
        ("documents", "documents"),
    ):
        for length, value in zip(scores.lengths, getattr(scores, field), strict=True):
            yield Row(measure=field, unit=unit, length=length, value=value)
    held = scores.by_position
    if held:
        for index, (nll, tokens) in enumerate(zip(held.nll, held.tokens, strict=True)):
            low, high = held.edges[index : index + 2]
            bin_ = Row(measure="nll_by_position", unit="nats/token", length=held.length,
                       low=low, high=high, value=nll)  # fmt: skip
            yield bin_
            yield replace(bin_, measure="tokens_by_position", unit="tokens", value=tokens)


def _of_passkey(passkey: Passkey) -> Iterator[Row]:
    yield Row(measure="passkey_trials", unit="trials", value=passkey.trials)
    yield Row(measure="passkey_chance", unit="share", value=passkey.chance)
    for measure, grid in (("accuracy", passkey.accuracy), ("exact", passkey.exact)):
        for length, line in zip(passkey.lengths, grid, strict=True):
            for depth, value in zip(passkey.depths, line, strict=True):
                yield Row(measure=f"passkey_{measure}", unit="share", length=length,
                          depth=depth, value=value)  # fmt: skip


def _of_arithmetic(held: Arithmetic) -> Iterator[Row]:
    for place, operators in enumerate(held.operators):
        low, high = held.interval[place]
        yield Row(measure="arithmetic_problems", unit="problems", operators=operators,
                  value=held.problems[place])  # fmt: skip
        yield Row(measure="arithmetic_answer", unit="share", operators=operators, low=low,
                  high=high, value=held.answer[place])  # fmt: skip
        for measure in ("steps", "tokens"):
            yield Row(measure=f"arithmetic_{measure}", unit="share", operators=operators,
                      value=getattr(held, measure)[place])  # fmt: skip


def _of_stretched(line: Stretched) -> Iterator[Row]:
    """The note says how the model was stretched."""
    for source in line.perplexity:
        for measure, unit, values in (
            ("stretched_perplexity", "", line.perplexity[source]),
            ("stretched_bits_per_byte", "bits/byte", line.bits_per_byte[source]),
            ("stretched_tokens_scored", "tokens", line.tokens_scored[source]),
        ):
            for length, value in zip(line.lengths, values, strict=True):
                yield Row(source=visible(source), measure=measure, unit=unit, length=length,
                          value=value, note=visible(line.name))  # fmt: skip
    for length, share in zip(line.lengths, line.passkey, strict=True):
        yield Row(measure="stretched_passkey_accuracy", unit="share", length=length,
                  value=share, note=visible(line.name))  # fmt: skip


def _of_source(held: SourceStatistics) -> Iterator[Row]:
    for measure, count in (
        ("documents", held.documents),
        ("tokens", held.tokens),
        ("bytes", held.bytes),
    ):
        yield Row(measure=measure, unit=measure, value=count)
    yield from _of_lengths(held.lengths, held.edges)
    for bucket in held.buckets:
        whole = Row(measure="documents", unit="documents", value=bucket.documents)
        each = Row(measure="segments_per_document", unit="segments",
                   value=bucket.segments_per_document)  # fmt: skip
        for row in (whole, each, *_of_lengths(bucket.lengths, held.edges)):
            yield replace(row, document_low=bucket.low, document_high=bucket.high)


def _of_lengths(held: Lengths, edges: Sequence[float]) -> Iterator[Row]:
    for measure, unit, value in (
        ("segments", "segments", held.segments),
        ("tokens_per_segment_mean", "tokens", held.mean),
        ("tokens_per_segment_max", "tokens", held.longest),
        ("share_of_length_1", "share", held.share_of_length_1),
        *((f"tokens_per_segment_p{rank}", "tokens", v) for rank, v in held.percentiles.items()),
    ):
        yield Row(measure=measure, unit=unit, value=value)
    for low, high, segments in zip(edges, edges[1:], held.histogram, strict=False):
        upper = high if math.isfinite(high) else None
        yield Row(measure="segments_of_length", unit="segments", low=low, high=upper,
                  value=segments)  # fmt: skip


def _finite(row: Row) -> Row:
    if row.value is None or math.isfinite(row.value):
        return row
    return replace(row, value=None, note=f"{row.note} not finite: {row.value}".lstrip())
