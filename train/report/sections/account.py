"""The end of the page: how the numbers were made, on what, and what they do not show."""

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

from train.disk.manifest import redacted
from train.report.content import Block, Heading, Html, Items, Table, Words, note
from train.report.formats import DASH, count
from train.report.sections.curves import protocols
from train.report.table import Results

_LIMITS = ("size", "bars", "nearest", "segments", "bytes")


def account(results: Results) -> Iterator[Block]:
    if not results.arms:
        return
    yield from _protocols(results)
    yield Heading("Interpretation and limits")
    yield Items([note("account", name) for name in _LIMITS])
    yield Heading("Machine and versions")
    machines = {run.label: run.machine for run in results.runs if run.machine}
    yield from filter(None, _compared(machines))
    configs = {shown.label: redacted(dict(shown.run.config)) for shown in results.runs}
    yield Heading("Configuration")
    _, differ = _compared(configs)
    yield differ or Words(note("account", "alike", runs=len(configs)))
    for shown in results.runs:
        whole = {"model": redacted(dict(shown.run.model)), "config": configs[shown.label]}
        if read := shown.run.notes.get("documents"):
            whole["documents"] = redacted(dict(read))
        text = json.dumps(whole, indent=2, ensure_ascii=False, default=str)
        yield Html("details", {"summary": f"{shown.label}: encoding, model and run", "text": text})


def _protocols(results: Results) -> Iterator[Block]:
    rows = results.cells("perplexity")
    notes = protocols(rows)
    skipped = results.table[results.table.measure == "left_out"]
    if notes or len(skipped):
        yield Heading("Protocol")
    for text in notes:
        whose = f" ({', '.join(rows[rows.note == text].arm.unique())})" if len(notes) > 1 else ""
        yield Words(bold=f"Perplexity{whose}: ", text=text)
    if len(skipped):
        lengths = [DASH if math.isnan(length) else count(length) for length in skipped.length]
        columns = ["label", "variant", "task", "source", "length", "note"]
        cells = skipped.assign(length=lengths)[columns].astype(str).values.tolist()
        head = ["not measured", "variant", "task", "source", "length", "reason"]
        yield Table(head, cells, words=True)


def _compared(values: Mapping[str, Any]) -> tuple[Table | None, Table | None]:
    """Return tables of dotted keys: of values that all share, and with a column for each name."""
    flats = [dict(_flat(value)) for value in values.values()]
    keys = dict.fromkeys(key for flat in flats for key in flat)
    rows = [[key, *(flat.get(key, DASH) for flat in flats)] for key in keys]
    same = [row[:2] for row in rows if len(set(row[1:])) == 1]
    differ = [row for row in rows if len(set(row[1:])) > 1]
    return (
        Table(["key", "value"], same, words=True) if same else None,
        Table(["differs in", *values], differ, words=True) if differ else None,
    )


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for name, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{prefix}{name}.")
        else:
            text = value if isinstance(value, str) else json.dumps(value, default=str)
            yield f"{prefix}{name}", text
