"""Every number of the report as flat rows, and those rows as CSV and as JSON.

One row is one number: which run and source it belongs to, what it measures and in which unit, where
(length, depth, a range of positions or of segment lengths), the value as measured. Means over
seeds are rows of their own without a seed. A value that is
not finite is empty in the CSV and null in the JSON, and the note says what it was.
"""

import csv
import io
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields, replace

from train.report.markup import visible
from train.report.numbers_means import of_arm
from train.report.numbers_runs import of_run
from train.report.numbers_scrolls import of_scrolls
from train.report.records import Lengths, Run, SourceStatistics
from train.report.row import Row
from train.report.scrolls import ScrollsModel
from train.report.seeds import arms

FORMAT = "bipe-report/1"


def rows(
    runs: Sequence[Run],
    statistics: Mapping[str, SourceStatistics],
    scrolls: Sequence[ScrollsModel] = (),
) -> tuple[Row, ...]:
    """All rows: runs in their order, means over seeds, SCROLLS, then the statistics of the data."""
    measured = [
        replace(row, model=visible(run.label), seed=run.training.seed)
        for run in runs
        for row in of_run(run)
    ]
    means = [replace(row, model=visible(arm.label)) for arm in arms(runs) for row in of_arm(arm)]
    scored = [row for model in scrolls for row in of_scrolls(model)]
    counted = [
        replace(row, source=visible(name))
        for name, held in statistics.items()
        for row in _of_source(held)
    ]
    return tuple(_finite(row) for row in (*measured, *means, *scored, *counted))


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
