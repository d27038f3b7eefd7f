"""The section `stretch` of an evaluation.json (`bipe evaluate sweep=stretch`) as records."""

from __future__ import annotations

import math

from train.report.entry import Entry
from train.report.records import Stretched


def stretched(entry: Entry | None) -> tuple[Stretched, ...]:
    """One record a line of the sweep; none without a section."""
    return () if entry is None else tuple(_line(line) for line in entry["lines"].entries())


def _line(entry: Entry) -> Stretched:
    lengths = entry["lengths"].rising(least=1)
    cells = entry["cells"].entries()
    if len(cells) != len(lengths):
        raise entry["cells"].fault(f"a list of {len(lengths)} cells, one a length")
    unit = entry.optional("unit")
    sources = list(dict.fromkeys(name for cell in cells for name, _ in cell["sources"].items()))
    return Stretched(
        method=entry["method"].text(),
        unit=unit.text() if unit else "",
        lengths=lengths,
        factors=entry["factors"].numbers(length=len(lengths)),
        perplexity={name: _numbers(cells, name, "perplexity") for name in sources},
        bits_per_byte={name: _numbers(cells, name, "bits_per_byte") for name in sources},
        tokens_scored={name: _counts(cells, name) for name in sources},
        passkey=tuple(map(_found, cells)),
        protocol=_protocol(cells),
    )


def _numbers(cells: list[Entry], source: str, score: str) -> tuple[float, ...]:
    held = [cell["sources"].optional(source) for cell in cells]
    return tuple(math.nan if one is None else one[score].number() for one in held)


def _counts(cells: list[Entry], source: str) -> tuple[int, ...]:
    held = [cell["sources"].optional(source) for cell in cells]
    return tuple(0 if one is None else one["tokens_scored"].count() for one in held)


def _found(cell: Entry) -> float:
    passkey = cell.optional("passkey")
    return math.nan if passkey is None else passkey["accuracy"].number()


def _protocol(cells: list[Entry]) -> str:
    told = [one["protocol"].text() for cell in cells for _, one in cell["sources"].items()]
    return told[0] if told else ""
